"""Reverse mode: gradients of scalar functions, and products of vectors with Jacobians."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau._overrides.lanes import for_each_lane
from flambeau.func._argnums import ArgNums, chosen, of_chosen
from flambeau.func._layers import Layer, checked_aux, differentiable, only_tensors, split_aux
from flambeau.utils._pytree import TreeSpec, tree_flatten

_VALUE_API = "grad_and_value(f)(*args)"
_VJP_API = "vjp(f, *primals)"


def gradients(
    outputs: list[Tensor],
    inputs: list[Tensor],
    weights: list[Tensor] | None = None,
    create_graph: bool = False,
    retain_graph: bool = False,
) -> tuple[Tensor, ...]:
    """Return the gradients of outputs, with zeros for inputs that no output depends on."""
    given: list[Tensor | None] = [None] * len(outputs) if weights is None else list(weights)
    pairs = [(out, w) for out, w in zip(outputs, given, strict=True) if out.requires_grad]
    if not pairs:
        return tuple(flambeau.zeros_like(x) for x in inputs)
    results, factors = zip(*pairs, strict=True)
    found = flambeau.autograd.grad(
        results, inputs, factors, retain_graph=retain_graph, create_graph=create_graph, allow_unused=True
    )
    return tuple([flambeau.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)])


def _scalar(output: Any) -> Tensor:
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{_VALUE_API}: expected the function to return a Tensor, got {type(output)}")
    if output.dim() != 0:
        raise RuntimeError(
            f"{_VALUE_API}: expected the function to return a scalar, got {output.dim()} "
            "dimensions; use vjp or jacrev for other outputs"
        )
    return output


def grad_and_value(
    func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that computes the gradient of another one together with its value.

    Args:
        func: the function, which returns a scalar tensor; with `has_aux` a pair of it and a tree of tensors.
        argnums: the index of the positional argument to differentiate, or a tuple of indices.
        has_aux: whether `func` returns a pair; the new function then returns ``(gradient, (value, aux))``.
    Returns: the function, which returns ``(gradient, value)``.
    Shape: each gradient has the shape of its argument.
    Raises: RuntimeError (from the new function) if `func` does not return a scalar tensor or `argnums` does
        not fit.

    Example:
        >>> flambeau.func.grad_and_value(lambda x: x**3)(flambeau.tensor(2.0))
        (tensor(12.), tensor(8.))
    """

    @functools.partial(for_each_lane, like=func)
    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with Layer("grad") as layer:
            tracked = tuple(layer.track(arg) for arg in args)
            inputs, spec = differentiable(chosen(tracked, argnums))
            result = func(*tracked, **layer.track(kwargs))
            result, aux = split_aux(result, _VALUE_API) if has_aux else (result, None)
            output = _scalar(result)
            value, _ = layer.take_off(output)
            rest = checked_aux(aux, layer) if has_aux else None
        # The layer is popped, so the pass works on the values inside its tensors. Operations of the pass are
        # recorded only if an enclosing layer or the caller records.
        slopes = spec.unflatten(gradients([output], inputs, None, _C.is_grad_enabled()))
        return slopes, (value, rest) if has_aux else value

    return differentiated


def grad(func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of another one.

    Args:
        func: the function, which returns a scalar tensor; with `has_aux` a pair of it and a tree of tensors.
        argnums: the index of the positional argument to differentiate, or a tuple of indices.
        has_aux: whether `func` returns a pair; the new function then returns ``(gradient, aux)``.
    Returns: the function, which takes the arguments of `func`. A tuple of `argnums` makes it return a tuple.
    Shape: each gradient has the shape of its argument.
    Raises: RuntimeError (from the new function) if `func` does not return a scalar tensor or `argnums` does
        not fit.
    See also: `func.vjp`, `autograd.grad`

    Example:
        >>> from flambeau.func import grad, vmap
        >>> grad(lambda x: x**3)(flambeau.tensor(2.0))
        tensor(12.)
        >>> per_row = vmap(grad(lambda w, x: (w * x).sum().square()), in_dims=(None, 0))
        >>> per_row(flambeau.ones(2), flambeau.eye(2))
        tensor([[2., 0.],
                [0., 2.]])
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        slopes, value = both(*args, **kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return differentiated


def _same_shapes(weights: list[Any], spec: TreeSpec, outputs: list[Tensor], out_spec: TreeSpec) -> None:
    """Check cotangents against outputs."""
    if spec != out_spec:
        raise RuntimeError(f"vjp: expected cotangents nested like the outputs, {out_spec}, got {spec}")
    for i, (weight, output) in enumerate(zip(weights, outputs, strict=True)):
        if not isinstance(weight, Tensor):
            raise RuntimeError(f"{_VJP_API}: expected cotangents to be Tensors, got {type(weight)}")
        if weight.shape != output.shape:
            raise RuntimeError(
                f"vjp: Mismatch in shape: grad_output[{i}]: expected {tuple(output.shape)}, that of "
                f"output {i}, got {tuple(weight.shape)}"
            )


def vjp_of(func: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> tuple[Any, ...]:
    """Return the results of `vjp`."""
    with Layer("grad") as layer:
        tracked = layer.track(primals)
        inputs, spec = differentiable(tracked)
        result = func(*tracked)
        result, aux = split_aux(result, _VJP_API) if has_aux else (result, None)
        outputs, out_spec = tree_flatten(result)
        only_tensors(outputs, _VJP_API)
        primals_out = layer.unwrap(result)
        rest = (checked_aux(aux, layer),) if has_aux else ()

    # The layer is popped, so its wrappers act as plain tensors; its graph still exists.
    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        weights, weights_spec = tree_flatten(cotangents)
        _same_shapes(weights, weights_spec, outputs, out_spec)
        create = _C.is_grad_enabled() if create_graph is None else create_graph
        return spec.unflatten(gradients(outputs, inputs, weights, create, retain_graph))

    return (primals_out, vjp_fn, *rest)


@for_each_lane
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the outputs of a function and a function that multiplies vectors by its Jacobian from the left.

    Args:
        func: the function, from trees of tensors to a tree of tensors; with `has_aux` to a pair of two trees.
        *primals: the arguments of `func`; all of them are differentiated.
        has_aux: whether `func` returns a pair; a third result is then the auxiliary tree.
    Returns: ``(outputs, vjp_fn)`` or ``(outputs, vjp_fn, aux)``. ``vjp_fn(cotangents)`` returns a tuple.
    Shape: cotangents have the shapes of the outputs, the results of ``vjp_fn`` those of the primals.
    Raises: RuntimeError if `func` returns anything but tensors, or cotangents do not match its outputs.

    Example:
        >>> output, vjp_fn = flambeau.func.vjp(lambda x, y: x * y, flambeau.tensor(2.0), flambeau.tensor(3.0))
        >>> vjp_fn(flambeau.tensor(1.0))
        (tensor(3.), tensor(2.))
    """
    return vjp_of(func, primals, has_aux)


def vjp_at(
    func: Callable[..., Any], args: tuple[Any, ...], argnums: ArgNums, has_aux: bool, kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the results of `vjp` for the arguments at `argnums`; ``vjp_fn`` returns a tuple."""
    partial, primals = of_chosen(func, args, argnums, kwargs)
    return vjp_of(partial, primals, has_aux)
