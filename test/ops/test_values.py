"""Generated operators' values: against the reference, for every dtype, layout and kind of number."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import numpy as np
import pytest
import references
from flambeau.utils.operator_tests import _samples
from flambeau.utils.operator_tests._samples import assert_values, wide
from numerics import ROUNDING, rounding_of_parts
from op_cases import (
    CATEGORY_OF,
    MAIN,
    Call,
    Op,
    calls,
    flat,
    is_tensor,
    names,
    not_claimed,
    operators,
    run,
    tensors,
    to_array,
)

DEFAULT_FLOAT = {"bool": "float32", "integral": "float32"}


def expected_of(op: Op, arguments: dict[str, Any]) -> list[Any]:
    """Evaluate the reference over the arguments in double precision, defaults included."""
    return _samples.expected_of(op, arguments, references)


def check_call(op: Op, call: Call, dtype: str, seed: int = 0) -> None:
    arrays = call.materialise(dtype, seed)
    result = flat(run(op, tensors(arrays, dtype)))
    if op.reference is None:
        assert all(r is not None for r in result)
        return
    doubles = {name: wide(value) for name, value in arrays.items()}
    want = expected_of(op, doubles)
    assert len(result) >= len(want), f"{len(result)} results, {len(want)} references"
    slack: list[Any] = [0.0] * len(want)
    if op.kind == "composite" and dtype in ROUNDING and op.is_fixed:
        slack = rounding_of_parts(lambda moved: expected_of(op, moved), doubles, op.parts, dtype)
    for i, (got, value, error) in enumerate(zip(result, want, slack, strict=False)):
        assert_values(op, got, value, dtype, f"{op.name} {dtype} result {i}", error)


@pytest.mark.parametrize("name", names(lambda op: op.record["samples"]))
def test_values(name: str):
    """Every sample call in the main dtype."""
    op = operators()[name]
    for i, call in enumerate(calls(op)):
        check_call(op, call, op.main_dtype(), seed=i)


@pytest.mark.parametrize("name", names(lambda op: op.record["samples"] and op.record["kind"] != "view"))
def test_every_dtype_claimed(name: str):
    """The first sample calls in every dtype that the operator claims."""
    op = operators()[name]
    done = []
    for dtype in op.dtypes():
        try:
            for call in calls(op)[:2]:
                check_call(op, call, dtype, seed=7)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            explicit = op.kind in ("pointwise", "reduce")
            if explicit or not not_claimed(error):
                raise AssertionError(f"{name} {dtype}: {error}") from error
            continue
        done.append(dtype)
    assert op.main_dtype() in done


@pytest.mark.parametrize("name", names(lambda op: op.record["kind"] == "pointwise"))
def test_result_dtype(name: str):
    """The promotion rule that the operator states."""
    op = operators()[name]
    call = calls(op)[0]
    for category in op.record["dtypes"]:
        dtype = MAIN[category]
        result = flat(run(op, tensors(call.materialise(dtype), dtype)))[0]
        got = str(result.dtype).split(".")[-1]
        rule = op.dtype_rule
        if rule in ("compare", "logical"):
            assert got == "bool"
        elif rule == "floating" and category in DEFAULT_FLOAT:
            assert got == DEFAULT_FLOAT[category]
        elif rule == "real" and category == "complex":
            assert got == "float32"
        else:
            assert CATEGORY_OF[got] in (category, "integral" if category == "bool" else category)


def strided(tensor: Any) -> Any:
    """The same values in memory that is not contiguous: every second element of a larger tensor."""
    if tensor.dim() == 0:
        return fb.stack([tensor, tensor])[0]
    twice = fb.stack([tensor, tensor], tensor.dim())
    return twice.select(tensor.dim(), 0)


@pytest.mark.parametrize("name", names(lambda op: op.record["samples"] and op.tensor_names and op.is_fixed))
def test_strided_inputs(name: str):
    """Values do not depend on the strides of the inputs."""
    op = operators()[name]
    dtype = op.main_dtype()
    compared = 0
    for i, call in enumerate(calls(op)):
        arguments = tensors(call.materialise(dtype, i), dtype)
        if any(a["type"].endswith("!)") for a in op.arguments) and not op.declared_inplace:
            continue
        spread = {k: _map_tensors(v, strided) for k, v in arguments.items()}
        for a, b in zip(flat(run(op, arguments)), flat(run(op, spread)), strict=True):
            if is_tensor(a):
                np.testing.assert_allclose(to_array(b), to_array(a), rtol=1e-4, atol=1e-5)
                compared += 1
            else:
                assert a == b
                compared += 1
    assert compared or not op.returns


def _map_tensors(value: Any, function: Any) -> Any:
    if isinstance(value, list):
        return [_map_tensors(v, function) for v in value]
    return function(value) if is_tensor(value) else value


@pytest.mark.parametrize("name", names(lambda op: op.record["numbers"]))
def test_number_overloads(name: str):
    """A number gives what a 0-dim tensor of its value gives."""
    op = operators()[name]
    dtype = op.main_dtype()
    compared = 0
    for numbers in op.numbers:
        for call in calls(op)[:3]:
            arguments = tensors(call.materialise(dtype, 3), dtype)
            if not all(is_tensor(arguments.get(n)) for n in numbers):
                continue
            value = 2 if CATEGORY_OF[dtype] == "integral" else 1.5
            as_number = arguments | {n: value for n in numbers}
            as_tensor = arguments | {n: fb.tensor(value, dtype=getattr(fb, dtype)) for n in numbers}
            for a, b in zip(flat(run(op, as_number)), flat(run(op, as_tensor)), strict=True):
                np.testing.assert_allclose(to_array(a), to_array(b), rtol=1e-5, atol=1e-6)
                compared += 1
    assert compared or all(not a["kind"] == "tensor" for a in op.arguments)


ERRORS = {
    "IndexError": IndexError,
    "RuntimeError": RuntimeError,
    "TypeError": TypeError,
    "ValueError": ValueError,
    "NotImplementedError": NotImplementedError,
    "ZeroDivisionError": ZeroDivisionError,
}
ERROR_CASES = [(name, i) for name, op in operators().items() for i in range(len(op.record["errors"]))]


@pytest.mark.parametrize(("name", "index"), ERROR_CASES)
def test_error_inputs(name: str, index: int):
    """Wrong arguments get PyTorch's exception and its words."""
    from op_cases import bind

    op = operators()[name]
    sample, exception, pattern = op.errors[index]
    call = bind(op, sample)
    with pytest.raises(tuple(ERRORS[e] for e in exception.split("|")), match=pattern):
        run(op, tensors(call.materialise(op.main_dtype()), op.main_dtype()))
