"""Functions of `flambeau.masked` over masked tensors: their mask joins the one that is given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def takes_masked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function of ``(input, ..., mask=None)``: a masked tensor stands for its data and mask."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        from flambeau.masked.maskedtensor.pairs import is_masked

        given: dict[str, Any] = dict(kwargs)
        input: Any = args[0] if args else given.get("input")
        if not is_masked(input):
            return function(*args, **kwargs)
        mask, data = input.get_mask().to_dense(), input.get_data().to_dense()
        others: tuple[Any, ...] = args[1:]
        given.pop("input", None)
        if given.get("mask") is not None:
            mask = mask & given["mask"]
        given["mask"] = mask
        return function(data, *others, **given)

    return call
