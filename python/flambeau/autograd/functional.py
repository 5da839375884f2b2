"""Derivatives of functions: products with Jacobians and Hessians, and these matrices themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau._loading.lazy import attributes

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_Function = Callable[..., Any]
_OUTPUTS = "outputs of the function"
_STRICT = "strict=True refuses this"


def _as_tuple(value: Any, what: str, function: str) -> tuple[bool, tuple[Tensor, ...]]:
    single = not isinstance(value, tuple)
    items = (value,) if single else value
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            where = f"given {what}" if single else f"value at index {i}"
            raise TypeError(
                f"{function}: expected a Tensor or several in a tuple as {what}, got "
                f"{type(item).__name__} as the {where}"
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


# --- strict mode: what fails instead of giving zeros -----------------------------------------------


def _check_outputs(outputs: tuple[Tensor, ...], strict: bool) -> None:
    for i, output in enumerate(outputs):
        if strict and not output.requires_grad:
            raise RuntimeError(
                f"autograd.functional: output {i} does not require gradients; compute it from the inputs, "
                "or pass strict=False"
            )


def _check_slopes(slopes: tuple[Tensor, ...], strict: bool) -> None:
    for i, slope in enumerate(slopes):
        if strict and not slope.requires_grad:
            raise RuntimeError(
                f"hessian: the first derivatives by input {i} are constants, as those of a linear function "
                "are; pass strict=False to get zeros"
            )


def _check_products(products: tuple[Tensor, ...], strict: bool, create_graph: bool, what: str) -> None:
    for i, product in enumerate(products):
        if strict and create_graph and not product.requires_grad:
            raise RuntimeError(
                f"autograd.functional: the {what} is independent of input {i}; pass strict=False or "
                "create_graph=False to allow that"
            )


def _grad(
    outputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    weights: tuple[Tensor | None, ...] | None,
    create_graph: bool,
    strict: bool = False,
    what: str = "output",
    batched: bool = False,
) -> tuple[Tensor, ...]:
    """Gradients, zero where an input is not used; with `strict` that is an error."""
    given = weights or (None,) * len(outputs)
    pairs = [(o, w) for o, w in zip(outputs, given, strict=True) if o.requires_grad]
    grads: tuple[Tensor | None, ...] = (None,) * len(inputs)
    if pairs:
        grads = flambeau.autograd.grad(
            tuple(o for o, _ in pairs),
            inputs,
            tuple(w for _, w in pairs),
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            is_grads_batched=batched,
        )
    if strict and any(g is None for g in grads):
        index = next(i for i, g in enumerate(grads) if g is None)
        raise RuntimeError(
            f"autograd.functional: {what} is independent of input {index}; pass strict=False to get zeros"
        )
    return tuple(flambeau.zeros_like(x) if g is None else g for g, x in zip(grads, inputs, strict=True))


def _vectors(v: Any, others: tuple[Tensor, ...], is_tuple: bool, function: str, name: str) -> tuple[Any, ...]:
    """The vector's tensors, checked against what it multiplies."""
    if v is None:
        if is_tuple or others[0].numel() != 1:
            raise RuntimeError(f"{function}: v is needed unless {name} one element; pass it")
        return (flambeau.ones_like(others[0].detach()),)
    _, vectors = _as_tuple(v, "v", function)
    if is_tuple and len(vectors) != len(others):
        raise RuntimeError(f"{function}: expected v of {len(others)} tensors, got {len(vectors)}")
    if not is_tuple and len(vectors) != 1:
        raise RuntimeError(f"{function}: expected one Tensor as v, got {len(vectors)}")
    for i, (vector, other) in enumerate(zip(vectors, others, strict=True)):
        if vector.shape != other.shape:
            where = f"Entry {i} in " if is_tuple else ""
            raise RuntimeError(
                f"{function}: {where}v has invalid size: expected {other.shape}, got {vector.shape}"
            )
    return vectors


_JACOBIAN = "jacobian of the function"
_OF_INPUT = "its input has"


