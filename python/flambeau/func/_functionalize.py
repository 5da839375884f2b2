"""functionalize: makes a function with the same values and effects whose operators write to no memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._overrides.lanes import for_each_lane
from flambeau.func._layers import Layer
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten

_KINDS = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function with the values and effects of `func`, whose operators write to no memory.

    An operator that writes to a tensor runs in its functional form, and views of the tensor are computed
    again. At the end, one `copy_` updates each argument that was written to. Modes and transforms around the
    function see the functional operators and these copies.

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

    @functools.partial(for_each_lane, like=func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given, spec = tree_flatten((args, kwargs))
        with Layer("functionalize", copies_views=remove == "mutations_and_views") as layer:
            inside = [_C._make_functional(a, layer.level) if isinstance(a, Tensor) else a for a in given]
            arguments = [_Argument(a, b) for a, b in zip(given, inside, strict=True) if _C._is_functional(b)]
            inner_args, inner_kwargs = tree_unflatten(inside, spec)
            results = tree_map(_Results(layer, inside, given), func(*inner_args, **inner_kwargs))
            for argument in arguments:
                argument.read(layer)
        for argument in arguments:
            argument.write()
        return results

    return wrapped


class _Argument:
    """An argument of the function, and the changes that the function made to it."""

    def __init__(self, given: Tensor, inside: Tensor) -> None:
        self._given, self._inside = given, inside
        self._memory = inside.data  # an alias, which in-place views of `inside` do not change

    def read(self, layer: Layer) -> None:
        """Read the final values at the end of the layer."""
        inside, memory = self._inside, self._memory
        self._is_alias = _C._have_one_root(inside, memory)
        self._written = layer.take_off(memory)[0] if _C._was_written(memory) else None
        self._replaced = None if self._is_alias else layer.take_off(inside)[0]
        self._is_turned = inside.shape != memory.shape or inside.stride() != memory.stride()

    def write(self) -> None:
        """Apply the changes of the functional tensor to the given tensor."""
        given, inside, memory = self._given, self._inside, self._memory
        if self._written is not None:
            given.copy_(self._written)
        if self._replaced is not None:
            given.resize_(self._replaced.shape).copy_(self._replaced)
        elif self._is_turned:
            offset = given.storage_offset() + inside.storage_offset() - memory.storage_offset()
            given.as_strided_(inside.shape, inside.stride(), offset)


class _Results:
    """Unwraps results; an argument that the function returns unchanged remains the same object."""

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
