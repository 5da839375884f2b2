"""flambeau.testing: what it accepts, and what its errors say."""

import flambeau as fb
import pytest
from flambeau.testing import assert_close, make_tensor


def test_accepts_what_is_close():
    assert_close(fb.ones(3), fb.ones(3) + 1e-6)
    assert_close([1.0, {"a": fb.arange(3)}], (1.0, {"a": fb.arange(3)}))
    assert_close(fb.tensor(float("nan")), fb.tensor(float("nan")), equal_nan=True)
    assert_close(fb.ones(2), fb.ones(2, dtype=fb.float64), check_dtype=False)
    assert_close(fb.tensor(float("inf")), fb.tensor(float("inf")))
    assert_close(fb.ones(2, dtype=fb.bfloat16), fb.full((2,), 1.01, dtype=fb.bfloat16))
    assert_close(fb.empty(0), fb.empty(0))


@pytest.mark.parametrize(
    "actual, expected, phrase",
    [
        (fb.ones(2), fb.tensor([1.0, 1.1]), r"Tensor-likes are not close!(.|\n)*1 / 2 \(50.0%\)"),
        (fb.arange(4), fb.arange(4) + 1, "Tensor-likes are not equal!"),
        (fb.ones(2), fb.ones(3), "attribute 'shape'"),
        (fb.ones(2), fb.ones(2, dtype=fb.float64), "attribute 'dtype'"),
        (fb.tensor(float("nan")), fb.tensor(float("nan")), "not close"),
        (1.0, 1.5, "Scalars are not close"),
        ([1, 2], [1], "Sequences differ in length"),
        ({"a": 1}, {"b": 1}, "Mappings differ in their keys"),
        ([fb.ones(1), fb.ones(1)], [fb.ones(1), fb.zeros(1)], r"item \[1\]"),
    ],
)
def test_tells_what_differs(actual, expected, phrase):
    with pytest.raises(AssertionError, match=phrase):
        assert_close(actual, expected)


def test_names_the_worst_place():
    with pytest.raises(AssertionError, match=r"absolute difference: 4.0 at index \(1, 0\)"):
        assert_close(fb.tensor([[1.0, 2.0], [7.0, 4.0]]), fb.tensor([[1.0, 2.0], [3.0, 5.0]]))


def test_checks_its_arguments():
    with pytest.raises(ValueError, match="both be specified"):
        assert_close(1.0, 1.0, rtol=1e-3)
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close("a", fb.ones(1))
    with pytest.raises(AssertionError, match="mine: Scalars"):
        assert_close(1, 2, msg=lambda text: f"mine: {text}")


@pytest.mark.parametrize("dtype", [fb.float32, fb.complex128, fb.int8, fb.uint8, fb.bool, fb.bfloat16])
def test_make_tensor(dtype):
    made = make_tensor(3, 4, dtype=dtype, noncontiguous=True)
    assert made.shape == (3, 4) and made.dtype == dtype and not made.is_contiguous()
    assert make_tensor((2, 0), dtype=dtype).shape == (2, 0)
    assert (make_tensor(50, dtype=dtype, exclude_zero=True) != 0).all()
    if not dtype.is_complex:
        assert (make_tensor(50, dtype=dtype, low=0, high=1) >= 0).all()