def vjp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Compute the outputs of a function and the product of a vector with its Jacobian.

    Args:
        func: the function from tensors to a tensor or a tuple of tensors.
        inputs: its argument, or a tuple of arguments.
        v: the vector, in the form of the outputs. None means 1 and needs an output of one element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input is an error instead of giving zeros.
    Returns: the outputs, and the product in the form of the inputs.
    Raises: RuntimeError if `v` does not fit the outputs, TypeError for inputs or outputs that are not
        tensors.

    Example:
        >>> flambeau.autograd.functional.vjp(lambda x: x**2, flambeau.tensor([1.0, 2.0]), flambeau.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with flambeau.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "vjp")
        xs = _prepared(given, create_graph)
        outputs_tuple, outputs = _as_tuple(func(*xs), _OUTPUTS, "vjp")
        weights = _vectors(v, outputs, outputs_tuple, "vjp", "the function returns")
        _check_outputs(outputs, strict)
        products = _grad(outputs, xs, weights, create_graph, strict)
        _check_products(products, strict, create_graph, "jacobian")
    return (
        _finished(_same_structure(outputs_tuple, outputs), create_graph),
        _finished(_same_structure(is_tuple, products), create_graph),
    )


def jvp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Compute the outputs of a function and the product of its Jacobian with a vector, in reverse mode twice.

    Args:
        func: the function from tensors to a tensor or a tuple of tensors.
        inputs: its argument, or a tuple of arguments.
        v: the vector, in the form of the inputs. None means 1 and needs an input of one element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input is an error instead of giving zeros.
    Returns: the outputs, and the product in the form of the outputs.
    Raises: RuntimeError if `v` does not fit the inputs, TypeError for inputs or outputs that are not tensors.
    See also: `func.jvp`

    Example:
        >>> flambeau.autograd.functional.jvp(lambda x: x**2, flambeau.tensor([1.0, 2.0]), flambeau.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with flambeau.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "jvp")
        vectors = _vectors(v, given, is_tuple, "jvp", _OF_INPUT)
        xs = _prepared(given, create_graph)
        outputs_tuple, outputs = _as_tuple(func(*xs), _OUTPUTS, "jvp")
        _check_outputs(outputs, strict)
        weights = tuple(flambeau.zeros_like(o.detach()).requires_grad_() for o in outputs)
        through = _grad(outputs, xs, weights, True, strict)
        products = _grad(through, weights, vectors, create_graph)
        _check_products(products, strict, create_graph, "jacobian")
    return (
        _finished(_same_structure(outputs_tuple, outputs), create_graph),
        _finished(_same_structure(outputs_tuple, products), create_graph),
    )


def _scalar_output(func: _Function, xs: tuple[Tensor, ...], function: str) -> Tensor:
    is_tuple, outputs = _as_tuple(func(*xs), _OUTPUTS, function)
    if is_tuple:
        raise RuntimeError(f"{function}: expected one Tensor from the function, got a tuple")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"{function}: expected a Tensor with a single element from the function, got {outputs[0].numel()}"
        )
    return outputs[0]


def _slopes(output: Tensor, xs: tuple[Tensor, ...], strict: bool) -> tuple[Tensor, ...]:
    """The gradients of a scalar, themselves differentiable."""
    _check_outputs((output,), strict)
    slopes = _grad((output,), xs, None, True)
    _check_slopes(slopes, strict)
    return slopes


def _hessian_product(
    name: str,
    func: _Function,
    inputs: Any,
    v: Any,
    create_graph: bool,
    strict: bool,
    multiplied: Callable[[tuple[Tensor, ...], tuple[Tensor, ...], Any], tuple[Tensor, ...]],
) -> tuple[Any, Any]:
    """Return the value of a scalar function, and what `multiplied` makes of slopes, inputs and vectors."""
    with flambeau.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", name)
        vectors = _vectors(v, given, is_tuple, name, _OF_INPUT)
        xs = _prepared(given, create_graph)
        output = _scalar_output(func, xs, name)
        products = multiplied(_slopes(output, xs, strict), xs, vectors)
        _check_products(products, strict, create_graph, "hessian")
    return _finished(output, create_graph), _finished(_same_structure(is_tuple, products), create_graph)


