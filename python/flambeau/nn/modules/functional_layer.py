"""Layers that call one function with the arguments they were made with."""

from __future__ import annotations

import inspect
from typing import Any

from flambeau import Tensor
from flambeau._loading.documentation import inherited
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

REQUIRED = inspect.Parameter.empty


class FunctionalLayer(Module):
    """A layer that calls a function of `nn.functional` with its constructor's arguments.

    Subclasses declare `function`, its name, which each call looks up, so that a layer calls what a program
    has put in its place; and `options`: names and defaults (or REQUIRED), in the constructor's order;
    with `draws` the function also learns whether the layer is training. Options called `weight` or
    `pos_weight`, and those in `kept_as_buffers`, are buffers, as they move with the layer. Those in `unused`
    are not passed on; with `keyword_only` all are given by name. `shown` are the options that the layer
    prints; None: all.
    """

    function: str = "relu"
    options: dict[str, Any] = {}
    draws = False
    keyword_only = False
    kept_as_buffers: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    shown: tuple[str, ...] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        bound = self.signature().bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if self._is_buffer(name):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    @classmethod
    def signature(cls) -> inspect.Signature:
        """The constructor's signature."""
        parameter = inspect.Parameter
        kind = parameter.KEYWORD_ONLY if cls.keyword_only else parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([parameter(n, kind, default=d) for n, d in cls.options.items()])

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = inspect.signature(cls.__init__)
        variable = any(p.kind is p.VAR_KEYWORD for p in own.parameters.values())
        given = own.replace(parameters=list(own.parameters.values())[1:])
        cls.__signature__ = cls.signature() if variable else given  # type: ignore[attr-defined]
        own_text = vars(cls).get("__doc__")
        if isinstance(own_text, str):
            cls.__doc__ = inherited(own_text, (cls.function,))

    def forward(self, input: Tensor) -> Any:
        """Apply the function."""
        return self._apply_function(input)

    def _apply_function(self, *input: Tensor) -> Any:
        given = {name: getattr(self, name) for name in self.options if name not in self.unused}
        if self.draws:
            given["training"] = self.training
        return getattr(F, type(self).function)(*input, **given)

    def extra_repr(self) -> str:
        names = self.options if self.shown is None else self.shown
        shown = ((n, getattr(self, n)) for n in names if not self._is_buffer(n))
        return ", ".join(f"{n}={v!r}" for n, v in shown if not (n == "inplace" and not v))

    @classmethod
    def _is_buffer(cls, name: str) -> bool:
        return name.endswith("weight") or name in cls.kept_as_buffers
