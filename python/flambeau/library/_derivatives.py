"""Calls of custom operators that are differentiated or batched: one autograd.Function per operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flambeau
from flambeau._C import Tensor
from flambeau.autograd import Function

if TYPE_CHECKING:
    from collections.abc import Callable

    from flambeau.library._operators import CustomOperator


class _Packed:
    """How the results of a call are nested. Not a dict, which transforms copy as a container of arguments."""

    rebuild: Callable[[Any], Any] | None = None


def apply(operator: CustomOperator, kernel: Callable[..., Any], values: dict[str, Any]) -> Any:
    """Run a kernel and record the operator's derivative.

    Lists of tensors are handed to the Function one by one, so that it sees every tensor.
    """
    flat: list[Any] = []
    shape: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
            shape[name] = len(value)
            flat += value
        else:
            shape[name] = None
            flat.append(value)
    packed = _Packed()
    result = _function_of(operator).apply(kernel, shape, packed, *flat)
    return packed.rebuild(result) if packed.rebuild else result


def recorder_of(operator: CustomOperator) -> Any:
    """Return the Function with which C++ records calls; None where Python code does it.

    Lists of tensors, keyword-only arguments and written arguments need Python code.
    """
    schema = operator.schema
    is_plain = not schema.mutates and all(text == "Tensor" for text in schema.results)
    if not is_plain or any(
        p.keyword_only or (p.type.startswith("Tensor") and "[" in p.type) for p in schema.parameters
    ):
        return None
    backward = operator.backward[0] if operator.backward else _refusing(operator)
    return type(f"{schema.base}_function", (Function,), {"backward": staticmethod(backward)})


def _refusing(operator: CustomOperator) -> Callable[..., Any]:
    return lambda ctx, *gradients: _refuse(operator)


def _refuse(operator: CustomOperator) -> None:
    raise RuntimeError(
        f"{operator.name}: the operator has no derivative; call register_autograd() of its "
        "definition to give it one"
    )


def _unflattened(shape: dict[str, Any], flat: tuple[Any, ...]) -> dict[str, Any]:
    rest, found = iter(flat), {}
    for name, count in shape.items():
        found[name] = next(rest) if count is None else [next(rest) for _ in range(count)]
    return found


def _function_of(operator: CustomOperator) -> Any:
    if operator._differentiable is not None:
        return operator._differentiable
    members: dict[str, Any] = {
        "forward": staticmethod(
            lambda kernel, shape, packed, *flat: _forward(operator, kernel, shape, packed, flat)
        ),
        "setup_context": staticmethod(lambda ctx, inputs, output: _setup(operator, ctx, inputs, output)),
        "backward": staticmethod(lambda ctx, *gradients: _backward(operator, ctx, gradients)),
    }
    if operator.vmap is not None:
        members["vmap"] = staticmethod(lambda info, in_dims, *args: _vmap(operator, info, in_dims, args))
    operator._differentiable = type(f"{operator.schema.base}_function", (Function,), members)
    return operator._differentiable


def _forward(operator: CustomOperator, kernel: Any, shape: Any, packed: Any, flat: Any) -> Any:
    result = operator.call_kernel(kernel, _unflattened(shape, flat))
    if isinstance(result, list) or (isinstance(result, tuple) and any(isinstance(r, list) for r in result)):
        counts = [
            len(r) if isinstance(r, list) else None
            for r in (result if isinstance(result, tuple) else (result,))
        ]
        whole = isinstance(result, tuple)
        packed.rebuild = lambda flat: _rebuilt(flat, counts, whole)
        parts = result if whole else (result,)
        return tuple(t for part in parts for t in (part if isinstance(part, list) else [part]))
    return result


def _rebuilt(flat: Any, counts: list[Any], whole: bool) -> Any:
    rest = iter(flat)
    found = [next(rest) if n is None else [next(rest) for _ in range(n)] for n in counts]
    return tuple(found) if whole else found[0]


def _setup(operator: CustomOperator, ctx: Any, inputs: Any, output: Any) -> None:
    _, shape, packed, *flat = inputs
    ctx.operand_shape, ctx.rebuild = shape, packed.rebuild
    values = _unflattened(shape, tuple(flat))
    written = [value for name, value in values.items() if name in operator.schema.mutates]
    ctx.mark_dirty(*(t for t in written if isinstance(t, Tensor) and any(t is o for o in _tuple(output))))
    if operator.backward is not None and operator.backward[1] is not None:
        setup = operator.backward[1]
        keywords = {p.name for p in operator.schema.parameters if p.keyword_only}
        places = tuple(value for name, value in values.items() if name not in keywords)
        result = packed.rebuild(output) if packed.rebuild else output
        if keywords:
            named = {name: values[name] for name in keywords}
            setup(ctx=ctx, inputs=places, keyword_only_inputs=named, output=result)
        else:
            setup(ctx=ctx, inputs=places, output=result)


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _backward(operator: CustomOperator, ctx: Any, gradients: tuple[Any, ...]) -> Any:
    if operator.backward is None:
        return _refuse(operator)
    given = (ctx.rebuild(gradients),) if ctx.rebuild else gradients
    if ctx.rebuild and isinstance(given[0], tuple):
        given = given[0]
    found = operator.backward[0](ctx, *given)
    places = [p.name for p in operator.schema.parameters if not p.keyword_only]
    is_one = not isinstance(found, tuple | list) or _is_gradient_of_list(found, places, ctx.operand_shape)
    returned = [found] if is_one else list(found)
    if len(returned) != len(places):
        raise RuntimeError(
            f"{operator.name}: expected {len(places)} gradients, one per argument, from the function of "
            f"register_autograd, got {len(returned)}"
        )
    by_name = dict(zip(places, returned, strict=True))
    flat: list[Any] = []
    for name, count in ctx.operand_shape.items():
        value = by_name.get(name)
        flat += [value] if count is None else _gradients_of_list(operator, name, count, value)
    return None, None, None, *flat


def _is_gradient_of_list(found: Any, places: list[str], shape: dict[str, Any]) -> bool:
    """Whether a list is the gradient of the operator's only argument, a list of tensors."""
    is_only = isinstance(found, list) and len(places) == 1 and shape[places[0]] is not None
    return is_only and not any(isinstance(item, list | tuple) for item in found)


def _gradients_of_list(operator: CustomOperator, name: str, count: int, value: Any) -> list[Any]:
    if value is None:
        return [None] * count
    if not isinstance(value, list | tuple) or len(value) != count:
        raise RuntimeError(
            f"{operator.name}: expected a list of {count} gradients for {name} from the function of "
            f"register_autograd, got {value if not isinstance(value, list | tuple) else len(value)}"
        )
    return list(value)


def _vmap(operator: CustomOperator, info: Any, in_dims: Any, args: Any) -> Any:
    _, shape, _, *flat = args
    values = _unflattened(shape, tuple(flat))
    dims = _unflattened(shape, tuple(in_dims[3:]))
    keywords = {p.name for p in operator.schema.parameters if p.keyword_only}
    places = [name for name in values if name not in keywords]
    rule = operator.vmap
    assert rule is not None
    named = {name: values[name] for name in values if name in keywords}
    with flambeau.enable_grad():
        return rule(info, tuple(dims[n] for n in places), *(values[n] for n in places), **named)
