"""Derivatives of functions: products with Jacobians and Hessians, and these matrices themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._C import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_Function = Callable[..., Any]


def _as_tuple(value: Any, what: str, function: str) -> tuple[bool, tuple[Tensor, ...]]:
    single = not isinstance(value, tuple)
    items = (value,) if single else value
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            where = "" if single else f" at index {i}"
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the value"
                f"{where} has type {type(item)}."
            )
    return not single, tuple(items)


def _prepared(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """Fresh tensors to differentiate with respect to; connected to the caller's graph if wanted."""
    if create_graph:
        return tuple(x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs)
    return tuple(x.detach().requires_grad_() for x in inputs)


def _finished(nested: Any, create_graph: bool) -> Any:
    if isinstance(nested, tuple):
        return tuple(_finished(t, create_graph) for t in nested)
    return nested if create_graph else nested.detach()


def _same_structure(is_tuple: bool, tensors: tuple[Any, ...]) -> Any:
    return tensors if is_tuple else tensors[0]


def _grad(
    outputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    weights: tuple[Tensor | None, ...] | None,
    create_graph: bool,
    strict: bool = False,
    what: str = "Output {} of the user-provided function",
    retain_graph: bool = True,
) -> tuple[Tensor, ...]:
    """Gradients, zero where an input is not used; with `strict` that is an error."""
    pairs = [
        (o, w) for o, w in zip(outputs, weights or (None,) * len(outputs), strict=True) if o.requires_grad
    ]
    if strict and len(pairs) < len(outputs):
        index = next(i for i, o in enumerate(outputs) if not o.requires_grad)
        raise RuntimeError(
            f"{what.format(index)} does not require gradients. The outputs must be computed in a "
            "differentiable manner from the input when running in strict mode."
        )
    if not pairs:
        return tuple(flambeau.zeros_like(x) for x in inputs)
    grads = flambeau.autograd.grad(
        tuple(o for o, _ in pairs),
        inputs,
        tuple(w for _, w in pairs),
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )
    if strict and any(g is None for g in grads):
        index = next(i for i, g in enumerate(grads) if g is None)
        raise RuntimeError(
            f"{what.format(0)} is independent of input {index}. This is not allowed in strict mode."
        )
    return tuple(flambeau.zeros_like(x) if g is None else g for g, x in zip(grads, inputs, strict=True))


def _check_like(vectors: tuple[Tensor, ...], others: tuple[Tensor, ...], is_tuple: bool) -> None:
    if not is_tuple and len(others) > 1:
        raise RuntimeError("The given v should be a tuple of Tensors, as there are several to match.")
    if len(vectors) != len(others):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(others)} but got {len(vectors)}.")
    for i, (v, other) in enumerate(zip(vectors, others, strict=True)):
        if v.shape != other.shape:
            where = f"Entry {i} in " if is_tuple else ""
            raise RuntimeError(
                f"{where}v has invalid size: should be {tuple(other.shape)} but got {tuple(v.shape)}."
            )


def _vectors(v: Any, others: tuple[Tensor, ...], function: str, name: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(others) != 1 or others[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if {name} contains a single Tensor with a single element."
            )
        return (flambeau.ones_like(others[0].detach()),)
    is_tuple, vectors = _as_tuple(v, "v", function)
    _check_like(vectors, others, is_tuple)
    return vectors


def vjp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the outputs and the product of a vector with the Jacobian.

    Args:
        func: takes tensors, returns a tensor or a tuple of them.
        inputs: its arguments.
        v: the vector, shaped like the outputs; None for an output of one element.
        create_graph: make the results differentiable.
        strict: fail, rather than give zeros, if an output does not depend on an input.
    """
    with flambeau.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "vjp")
        xs = _prepared(given, create_graph)
        outputs_tuple, outputs = _as_tuple(func(*xs), "outputs of the user-provided function", "vjp")
        weights = _vectors(v, outputs, "vjp", "the user-provided function returns")
        products = _grad(outputs, xs, weights, create_graph, strict)
    return (
        _finished(_same_structure(outputs_tuple, outputs), create_graph),
        _finished(_same_structure(is_tuple, products), create_graph),
    )


def jvp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the outputs and the product of the Jacobian with a vector.

    It is the derivative of a vector-Jacobian product with respect to that vector.

    Args: as of vjp; v is shaped like the inputs.
    """
    with flambeau.enable_grad():
        _, given = _as_tuple(inputs, "inputs", "jvp")
        vectors = _vectors(v, given, "jvp", "the input")
        xs = _prepared(given, create_graph)
        outputs_tuple, outputs = _as_tuple(func(*xs), "outputs of the user-provided function", "jvp")
        weights = tuple(flambeau.zeros_like(o.detach()).requires_grad_() for o in outputs)
        through = _grad(outputs, xs, weights, True, strict)
        products = _grad(through, weights, vectors, create_graph)
    return (
        _finished(_same_structure(outputs_tuple, outputs), create_graph),
        _finished(_same_structure(outputs_tuple, products), create_graph),
    )


def _scalar_output(func: _Function, xs: tuple[Tensor, ...], function: str) -> Tensor:
    is_tuple, outputs = _as_tuple(func(*xs), "outputs of the user-provided function", function)
    if is_tuple or outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {function} should contain a single element"
        )
    return outputs[0]


