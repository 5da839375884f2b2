"""Every generated operator under the default backend of compile, against eager: results, gradients, kernels.

All samples of some operators are calls of one test. Their kernels are compiled together and without
optimisation, because here only their text counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from flambeau._dynamo.utils import counters
from flambeau.compiler.emit import background, compilation, program
from flambeau.compiler.passes import fusion, row_loops
from op_cases import Call, Op, calls, flat, is_tensor, names, operators, split_arguments, tensors, to_array

PARTS = 32
TIME = 240
_UNKNOWN = ("uninitialized", "effect")
Groups = list[tuple[Any, list[str]]]


def is_tested(op: Op) -> bool:
    return bool(op.record["samples"]) and not set(_UNKNOWN) & set(op.record["tags"])


def around(op: Op) -> Callable[..., list[Any]]:
    """The operator's samples, with pointwise operators before and after it, which groups may take in."""
    function, is_inplace = op.function(), op.declared_inplace

    def program(samples: list[Any]) -> list[Any]:
        found = []
        for positional, keywords in samples:
            own = [v * 1.5 / 1.5 if is_tensor(v) and v.is_floating_point() else v for v in positional]
            if is_inplace:
                own[0] = own[0].clone()
            result = function(*own, **keywords)
            if isinstance(result, fb.Tensor):
                found.append(result * 2 + 1 if result.is_floating_point() else result)
            else:
                found.append(result)
        return found

    return program


def outcome(function: Any, op: Op, samples: list[Call], grad: bool) -> list[Any]:
    """Results and gradients as arrays, or the type of the error."""
    given = [tensors(call.materialise(op.main_dtype(), 0), op.main_dtype()) for call in samples]
    leaves = [t for arguments in given for t in arguments.values() if is_tensor(t)]
    leaves = [t for t in leaves if t.is_floating_point() or t.is_complex()]
    for leaf in leaves:
        leaf.requires_grad_(grad)
    fb.manual_seed(0)
    try:
        results = [t for t in flat(function([split_arguments(op, a) for a in given])) if is_tensor(t)]
        parts = [fb.view_as_real(t) if t.is_complex() else t for t in results if t.requires_grad]
        if parts:
            total = sum((t.double() * 0.5).sum() for t in parts)
            results = [*results, *fb.autograd.grad(total, leaves, allow_unused=True)]
    except Exception as error:
        return [type(error)]
    return [to_array(t.detach()) if is_tensor(t) else t for t in results]


def same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected), (found, expected)
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, np.ndarray):
            assert isinstance(a, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        else:
            assert a == b or (a is None and b is None)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Groups:
    """Groups of any size are made, and are collected instead of compiled."""
    found: Groups = []
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    monkeypatch.setattr(row_loops, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(row_loops, "_LEAST_COLUMNS", 2)
    monkeypatch.setattr(background, "is_measured", False)
    monkeypatch.setattr(program, "compile_later", found.extend)
    quick = tuple("-O0" if flag == "-O3" else flag for flag in compilation._FLAGS)
    monkeypatch.setattr(compilation, "_FLAGS", quick)
    monkeypatch.setenv("FLAMBEAU_TIER", "1" if compilation.compiler() else "0")
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    return found


def programs_of(part: int) -> list[tuple[Op, list[Call]]]:
    """Some operators, each with the samples that one program can hold: all, or one after another."""
    found: list[tuple[Op, list[Call]]] = []
    for name in names(is_tested)[part::PARTS]:
        op = operators()[name]
        samples = calls(op)
        found += [(op, [call]) for call in samples] if fails(op, samples) else [(op, samples)]
    return found


def fails(op: Op, samples: list[Call]) -> bool:
    expected = outcome(around(op), op, samples, False)
    return bool(expected) and isinstance(expected[0], type)


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_programs_give_the_same(part: int, grad: bool, groups: Groups) -> None:
    cases = []
    for op, samples in programs_of(part):
        expected = outcome(around(op), op, samples, grad)
        compiled = fb.compile(around(op))
        cases.append((op, samples, compiled, expected))
        try:
            same(outcome(compiled, op, samples, grad), expected)
        except AssertionError as error:
            raise AssertionError(f"{op.record['name']}, first call") from error
    background.compile_later(groups)
    assert background.finish(TIME)
    for op, samples, compiled, expected in cases:
        for _ in range(2):
            try:
                same(outcome(compiled, op, samples, grad), expected)
            except AssertionError as error:
                raise AssertionError(f"{op.record['name']}, with kernels") from error


def test_groups_were_made(groups: Groups) -> None:
    counters["fusion"].clear()
    x = fb.ones(3)
    compiled = fb.compile(lambda x: x * 2 + 1)
    assert fb.equal(compiled(x), compiled(x))
    assert sum(counters["fusion"].values()) == 1
    assert len(groups) == 1