def vhp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Compute the value of a scalar function and the product of a vector with its Hessian.

    Args:
        func: the function from tensors to a tensor of one element.
        inputs: its argument, or a tuple of arguments.
        v: the vector, in the form of the inputs. None means 1 and needs an input of one element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input is an error instead of giving zeros.
    Returns: the value, and the product in the form of the inputs.
    Raises: RuntimeError if the output is not a scalar or `v` does not fit, TypeError for inputs or outputs
        that are not tensors.

    Example:
        >>> x = flambeau.tensor([1.0, 2.0])
        >>> flambeau.autograd.functional.vhp(lambda x: (x**3).sum(), x, flambeau.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """

    def multiplied(slopes: tuple[Tensor, ...], xs: tuple[Tensor, ...], vectors: Any) -> tuple[Tensor, ...]:
        return _grad(slopes, xs, vectors, create_graph, strict, _JACOBIAN)

    return _hessian_product("vhp", func, inputs, v, create_graph, strict, multiplied)


def hvp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Compute the value of a scalar function and the product of its Hessian with a vector.

    The Hessian is symmetric where the second derivatives are continuous; `autograd.functional.vhp` is faster
    then.

    Args:
        func: the function from tensors to a tensor of one element.
        inputs: its argument, or a tuple of arguments.
        v: the vector, in the form of the inputs. None means 1 and needs an input of one element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input is an error instead of giving zeros.
    Returns: the value, and the product in the form of the inputs.
    Raises: RuntimeError if the output is not a scalar or `v` does not fit, TypeError for inputs or outputs
        that are not tensors.

    Example:
        >>> x = flambeau.tensor([1.0, 2.0])
        >>> flambeau.autograd.functional.hvp(lambda x: (x**3).sum(), x, flambeau.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """

    def multiplied(slopes: tuple[Tensor, ...], xs: tuple[Tensor, ...], vectors: Any) -> tuple[Tensor, ...]:
        weights = tuple(flambeau.zeros_like(g.detach()).requires_grad_() for g in slopes)
        through = _grad(slopes, xs, weights, True, strict, _JACOBIAN)
        return _grad(through, weights, vectors, create_graph)

    return _hessian_product("hvp", func, inputs, v, create_graph, strict, multiplied)


def jacobian(
    func: _Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Compute the Jacobian of a function: the derivatives of all outputs with respect to all inputs.

    Args:
        func: the function from tensors to a tensor or a tuple of tensors.
        inputs: its argument, or a tuple of arguments.
        create_graph: whether the result can be differentiated.
        strict: whether an output that does not depend on an input is an error instead of giving zeros.
        vectorize: whether to compute all rows (or columns) in one pass under `vmap` instead of one by one.
        strategy: "reverse-mode" takes one pass per output element, "forward-mode" one per input element and
            needs `vectorize`.
    Returns: the Jacobian; tuples nest by outputs, then by inputs.
    Shape: ``(*m, *n)`` for an output ``(*m)`` and an input ``(*n)``.
    Raises: RuntimeError and NotImplementedError for options that exclude each other, TypeError for inputs or
        outputs that are not tensors.
    See also: `func.jacrev`, `func.jacfwd`

    Example:
        >>> flambeau.autograd.functional.jacobian(lambda x: x**2, flambeau.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    _check_options(create_graph, strict, vectorize, strategy)
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, vectorize)
    with flambeau.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
        xs = _prepared(given, create_graph)
        outputs_tuple, outputs = _as_tuple(func(*xs), _OUTPUTS, "jacobian")
        _check_outputs(outputs, strict)
        rows = [_rows(i, output, xs, create_graph, strict, vectorize) for i, output in enumerate(outputs)]
        matrices = tuple(_same_structure(is_tuple, row) for row in rows)
    return _finished(_same_structure(outputs_tuple, matrices), create_graph)


def _check_options(create_graph: bool, strict: bool, vectorize: bool, strategy: str) -> None:
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            f"jacobian: expected 'forward-mode' or 'reverse-mode' as strategy, got {strategy!r}"
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "jacobian: expected create_graph=False with strategy='forward-mode', got True"
            )
        if strict:
            raise RuntimeError("jacobian: expected strict=False with strategy='forward-mode', got True")
    if strict and vectorize:
        raise RuntimeError("jacobian: expected strict or vectorize, got both")


def _rows(
    index: int, output: Tensor, xs: tuple[Tensor, ...], create_graph: bool, strict: bool, vectorize: bool
) -> tuple[Tensor, ...]:
    if output.numel() == 0 or not output.requires_grad:
        return tuple(x.new_zeros((*output.shape, *x.shape)) for x in xs)
    if output.is_complex():
        raise RuntimeError(
            f"jacobian: grad can be implicitly created for real outputs only, got dtype {output.dtype}"
        )
    flat, count = output.reshape(-1), output.numel()
    if vectorize:
        units = flambeau.eye(count, dtype=flat.dtype, device=flat.device)
        stacked = _batched_rows(flat, xs, units, create_graph)
    else:
        what = f"output {index}"
        rows = [_grad((flat[k],), xs, None, create_graph, strict, what) for k in range(count)]
        stacked = tuple(flambeau.stack(column) for column in zip(*rows, strict=True))
    _check_products(stacked, strict, create_graph, "jacobian")
    return tuple(t.reshape((*output.shape, *x.shape)) for t, x in zip(stacked, xs, strict=True))


def _batched_rows(
    flat: Tensor, xs: tuple[Tensor, ...], units: Tensor, create_graph: bool
) -> tuple[Tensor, ...]:
    rows = flambeau.autograd.grad(
        (flat,), xs, (units,), True, create_graph, allow_unused=True, is_grads_batched=True
    )
    return tuple(
        x.new_zeros((units.numel() // flat.numel(), *x.shape)) if r is None else r
        for r, x in zip(rows, xs, strict=True)
    )


def _forward_jacobian(func: _Function, inputs: Any, vectorize: bool) -> Any:
    from flambeau.func._jacobians import _split_columns, unit_vectors
    from flambeau.func._jvp import jvp_of
    from flambeau.func._vmap import vmap

    is_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
    xs = tuple(x.detach() for x in given)
    outputs_tuple = False

    def product(*units: Tensor) -> tuple[Tensor, ...]:
        nonlocal outputs_tuple

        def checked(*args: Tensor) -> Any:
            nonlocal outputs_tuple
            outputs_tuple, outputs = _as_tuple(func(*args), _OUTPUTS, "jacobian")
            return outputs

        slopes: tuple[Tensor, ...] = jvp_of(checked, xs, units)[1]
        return slopes

    count = sum(x.numel() for x in xs)
    units = unit_vectors(list(xs), 0, count)
    if vectorize or not count:
        columns = vmap(product)(*units)
    else:
        products = [product(*row) for row in zip(*units, strict=True)]
        columns = tuple(flambeau.stack(column) for column in zip(*products, strict=True))
    parts = [tuple(_split_columns(column.movedim(0, -1), list(xs))) for column in columns]
    matrices = tuple(_same_structure(is_tuple, part) for part in parts)
    return _finished(_same_structure(outputs_tuple, matrices), False)


def hessian(
    func: _Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Compute the Hessian of a scalar function: its second derivatives.

    Args:
        func: the function from tensors to a tensor of one element.
        inputs: its argument, or a tuple of arguments.
        create_graph: whether the result can be differentiated.
        strict: whether an output that does not depend on an input is an error instead of giving zeros.
        vectorize: whether to compute all rows in one pass under `vmap` instead of one by one.
        outer_jacobian_strategy: the `strategy` of the outer one of the two Jacobians; see
            `autograd.functional.jacobian`.
    Returns: the Hessian; tuples nest by inputs twice.
    Shape: ``(*n, *m)`` for inputs ``(*n)`` and ``(*m)``.
    Raises: RuntimeError if the output is not a scalar; RuntimeError and NotImplementedError for options that
        exclude each other.
    See also: `func.hessian`

    Example:
        >>> flambeau.autograd.functional.hessian(lambda x: (x**3).sum(), flambeau.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    is_tuple, _ = _as_tuple(inputs, "inputs", "hessian")
    forward = outer_jacobian_strategy == "forward-mode"

    def scalar(*xs: Tensor) -> Tensor:
        return _scalar_output(func, xs, "hessian")

    def slopes(*xs: Tensor) -> Any:
        if forward:
            from flambeau.func import vjp as vjp_at

            output, vjp_fn = vjp_at(scalar, *xs)
            return _same_structure(is_tuple, vjp_fn(flambeau.ones_like(output)))
        return _same_structure(is_tuple, _slopes(scalar(*xs), xs, strict))

    return jacobian(slopes, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


__getattr__, __dir__ = attributes(__name__)
