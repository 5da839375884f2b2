"""Print a pickle without running it: ``python -m flambeau.utils.show_pickle m.pkl`` or ``m.pt@*/data.pkl``.

Classes and functions of the pickle are neither imported nor called; stand-ins take the place of results.
"""

from __future__ import annotations

import fnmatch
import pickle
import pprint
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ClassVar

from flambeau._loading.lazy import attributes

__all__ = ["DumpUnpickler", "FakeClass", "FakeObject", "main"]


class FakeObject:
    """What a call in a pickle would make: the function's name, its arguments, and state set later."""

    def __init__(self, module: str, name: str, args: tuple[Any, ...]) -> None:
        self.module, self.name, self.args = module, name, args
        self.state: Any = None
        self.items: list[tuple[Any, Any]] = []

    def __repr__(self) -> str:
        call = f"{self.module}.{self.name}{self.args!r}"
        call += f"(state={self.state!r})" if self.state is not None else ""
        return call + (f"(items={dict(self.items)!r})" if self.items else "")

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def append(self, value: Any) -> None:
        """Note an element of a list."""
        self.items.append((len(self.items), value))

    def extend(self, values: Any) -> None:
        """Note elements of a list."""
        for value in values:
            self.append(value)


class FakeClass:
    """A class or function that a pickle names."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name
        self.__new__ = self.fake_new  # type: ignore[method-assign,assignment]

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"

    def __call__(self, *args: Any) -> FakeObject:
        """Return what stands for the result."""
        return FakeObject(self.module, self.name, args)

    def fake_new(self, *args: Any) -> FakeObject:
        """Return what stands for an instance; the first argument is the class."""
        return FakeObject(self.module, self.name, args[1:])


class DumpUnpickler(pickle._Unpickler):
    """Reads a pickle into stand-ins.

    Args:
        file: an open file.
        catch_invalid_utf8: whether bytes that are not UTF-8 become a stand-in instead of an error.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: IO[bytes], *, catch_invalid_utf8: bool = False, **kwargs: Any) -> None:
        super().__init__(file, **kwargs)
        self.catch_invalid_utf8 = catch_invalid_utf8

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a class or function."""
        return FakeClass(module, name)

    def persistent_load(self, pid: Any) -> FakeObject:
        """Return what stands for an object that is stored elsewhere."""
        return FakeObject("pers", "obj", (pid,))

    def load_binunicode(self) -> None:
        """Read a text of the length that stands before it."""
        length = int.from_bytes(self.read(4), "little")  # type: ignore[attr-defined]
        if length > sys.maxsize:
            raise pickle.UnpicklingError(
                "show_pickle: expected a text that fits into memory, got a longer one"
            )
        text: bytes = self.read(length)  # type: ignore[attr-defined]
        try:
            self.append(str(text, "utf-8", "surrogatepass"))  # type: ignore[attr-defined]
        except UnicodeDecodeError as error:
            if not self.catch_invalid_utf8:
                raise
            self.append(FakeObject("builtin", "UnicodeDecodeError", (str(error),)))  # type: ignore[attr-defined]

    dispatch[pickle.BINUNICODE[0]] = load_binunicode

    @classmethod
    def dump(cls, in_stream: IO[bytes], out_stream: IO[str] | None) -> Any:
        """Print what a file holds and return it."""
        value = cls(in_stream).load()
        pprint.pprint(value, stream=out_stream)
        return value


def _print_member(file: str, pattern: str, output: IO[str] | None) -> bool:
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if fnmatch.fnmatch(name, pattern):
                with archive.open(name) as member:
                    DumpUnpickler.dump(member, output)
                return True
    return False


def main(argv: list[str], output_stream: IO[str] | None = None) -> int | None:
    """Print the pickle that ``argv[1]`` names: a file, or a zip file, ``@`` and a pattern of its members."""
    if len(argv) != 2:
        print(f"usage: {argv[0] if argv else 'show_pickle'} file.pkl | file.pt@pattern", file=sys.stderr)
        return 2
    file, is_member, pattern = argv[1].partition("@")
    if not is_member:
        with Path(file).open("rb") as stream:
            DumpUnpickler.dump(stream, output_stream)
    elif not _print_member(file, pattern, output_stream):
        raise FileNotFoundError(
            f"show_pickle: no member of {file} matches {pattern}; list the members with zipfile"
        )
    return None


__getattr__, __dir__ = attributes(__name__)

if __name__ == "__main__":
    sys.exit(main(sys.argv))
