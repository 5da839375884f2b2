"""The decomposition of each operator that has one, against the operator: all samples, all floating dtypes."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import pytest
from op_cases import calls, flat, is_tensor, names, operators, run, split_arguments, tensors

BOUNDS = {"float64": 1e-12, "float32": 2e-6, "bfloat16": 1e-2, "float16": 2e-3}
DECOMPOSED = names(lambda op: fb._C._operator_facts(f"{op.record['name']}_decomposed") is not None)


def test_the_operators_with_kernels_of_rows_have_one() -> None:
    expected = {"_softmax", "_log_softmax", "_softmax_backward", "_log_softmax_backward"}
    expected |= {"_normalize_affine", "_normalize_affine_gradients", "_centered_square_mean"}
    assert expected <= set(DECOMPOSED)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", DECOMPOSED)
def test_a_decomposition_gives_what_the_operator_gives(name: str, dtype: str) -> None:
    op = operators()[name]
    decomposed = getattr(fb.ops.aten, f"{name}_decomposed").default
    assert op.record["samples"]
    for i, call in enumerate(calls(op)):
        given = tensors(call.materialise(dtype, i), dtype)
        want: list[Any] = flat(run(op, given))
        positional, keywords = split_arguments(op, given)
        got = flat(decomposed(*positional, **keywords))
        assert len(got) == len(want)
        for one, two in zip(got, want, strict=True):
            assert is_tensor(one) == is_tensor(two)
            if is_tensor(two):
                assert one.dtype == two.dtype and one.shape == two.shape
                scale = float(two.double().abs().max()) if two.numel() else 1.0
                assert float((one.double() - two.double()).abs().max()) <= BOUNDS[dtype] * max(scale, 1.0)