def vhp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the value of a scalar function and the product of a vector with its Hessian."""
    with flambeau.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "vhp")
        vectors = _vectors(v, given, "vhp", "the input")
        xs = _prepared(given, create_graph)
        output = _scalar_output(func, xs, "vhp")
        slopes = _grad((output,), xs, None, True, strict)
        products = _grad(slopes, xs, vectors, create_graph, strict, "The jacobian of the function")
    return _finished(output, create_graph), _finished(_same_structure(is_tuple, products), create_graph)


def hvp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the value of a scalar function and the product of its Hessian with a vector."""
    with flambeau.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "hvp")
        vectors = _vectors(v, given, "hvp", "the input")
        xs = _prepared(given, create_graph)
        output = _scalar_output(func, xs, "hvp")
        slopes = _grad((output,), xs, None, True, strict)
        weights = tuple(flambeau.zeros_like(g.detach()).requires_grad_() for g in slopes)
        through = _grad(slopes, xs, weights, True, strict, "The jacobian of the function")
        products = _grad(through, weights, vectors, create_graph)
    return _finished(output, create_graph), _finished(_same_structure(is_tuple, products), create_graph)


def jacobian(
    func: _Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the derivatives of all outputs with respect to all inputs.

    Args:
        func: takes tensors, returns a tensor or a tuple of them.
        inputs: its arguments.
        create_graph: make the result differentiable.
        strict: fail, rather than give zeros, if an output does not depend on an input.
        vectorize: accepted for PyTorch's programs; rows are computed one after the other.
        strategy: "reverse-mode" takes a pass per output element, "forward-mode" one per input element.
    Shape: of output ``(*m)`` and input ``(*n)``: ``(*m, *n)``; tuples nest as outputs, then inputs.
    """
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError("jacobian: expected create_graph=False with strategy='forward-mode'")
        return _forward_jacobian(func, inputs)
    if strategy != "reverse-mode":
        raise ValueError(
            f"Expected strategy to be either 'forward-mode' or 'reverse-mode', but got {strategy!r}"
        )
    with flambeau.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
        xs = _prepared(given, create_graph)
        outputs_tuple, outputs = _as_tuple(func(*xs), "outputs of the user-provided function", "jacobian")
        matrices = tuple(_same_structure(is_tuple, _rows(o, xs, create_graph, strict)) for o in outputs)
    return _finished(_same_structure(outputs_tuple, matrices), create_graph)


def _rows(output: Tensor, xs: tuple[Tensor, ...], create_graph: bool, strict: bool) -> tuple[Tensor, ...]:
    if output.numel() == 0:
        return tuple(output.new_zeros(tuple(output.shape) + tuple(x.shape)) for x in xs)
    flat = output.reshape(-1)
    rows = [_grad((flat[i],), xs, None, create_graph, strict) for i in range(flat.shape[0])]
    return tuple(
        flambeau.stack(column).reshape(tuple(output.shape) + tuple(x.shape))
        for column, x in zip(zip(*rows, strict=True), xs, strict=True)
    )


def _forward_jacobian(func: _Function, inputs: Any) -> Any:
    from flambeau.autograd import forward_ad

    is_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
    xs = tuple(x.detach() for x in given)
    outputs_tuple, shapes = _as_tuple(func(*xs), "outputs of the user-provided function", "jacobian")
    columns: list[list[list[Tensor]]] = [[[] for _ in xs] for _ in shapes]
    for i, x in enumerate(xs):
        for k in range(x.numel()):
            unit = flambeau.zeros(x.numel(), dtype=x.dtype, device=x.device)
            unit[k] = 1
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x, unit.reshape(x.shape))
                _, outputs = _as_tuple(func(*xs[:i], dual, *xs[i + 1 :]), "outputs", "jacobian")
                for j, output in enumerate(outputs):
                    primal, tangent = forward_ad.unpack_dual(output)
                    column = flambeau.zeros_like(primal) if tangent is None else tangent.clone()
                    columns[j][i].append(column)
    matrices = tuple(
        _same_structure(
            is_tuple,
            tuple(
                flambeau.stack(columns[j][i], -1).reshape(tuple(shape.shape) + tuple(x.shape))
                for i, x in enumerate(xs)
            ),
        )
        for j, shape in enumerate(shapes)
    )
    return _finished(_same_structure(outputs_tuple, matrices), False)


def hessian(
    func: _Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the second derivatives of a scalar function.

    Args: as of jacobian; outer_jacobian_strategy is the strategy of the outer of two Jacobians.
    Shape: of inputs ``(*n)`` and ``(*m)``: ``(*n, *m)``; tuples nest by inputs twice.

    >>> import flambeau as fb
    >>> fb.autograd.functional.hessian(lambda x: (x ** 3).sum(), fb.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    is_tuple, _ = _as_tuple(inputs, "inputs", "hessian")

    def slopes(*xs: Tensor) -> Any:
        output = _scalar_output(func, xs, "hessian")
        return _same_structure(is_tuple, _grad((output,), xs, None, True, strict))

    def connected(*xs: Tensor) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            with flambeau.enable_grad():
                return slopes(*(x.requires_grad_() for x in xs))
        return slopes(*xs)

    return jacobian(
        connected, inputs, create_graph=create_graph, strict=strict, strategy=outer_jacobian_strategy
    )
