"""Every operator on tensors with symbolic sizes: expressions hold for all sizes that the guards admit."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import flambeau as fb
import pytest
from flambeau._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from flambeau.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
)
from op_cases import Call, Op, Shape, calls, flat, is_tensor, names, operators, run, tensors

pytest.importorskip("sympy")

CALLS = 2  # per operator
SIZES = 4  # per call
# Products of two rounded quotients, and sums of sizes weighted by others.
NO_EXPRESSION = ("im2col", "_im2col", "_chunk_cat")
# Its results have a dimension for each column, so that samples with many columns take half a minute.
SLOW = ("histogramdd.int_bins",)
_UNKNOWN = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)


class Fixed(Exception):
    """An argument cannot have other sizes."""


def facts(result: Any) -> list[Any]:
    """What is compared: sizes, strides, offset, dtype and device of tensors, and numbers."""
    found = []
    for t in flat(result):
        if not is_tensor(t):
            is_number = isinstance(t, int | float | str | fb.SymInt | fb.SymFloat | fb.SymBool)
            found.append(t if is_number or t is None else type(t))
        elif t.layout is not fb.strided:
            found.append(t.layout)
        else:
            strides = t.stride() if 0 not in t.shape else ()
            found.append((tuple(t.shape), strides, t.storage_offset(), t.dtype, t.device))
    return found


def numbers(value: Any, env: Any, values: dict[Any, int]) -> Any:
    """The facts for given sizes, with numbers in the place of expressions."""
    if isinstance(value, list | tuple):
        items = [numbers(item, env, values) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, fb.SymInt | fb.SymFloat | fb.SymBool):
        return env._e.evaluate(value.node.expr, values)
    return value


def symbolic(op: Op, call: Call, treatment: DimDynamic) -> tuple[Any, Any, dict[str, Any]]:
    """A new environment, the result's facts, and the arguments."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    real = tensors(call.materialise(op.main_dtype(), 0), op.main_dtype())

    def made(t: Any) -> Any:
        return mode.from_tensor(t, symbolic_context=StatelessSymbolicContext([treatment] * t.dim()))

    given = fb.utils._pytree.tree_map_only(fb.Tensor, made, real)
    with mode:
        found = facts(run(op, given))
    return env, found, given


def plain(op: Op, call: Call) -> Any:
    """The facts of a call on fake tensors whose sizes are numbers, or the type of its error."""
    real = tensors(call.materialise(op.main_dtype(), 0), op.main_dtype())
    mode = FakeTensorMode()
    given = fb.utils._pytree.tree_map_only(fb.Tensor, mode.from_tensor, real)
    try:
        with mode:
            return facts(run(op, given))
    except Exception as error:
        return type(error)


def on_memory(op: Op, call: Call) -> Any:
    """The facts of a call on real tensors; None if it fails, for example because an index is too large."""
    real = tensors(call.materialise(op.main_dtype(), 0), op.main_dtype())
    try:
        return facts(run(op, real))
    except Exception:
        return None


def resized(value: Any, given: Any, env: Any, values: dict[Any, int]) -> Any:
    """A sample's argument with the sizes that its symbols have.

    Raises: `Fixed` if the argument is a tensor of given elements, which has only one size.
    """
    if isinstance(value, Shape):
        sizes = numbers(tuple(given.shape), env, values)
        if numbers(tuple(given.shape), env, env.var_to_val) != value.sizes:  # the sample is transposed
            sizes = (*sizes[:-2], sizes[-1], sizes[-2])
        return dataclasses.replace(value, sizes=sizes)
    if is_tensor(value) and tuple(value.shape) != numbers(tuple(given.shape), env, values):
        raise Fixed
    if isinstance(value, list | tuple):
        return type(value)(resized(v, g, env, values) for v, g in zip(value, given, strict=True))
    return value


def admitted(env: Any, generator: random.Random) -> dict[Any, int] | None:
    """Random numbers for all symbols that fulfil the guards; not chosen by the code under test."""
    free = [s for s in env.var_to_val if s not in env.replacements]
    for attempt in range(200):
        values: dict[Any, int] = {}
        for s in free:
            near = env.var_to_val[s] + generator.randint(-1, 3)
            values[s] = generator.choice((near, generator.randint(2, 12), 2 * near, env.var_to_val[s]))
        if attempt > 100:  # only one symbol differs from the example
            changed = generator.choice(free)
            values = {s: values[s] if s is changed else env.var_to_val[s] for s in free}
        for s in sorted(env.replacements, key=str):
            expr = env.replace(s)
            values[s] = env._e.evaluate(expr, values)
        in_bounds = all(
            (r.lower is None or values[s] >= r.lower) and (r.upper is None or values[s] <= r.upper)
            for s, r in env.var_to_range.items()
            if s in values
        )
        known = all(guard.expr.free_symbols <= values.keys() for guard in env.guards)
        if in_bounds and known and all(env._e.evaluate(guard.expr, values) for guard in env.guards):
            return values
    return None


def check_unknown(op: Op, call: Call, found: list[Any], env: Any) -> None:
    """Compare sizes with those of real tensors, which give the symbols of numbers that depend on elements."""
    real = on_memory(op, call)
    assert real is not None and len(real) == len(found)
    values = dict(env.var_to_val)
    for claimed, got in zip(found, real, strict=True):
        if isinstance(claimed, fb.SymInt | fb.SymFloat | fb.SymBool):
            assert isinstance(got, bool | int | float)
            continue
        assert len(claimed[0]) == len(got[0]) and claimed[3:] == got[3:]
        for n, size in zip(claimed[0], got[0], strict=True):
            if isinstance(n, fb.SymInt) and n.node.expr.is_Symbol:
                values.setdefault(n.node.expr, size)
        if 0 not in got[0] and 1 not in got[0]:
            assert numbers(claimed, env, values) == got


@pytest.mark.parametrize("name", names(lambda op: op.record["samples"] and op.record["name"] not in SLOW))
def test_symbolic_sizes(name: str) -> None:
    op = operators()[name]
    for i, call in enumerate(calls(op)[:CALLS]):
        expected = plain(op, call)
        treatment = DimDynamic.DUCK if i % 2 else DimDynamic.DYNAMIC
        try:
            env, found, given = symbolic(op, call, treatment)
        except _UNKNOWN:
            assert isinstance(expected, type), "fake tensors with numbers as sizes have a result"
            continue
        except Exception as error:
            if op.call in NO_EXPRESSION:
                assert f"{op.call}: expected numbers that are expressions of" in str(error)
            else:
                assert type(error) is expected, call.arguments
            continue
        unknown = {s for s in env.var_to_range if env.is_unbacked_symint(s)}
        if unknown:
            assert isinstance(expected, type)
            check_unknown(op, call, found, env)
            continue
        assert numbers(found, env, env.var_to_val) == expected, call.arguments
        generator = random.Random(name)
        for _ in range(SIZES):
            values = admitted(env, generator)
            if values is None:
                break
            try:
                arguments = {k: resized(v, given[k], env, values) for k, v in call.arguments.items()}
            except Fixed:
                continue
            other = dataclasses.replace(call, arguments=arguments)
            claimed = numbers(found, env, values)
            where = f"{arguments} with {[str(g.expr) for g in env.guards]}"
            assert claimed == plain(op, other), where
            real = on_memory(op, other)
            assert real is None or claimed == real, where
