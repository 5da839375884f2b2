"""Inputs of a trace: the symbols of an example's geometry, and the values of symbols for other inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flambeau.fx.experimental._sizes.contexts import DimDynamic
from flambeau.fx.experimental._sizes.numbers import SymInt


def geometry_of(env: Any, example: Any, source: Any, context: Any) -> tuple[list[Any], list[Any], Any]:
    """Return expressions of an example's sizes, strides and offset.

    Args:
        env: the environment.
        example: a tensor.
        source: its name.
        context: how its dimensions are treated.
    """
    marks = getattr(example, "_dynamo_dimensions", {})
    sizes = []
    for d, n in enumerate(example.size()):
        treatment = context.treatment(d)
        if treatment is DimDynamic.DUCK:
            treatment = marks.get(d, DimDynamic.STATIC if env.assume_static_by_default else treatment)
        sizes.append(env.create_symbol(n, f"{source}.size()[{d}]", treatment))
    offset = env._e.constant(example.storage_offset())
    return sizes, _strides(env, example, sizes, source), offset


def _strides(env: Any, example: Any, sizes: list[Any], source: Any) -> list[Any]:
    """Return each stride as size * stride of the next inner dimension where these are equal."""
    numbers, strides = example.size(), example.stride()
    found: dict[int, Any] = {}
    known = {0: env._e.constant(0), 1: env._e.constant(1)}
    for d in sorted(range(len(sizes)), key=lambda d: (strides[d], -d)):
        if strides[d] not in known:
            known[strides[d]] = env.create_symbol(strides[d], f"{source}.stride()[{d}]", DimDynamic.DYNAMIC)
        found[d] = known[strides[d]]
        known.setdefault(strides[d] * numbers[d], found[d] * sizes[d])
    return [found[d] for d in range(len(sizes))]


def _expressions(env: Any, placeholder: Any) -> list[Any]:
    """Return the expressions of a tensor's sizes and strides, or that of a number."""
    if isinstance(placeholder, SymInt):
        return [placeholder.node._expr]
    if not hasattr(placeholder, "stride"):
        return []
    numbers = [*placeholder.size(), *placeholder.stride()]
    return [n.node._expr if isinstance(n, SymInt) else env._e.constant(n) for n in numbers]


def _numbers(argument: Any) -> list[int]:
    return [*argument.size(), *argument.stride()] if hasattr(argument, "stride") else [argument]


def bound_values(env: Any, placeholders: Iterable[Any], args: Iterable[Any]) -> dict[Any, int]:
    """Return the values that symbols have for inputs; the first place of a symbol gives its value.

    Args:
        env: the environment.
        placeholders: fake tensors and symbolic numbers of the trace.
        args: the inputs.
    """
    values: dict[Any, int] = {}
    for placeholder, argument in zip(placeholders, args, strict=True):
        for e, n in zip(_expressions(env, placeholder), _numbers(argument), strict=False):
            if e.is_Symbol:
                values.setdefault(e, n)
    return values


def holds_for(env: Any, placeholders: Sequence[Any], args: Sequence[Any], ignore_static: bool) -> bool:
    """Return whether a trace is valid for inputs.

    Args:
        env: the environment.
        placeholders: fake tensors and symbolic numbers of the trace.
        args: the inputs.
        ignore_static: whether sizes that are constants in the trace may differ.
    """
    values = bound_values(env, placeholders, args)
    for placeholder, argument in zip(placeholders, args, strict=True):
        exprs, numbers = _expressions(env, placeholder), _numbers(argument)
        if exprs and len(exprs) != len(numbers):
            return False
        for i, (e, n) in enumerate(zip(exprs, numbers, strict=False)):
            if not e.free_symbols:
                is_stride = i >= len(exprs) // 2
                if not ignore_static and not is_stride and env._e.evaluate(e, {}) != n:
                    return False
            elif env._e.evaluate(e, values) != n:
                return False
    return all(_is_in(env.initial_range(s), n) for s, n in values.items()) and all(
        env._e.evaluate(guard.expr, values) for guard in env.guards
    )


def _is_in(bounds: Any, n: int) -> bool:
    return (bounds.lower is None or n >= bounds.lower) and (bounds.upper is None or n <= bounds.upper)


def named_guards(env: Any, placeholders: Sequence[Any], sources: Sequence[Any]) -> list[str]:
    """Return the text of each guard, with the places of sizes instead of symbols.

    Args:
        env: the environment.
        placeholders: the fake tensors of the trace.
        sources: the name of each.
    """
    names: dict[Any, Any] = {}
    for placeholder, source in zip(placeholders, sources, strict=True):
        exprs = _expressions(env, placeholder)
        for i, e in enumerate(exprs):
            if e.is_Symbol:
                count = len(exprs) // 2
                part = f"size()[{i}]" if i < count else f"stride()[{i - count}]"
                name = getattr(source, "name", source)
                names.setdefault(e, env._e.size_symbol(f"{name() if callable(name) else name}.{part}"))
    return [str(guard.expr.subs(names)) for guard in env.guards]
