"""What marks compiled modules and functions."""

from __future__ import annotations

import copy
import sys
from typing import Any

from flambeau.compiler import disable
from flambeau.nn import Module

__all__ = ["OptimizedModule", "disable", "is_dynamo_supported"]


class OptimizedModule(Module):
    """A compiled module. It shares parameters, buffers and attributes with the original, ``_orig_mod``.

    Args:
        mod: the module.
        dynamo_ctx: what runs calls of it; made by `flambeau.compile`.
    """

    _orig_mod: Module

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        if dynamo_ctx is None:
            raise RuntimeError("OptimizedModule: expected to be made by flambeau.compile, got no context")
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["_program"] = dynamo_ctx
        self.__dict__["training"] = mod.training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_program"](self._modules["_orig_mod"], *args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self(*args, **kwargs)

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
        return OptimizedModule(
            mod, type(program)(program.function, program.backend, program.is_whole, program.limit)
        )

    def __reduce__(self) -> Any:
        return _restored, (self._modules["_orig_mod"],)


def _restored(mod: Module) -> Module:
    """Pickles hold the original: functions of backends cannot be pickled."""
    return mod


def is_dynamo_supported() -> bool:
    """Whether graphs can be captured from bytecode: with CPython 3.11."""
    return sys.version_info[:2] == (3, 11)
