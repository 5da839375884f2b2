"""One call under function transforms: over a batch, with derivatives, nested; and what `interposed` adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.func import jvp, vjp, vmap
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten

from .interposed import INTERPOSED

Function = Callable[..., Any]


def over_batch(function: Function) -> Function:
    """vmap over the first dimension of all tensors that share the first size there is."""

    def batched(*tensors: flambeau.Tensor) -> Any:
        size = next((t.shape[0] for t in tensors if t.dim() > 0), None)
        dims = tuple(0 if t.dim() > 0 and t.shape[0] == size else None for t in tensors)
        return vmap(function, in_dims=dims, randomness="different")(*tensors)

    return batched


def _differentiable(
    function: Function, tensors: tuple[flambeau.Tensor, ...]
) -> tuple[Function, tuple[Any, ...]]:
    """The function of those tensors that have derivatives, and these."""
    places = [i for i, t in enumerate(tensors) if t.dtype.is_floating_point or t.dtype.is_complex]

    def part(*given: flambeau.Tensor) -> Any:
        filled = list(tensors)
        for i, t in zip(places, given, strict=True):
            filled[i] = t
        return function(*filled)

    return part, tuple(tensors[i] for i in places)


def backward(function: Function) -> Function:
    """The value, and the gradients of the sum of its elements."""

    def differentiated(*tensors: flambeau.Tensor) -> Any:
        part, given = _differentiable(function, tensors)
        value, pull = vjp(part, *given)
        return value, pull(tree_map(flambeau.ones_like, value))

    return differentiated


def forward(function: Function) -> Function:
    """The value and its tangent, where all tangents of arguments are ones."""

    def differentiated(*tensors: flambeau.Tensor) -> Any:
        part, given = _differentiable(function, tensors)
        return jvp(part, given, tuple(map(flambeau.ones_like, given)))

    return differentiated


# Innermost first; half of all calls are plain.
WAYS: dict[str, tuple[Callable[[Function], Function], ...]] = {
    "vmap": (over_batch,),
    "vjp": (backward,),
    "jvp": (forward,),
    "vmap(vjp)": (backward, over_batch),
    "vmap(vmap)": (over_batch, over_batch),
    "jvp(vjp)": (backward, forward),
    "vjp(vmap)": (over_batch, backward),
    "jvp(vmap)": (over_batch, forward),
    "vmap(custom operator)": (*INTERPOSED["custom operator"], over_batch),
    "vjp(custom operator)": (*INTERPOSED["custom operator"], backward),
    "function mode(subclass)": (*INTERPOSED["subclass"], *INTERPOSED["function mode"]),
    **INTERPOSED,
}


def call(way: str, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What the call gives when it is taken this way, as a function of all tensors in it."""
    if way not in WAYS:
        return function(*args, **kwargs)
    leaves, structure = tree_flatten((tuple(args), kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, flambeau.Tensor)]

    def of_tensors(*tensors: flambeau.Tensor) -> Any:
        filled = list(leaves)
        for i, t in zip(places, tensors, strict=True):
            filled[i] = t
        positional, named = tree_unflatten(filled, structure)
        return function(*positional, **named)

    transformed: Function = of_tensors
    for transform in WAYS[way]:
        transformed = transform(transformed)
    return transformed(*(leaves[i] for i in places))
