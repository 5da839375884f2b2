"""functionalize: a function with the same values and effects whose operators write to no memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.func._layers import Layer
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten

_KINDS = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function with the values and effects of `func`, whose operators write to no memory.

    Inside, an operator that writes runs as its functional form, and views of what it wrote are computed
    again. At the end, each argument that was written is copied back by one `copy_`. Modes and transforms
    around the function see the functional operators and these copies.

    Args:
        func: a function of tensors; arguments and results are trees.
        remove: "mutations", or "mutations_and_views" to run views as copies too.
    Returns: the function.
    Raises: RuntimeError for another `remove`, and where the function writes a functional tensor to one that
        it captures.

    Example:
        >>> def f(x):
        ...     y = x.clone()
        ...     y[0].add_(1)
        ...     return y
        >>> flambeau.func.functionalize(f)(flambeau.zeros(2))
        tensor([1., 0.])
    """
    if remove not in _KINDS:
        raise RuntimeError(f"functionalize: expected remove to be one of {_KINDS}, got {remove!r}")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given, spec = tree_flatten((args, kwargs))
        with Layer("functionalize", copies_views=remove == "mutations_and_views") as layer:
            inside = [_C._make_functional(a, layer.level) if isinstance(a, Tensor) else a for a in given]
            inner_args, inner_kwargs = tree_unflatten(inside, spec)
            results = tree_map(_Results(layer, inside, given), func(*inner_args, **inner_kwargs))
            written = [
                (a, layer.take_off(b)[0]) for a, b in zip(given, inside, strict=True) if _C._was_written(b)
            ]
        for target, value in written:
            _write(target, value)
        return results

    return wrapped


class _Results:
    """Takes the layer's wrappers off; an argument that is returned as it is remains the same object."""

    def __init__(self, layer: Layer, inside: list[Any], given: list[Any]) -> None:
        self._layer = layer
        self._given = {id(b): a for a, b in zip(given, inside, strict=True) if isinstance(b, Tensor)}

    def __call__(self, result: Any) -> Any:
        if not isinstance(result, Tensor):
            return result
        given = self._given.get(id(result))
        if given is not None and given.shape == result.shape and given.stride() == result.stride():
            return given
        return self._layer.take_off(result)[0]


def _write(target: Tensor, value: Tensor) -> None:
    if target.shape != value.shape:
        target.resize_(value.shape)
    target.copy_(value)
