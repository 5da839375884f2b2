"""Forward mode: products of Jacobians with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau._overrides.lanes import for_each_lane
from flambeau.func._grad import vjp_of
from flambeau.func._layers import Layer, checked_aux, only_tensors, split_aux
from flambeau.utils._pytree import tree_flatten, tree_leaves

_API = "jvp(f, primals, tangents)"


def _checked(primals: Any, tangents: Any) -> tuple[list[Tensor], list[Tensor], Any]:
    """Return the leaves of primals and tangents, and their common tree."""
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{_API}: expected a tuple as primals, got {type(primals).__name__}; the call is f(*primals)"
        )
    flat, spec = tree_flatten(primals)
    flat_tangents, tangents_spec = tree_flatten(tangents)
    if spec != tangents_spec:
        raise RuntimeError(f"{_API}: expected tangents nested like the primals, {spec}, got {tangents_spec}")
    if not flat:
        raise RuntimeError(f"{_API}: expected a Tensor among the primals, got none")
    for what, leaves in (("primals", flat), ("tangents", flat_tangents)):
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"{_API}: expected Tensors as {what}, got {type(leaf)}")
    return flat, flat_tangents, spec


def _tangent_of(output: Tensor, layer: Layer, strict: bool) -> tuple[Tensor, Tensor]:
    """Return the value of one output and its tangent; zeros if it depends on no input."""
    primal, tangent = _C._unpack_dual(output)
    if tangent is None:
        if strict:
            raise RuntimeError(
                f"{_API}: the output does not depend on the inputs, which strict=True refuses; pass "
                "strict=False to get zeros"
            )
        tangent = flambeau.zeros_like(primal)
    return layer.take_off(primal)[0], layer.take_off(tangent)[0]


def jvp_of(
    func: Callable[..., Any], primals: Any, tangents: Any, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return the results of `jvp`."""
    flat, flat_tangents, spec = _checked(primals, tangents)
    with Layer("jvp") as layer:
        duals = [
            _C._make_dual(_C._make_tracked(p, layer.level), _C._make_tracked(t, layer.level))
            for p, t in zip(flat, flat_tangents, strict=True)
        ]
        result = func(*spec.unflatten(duals))
        result, aux = split_aux(result, _API) if has_aux else (result, None)
        outputs, out_spec = tree_flatten(result)
        only_tensors(outputs, _API)
        pairs = [_tangent_of(output, layer, strict) for output in outputs]
        rest = (checked_aux(aux, layer),) if has_aux else ()
    values, slopes = zip(*pairs, strict=True)
    return (out_spec.unflatten(values), out_spec.unflatten(slopes), *rest)


@for_each_lane
def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return the outputs of a function and the product of its Jacobian with a vector, in one forward pass.

    Args:
        func: the function, from trees of tensors to a tree of tensors; with `has_aux` to a pair of two trees.
        primals: a tuple of the arguments of `func`.
        tangents: the vector, a tuple with the structure of `primals`.
        strict: whether an output that depends on no input raises an error; otherwise its tangent is zero.
        has_aux: whether `func` returns a pair; a third result is then the auxiliary tree.
    Returns: ``(outputs, product)`` or ``(outputs, product, aux)``.
    Shape: the product has the shapes of the outputs.
    Raises: RuntimeError if `primals` is not a tuple, tangents have other shapes, or `func` returns anything
        but tensors.

    Example:
        >>> flambeau.func.jvp(lambda x: x**2, (flambeau.tensor(3.0),), (flambeau.tensor(1.0),))
        (tensor(9.), tensor(6.))
    """
    return jvp_of(func, primals, tangents, strict, has_aux)


def _check_tangents(tangents: tuple[Any, ...], primals: list[Tensor], spec: Any) -> list[Tensor]:
    flat, tangents_spec = tree_flatten(tangents)
    if spec != tangents_spec:
        raise RuntimeError(
            f"linearize: expected tangents nested like the primals, {spec}, got {tangents_spec}"
        )
    for i, (tangent, primal) in enumerate(zip(flat, primals, strict=True)):
        for what in ("shape", "dtype"):
            got, wanted = getattr(tangent, what), getattr(primal, what)
            if got != wanted:
                raise RuntimeError(
                    f"{_API}: expected {what} {wanted} for tangent {i}, as its primal has, got {got}"
                )
    return flat


@for_each_lane
def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the outputs of a function and its derivative at the given arguments.

    The derivative is a linear function of tangents. The function `func` runs once; the derivative is
    evaluated from a record of its operations.

    Args:
        func: the function, from trees of tensors to a tree of tensors.
        *primals: the arguments at which it is linearized.
    Returns: ``(outputs, jvp_fn)``; ``jvp_fn(*tangents)`` returns a tree with the structure of the outputs.
    Shape: tangents have the shapes of the primals.
    Raises: RuntimeError if `func` returns anything but tensors, or tangents do not match the primals.

    Example:
        >>> output, jvp_fn = flambeau.func.linearize(flambeau.sin, flambeau.zeros(2))
        >>> jvp_fn(flambeau.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """
    flat, spec = tree_flatten(primals)
    output, vjp_fn = vjp_of(func, primals, False)
    outputs, out_spec = tree_flatten(output)

    def products(*weights: Tensor) -> list[Tensor]:
        return tree_leaves(vjp_fn(out_spec.unflatten(weights), create_graph=True))

    zeros = tuple(flambeau.zeros_like(out).detach() for out in outputs)
    _, transposed = vjp_of(products, zeros, False)

    def jvp_fn(*tangents: Any) -> Any:
        given = _check_tangents(tangents, flat, spec)
        return out_spec.unflatten(transposed(given))

    return output, jvp_fn
