"""Generated operators between pointwise ones under the default backend of compile: results and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from flambeau._dynamo.utils import counters
from flambeau.compiler.passes import fusion
from op_cases import Call, Op, calls, flat, is_tensor, names, operators, run, tensors, to_array

CALLS = 2  # sample calls per operator


def is_tested(op: Op) -> bool:
    return bool(op.record["samples"]) and op.is_fixed


def around(op: Op) -> Callable[[dict[str, Any]], list[Any]]:
    """The operator with pointwise operators before it and after it, which groups may take in."""

    def program(arguments: dict[str, Any]) -> list[Any]:
        own = {
            name: value * 1.5 / 1.5 if is_tensor(value) and value.is_floating_point() else value
            for name, value in arguments.items()
        }
        found = [t for t in flat(run(op, own)) if is_tensor(t)]
        return [t * 2 + 1 if t.is_floating_point() else t for t in found]

    return program


def outcome(program: Any, op: Op, call: Call, grad: bool) -> list[Any]:
    """Results and gradients as arrays, or the type of the error."""
    arguments = tensors(call.materialise(op.main_dtype(), 0), op.main_dtype())
    leaves = [t for t in arguments.values() if is_tensor(t) and t.is_floating_point()]
    for leaf in leaves:
        leaf.requires_grad_(grad)
    fb.manual_seed(0)
    try:
        results = program(arguments)
        total = sum((t * 0.5).sum() for t in results if t.requires_grad)
        if is_tensor(total):
            results = [*results, *fb.autograd.grad(total, leaves, allow_unused=True)]
    except Exception as error:
        return [type(error)]
    return [to_array(t.detach()) if is_tensor(t) else t for t in results]


def same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, np.ndarray):
            assert isinstance(a, np.ndarray) and a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        else:
            assert a == b or (a is None and b is None)


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("name", names(is_tested))
def test_compiled_programs_give_the_same(name: str, grad: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    op = operators()[name]
    for call in calls(op)[:CALLS]:
        program = around(op)
        expected = outcome(program, op, call, grad)
        compiled = fb.compile(program)
        for _ in range(2):
            same(outcome(compiled, op, call, grad), expected)


def test_groups_were_made() -> None:
    counters["fusion"].clear()
    x = fb.ones(3)
    compiled = fb.compile(lambda x: x * 2 + 1)
    assert fb.equal(compiled(x), compiled(x))
    assert sum(counters["fusion"].values()) == 1
