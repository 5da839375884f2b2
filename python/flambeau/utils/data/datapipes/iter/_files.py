"""Streams of file names, open files and what is read from them."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flambeau.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe


class StreamWrapper:
    """An open file, which is closed when nobody refers to it.

    Args:
        file_obj: the file.
        parent_stream: a file that this one is read from.
        name: what it is called in text.
    """

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        self.file_obj, self.parent_stream, self.name, self.closed = file_obj, parent_stream, name, False

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the file."""
        self.closed = True
        self.file_obj.close(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *dir(self.file_obj)})

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        return f"StreamWrapper<{self.name or repr(self.file_obj)}>"

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, file: Any) -> None:
        self.__init__(file)  # type: ignore[misc]

    def __del__(self) -> None:
        if not self.__dict__.get("closed", True):
            self.close()


class _Sized(IterDataPipe):
    """A stream with a given length."""

    length = -1

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(
                f"{type(self).__name__}.__len__: expected a length that is known, got none: "
                f"{type(self).__name__} instance doesn't have valid length"
            )
        return self.length


def _raise(error: OSError) -> None:
    raise error


def _below(root: str, masks: str | list[str], recursive: bool, abspath: bool) -> Iterator[str]:
    patterns = [masks] if isinstance(masks, str) else masks

    def chosen(path: str) -> bool:
        return not masks or any(fnmatch.fnmatch(Path(path).name, pattern) for pattern in patterns)

    if Path(root).is_file():
        shown = os.path.abspath(root) if abspath else root  # noqa: PTH100  (names stay as they were given)
        if chosen(root):
            yield shown
        return
    for folder, folders, files in os.walk(root, onerror=_raise):
        shown = os.path.abspath(folder) if abspath else folder  # noqa: PTH100
        folders.sort()
        yield from (os.path.join(shown, name) for name in sorted(files) if chosen(name))  # noqa: PTH118
        if not recursive:
            break


@functional_datapipe("list_files")
class FileLister(_Sized):
    """Yield the names of files in folders.

    Args:
        datapipe: a folder or file, or several of them.
        masks: patterns; a name must match one of them. "": all names.
        recursive: whether folders within are searched.
        abspath: whether names are absolute.
        non_deterministic: whether a name may come in another order in each pass; they are always sorted.
        length: what `len` says; -1: TypeError.
    """

    def __init__(
        self,
        root: str | Sequence[str] | IterDataPipe = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        self.datapipe = [root] if isinstance(root, str) else root
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            yield from _below(root, self.masks, self.recursive, self.abspath)


@functional_datapipe("open_files")
class FileOpener(_Sized):
    """Yield pairs of a name and the open file.

    Args:
        datapipe: names of files.
        mode: as for `open`; "b" and "t" are "rb" and "rt".
        encoding: as for `open`.
        length: what `len` says; -1: TypeError.
    """

    def __init__(
        self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None, length: int = -1
    ) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(
                f"FileOpener: Invalid mode {mode}: expected a mode of open() for reading, got {mode!r}"
            )
        if "b" in mode and encoding is not None:
            raise ValueError(
                f"FileOpener: binary mode doesn't take an encoding argument: expected None, got {encoding!r}"
            )
        self.datapipe, self.encoding, self.length = datapipe, encoding, length
        self.mode = f"r{mode}" if mode in ("b", "t") else mode

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for name in self.datapipe:
            if not isinstance(name, str):
                raise TypeError(f"FileOpener: Expected string type for pathname, got {type(name).__name__}")
            yield name, StreamWrapper(Path(name).open(self.mode, encoding=self.encoding), name=name)


@functional_datapipe("read_from_stream")
class StreamReader(IterDataPipe):
    """Yield pairs of a name and bytes that are read from the file beside it.

    Args:
        datapipe: pairs of a name and an open file.
        chunk: how many bytes are read at a time; None: all of them.
    """

    def __init__(self, datapipe: IterDataPipe, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name, stream in self.datapipe:
            while data := stream.read(self.chunk):
                yield name, data
            stream.close()
