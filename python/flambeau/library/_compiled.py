"""Operators that compiled libraries have defined by TORCH_LIBRARY, as operators of `library`."""

from __future__ import annotations

import ctypes
import mmap
from importlib import import_module
from pathlib import Path
from typing import Any

from flambeau import _C
from flambeau._arguments.schemas import bind
from flambeau.library import _operators
from flambeau.library._schemas import FunctionSchema, read
from flambeau.ops import CUSTOM

_OF_THE_CALL = 0  # the keys of the arguments and the thread
_seen = 0


class CompiledOperator(_operators.CustomOperator):
    """One overload whose kernels are in C++. The dispatcher calls them, unless Python has added to them."""

    def __init__(self, namespace: str, schema: FunctionSchema) -> None:
        self._plain: dict[str, Any] | None = None
        super().__init__(namespace, schema)
        self.add_kernel("CompositeImplicitAutograd", self, self._in_dispatcher)
        self._plain = dict(self.kernels)
        self.changed()

    def changed(self) -> None:
        """Let C++ call the dispatcher, unless Python has added to the operator."""
        super().changed()
        self._call_entry("" if self._plain is None or self._is_extended() else self.name)

    def _in_dispatcher(self, /, *args: Any, **kwargs: Any) -> Any:
        result = _C._call_operator(self.name, args, kwargs, _OF_THE_CALL)
        if result is NotImplemented:
            bind(self.name, self.schema.parameters, self.schema.defaults, args, kwargs)
            raise RuntimeError(f"{self.name}: expected arguments that fit {self.schema}, got others")
        return result

    def _call_slowly(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the operator through the dispatcher."""
        given = (*args, *kwargs.values())
        if _C._has_torch_function(given):
            return _C._call_overrides(self.overload, given, args, kwargs, False)
        if self._is_extended():
            return super()._call_slowly(*args, **kwargs)
        return self._in_dispatcher(*args, **kwargs)

    def has_meta_in_dispatcher(self) -> bool:
        """Whether C++ gives sizes and dtypes of results, by a kernel for meta tensors."""
        return self.fake is None and "Meta" not in self.kernels

    def _is_extended(self) -> bool:
        """Whether Python has registered a kernel, a derivative or a rule."""
        added = (self.fake, self.backward, self.vmap, self.casts, self.by_device)
        return any(added) or self.kernels != self._plain


def define_new() -> bool:
    """Add what libraries have defined since the last call; whether there was anything."""
    global _seen
    found = _C._defined_operators()
    if len(found) == _seen:
        return False
    _seen = len(found)
    is_new = False
    for name, schema in found:
        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        overloads = CUSTOM.setdefault((space, base), {})
        if overload not in overloads:
            overloads[overload] = CompiledOperator(space, read(schema.partition("::")[2], space))
            is_new = True
    return is_new


# Compiled libraries, as folder and name, whose operators `_surface` has.
_LIBRARIES = {
    ("torchvision", "_C"): "torchvision_operators",
    ("lib", "_torchaudio"): "torchaudio_operators",
    ("lib", "libtorchaudio"): "torchaudio_operators",
}


def load(file: Path) -> None:
    """Load a compiled library; see `ops.load_library`.

    Args:
        file: the library.
    """
    known = _LIBRARIES.get((file.parent.name, file.name.partition(".")[0]))
    if known is not None and file.is_file():
        import_module(f"flambeau._surface.{known}").define()
    else:
        _check_built_for(file)
        try:
            ctypes.CDLL(str(file.absolute()))
        except OSError as error:
            remedy = "libraries that are compiled for PyTorch cannot be loaded; compile it for flambeau"
            raise OSError(f"load_library: {error} ({remedy})") from error
        if errors := _C._take_library_errors():
            raise RuntimeError(f"load_library: {file}: {errors}")


_BUILT_FOR = b"flambeau operators built for: "


def _check_built_for(file: Path) -> None:
    """Refuse generated operators that were built for another flambeau, before any of their code runs."""
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = data.find(_BUILT_FOR)
            end = data.find(b"\0", at)
            built = data[at + len(_BUILT_FOR) : end].decode(errors="replace") if at >= 0 and end > at else ""
    except (OSError, ValueError):  # the loader reports what is wrong with the file
        return
    from flambeau.version import __version__

    here = f"flambeau {__version__}, specification {_C._spec_hash[:16]}"
    if built and built != here:
        raise ImportError(
            f"{file}: expected operators built for {here}, got {built}: build the extension again"
        )
