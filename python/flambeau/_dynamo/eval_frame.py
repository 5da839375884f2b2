"""What marks compiled modules and functions."""

from __future__ import annotations

import copy
import sys
from typing import Any

from flambeau.compiler import compile, disable, registered
from flambeau.nn import Module

__all__ = ["OptimizedModule", "disable", "is_dynamo_supported"]


class OptimizedModule(Module):
    """A compiled module. It shares parameters, buffers and attributes with the original, ``_orig_mod``.

    Args:
        mod: the module.
        dynamo_ctx: what runs calls of it; made by `flambeau.compile`.
    """

    _orig_mod: Module
    _program: Any

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        if dynamo_ctx is None:
            raise RuntimeError("OptimizedModule: expected to be made by flambeau.compile, got no context")
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["_program"] = dynamo_ctx
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original through its graphs."""
        return self._program(self._modules["_orig_mod"], *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training":
            self.__dict__[name] = value
        setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._modules["_orig_mod"], name)

    def train(self, mode: bool = True) -> OptimizedModule:
        """Set training mode here and in the original."""
        super().train(mode)
        return self

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])

    def __getitem__(self, key: Any) -> Any:
        return self._modules["_orig_mod"][key]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._anew(copy.deepcopy(self._modules["_orig_mod"], memo))

    def _anew(self, mod: Any) -> Any:
        program = self.__dict__["_program"]
        facts = program.backend, program.is_whole, program.limit, program.sizes.dynamic
        return OptimizedModule(mod, type(program)(program.function, *facts))

    def __reduce__(self) -> Any:
        program = self.__dict__["_program"]
        names = [name for name, backend in registered.items() if backend is program.backend]
        backend = names[0] if names else program.backend
        is_found = names or _is_found_by_name(backend)
        return _restored, (self._modules["_orig_mod"], backend if is_found else None, program.is_whole)


def _is_found_by_name(value: Any) -> bool:
    """Whether a pickle can hold a function."""
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    return getattr(home, getattr(value, "__qualname__", ""), None) is value


def _restored(mod: Module, backend: Any = None, is_whole: bool = False) -> Any:
    """Compile what a pickle holds; without a backend, which not every pickle can hold, it runs as it is."""
    return mod if backend is None else compile(mod, backend=backend, fullgraph=is_whole)


def is_dynamo_supported() -> bool:
    """Whether graphs can be captured from bytecode: with CPython 3.11, 3.12 and 3.13."""
    return (3, 11) <= sys.version_info[:2] <= (3, 13)
