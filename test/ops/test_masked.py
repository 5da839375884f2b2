"""nonzero and the operators over masks."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(5,), (3, 4), (2, 3, 2), (0, 3), (3, 0), (3, 1500)])
def test_nonzero_of_every_dtype(dtype: str, sizes: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 2, sizes)
    got = fb.from_numpy(values).to(getattr(fb, dtype)).nonzero()
    np.testing.assert_array_equal(got.numpy(), np.argwhere(values))


def test_nonzero_of_a_strided_tensor_by_several_threads() -> None:
    values = np.random.default_rng(0).integers(0, 3, (700, 500)).astype(np.float32)
    np.testing.assert_array_equal(fb.from_numpy(values).t().nonzero().numpy(), np.argwhere(values.T))


def test_nonzero_of_a_number_has_no_coordinates() -> None:
    assert fb.tensor(2.0).nonzero().shape == (1, 0)
    assert fb.tensor(0.0).nonzero().shape == (0, 0)


def test_nan_counts_and_negative_zero_does_not() -> None:
    for dtype in (fb.float16, fb.bfloat16, fb.float32, fb.float64):
        assert fb.tensor([float("nan"), -0.0, 1.0], dtype=dtype).nonzero().tolist() == [[0], [2]]
    assert fb.tensor([0j, 1j, complex("nan")]).nonzero().tolist() == [[1], [2]]


def test_each_dimensions_coordinates_lie_gapless() -> None:
    assert fb.ones(2, 2, 2).nonzero().stride() == (1, 8)


def test_masked_select_broadcasts() -> None:
    x = fb.arange(6).reshape(2, 3)
    assert fb.masked_select(x, fb.tensor([True, False, True])).tolist() == [0, 2, 3, 5]


@pytest.mark.parametrize("method", ["masked_fill", "masked_select", "masked_scatter"])
def test_masks_are_boolean(method: str) -> None:
    x = fb.zeros(3)
    with pytest.raises(RuntimeError, match="[bB]ool"):
        getattr(x, method)(x, *{"masked_fill": [1.0], "masked_scatter": [x]}.get(method, []))


def test_masked_scatter_needs_enough_values() -> None:
    with pytest.raises(RuntimeError, match="source"):
        fb.zeros(3).masked_scatter(fb.ones(3, dtype=fb.bool), fb.zeros(2))
