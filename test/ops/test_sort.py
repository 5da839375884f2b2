"""Sorting, selecting, searching and counting: NaN, ties, layouts, limits and errors."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest

NAN = float("nan")
INTEGERS = "uint8 int8 int16 int32 int64".split()
FLOATS = "float16 bfloat16 float32 float64".split()


def numbers(dtype: str, *sizes: int) -> fb.Tensor:
    """Numbers with many ties, in a fixed order without pattern."""
    values = np.random.default_rng(0).integers(0, 50, sizes)
    return fb.tensor(values.tolist()).to(getattr(fb, dtype))


def as_floats(t: fb.Tensor) -> np.ndarray:
    return t.to(fb.float64).numpy()


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS])
@pytest.mark.parametrize("size", [1, 5, 191, 300, 9000])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_at_every_length(dtype: str, size: int, descending: bool) -> None:
    x = numbers(dtype, size)
    values, indices = fb.sort(x, descending=descending)
    plain = as_floats(x)
    expected = np.argsort(-plain if descending else plain, kind="stable")
    np.testing.assert_array_equal(indices.numpy(), expected)
    np.testing.assert_array_equal(as_floats(values), plain[expected])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sort_along_any_dimension_of_a_transposed_tensor(dim: int) -> None:
    x = numbers("float32", 4, 5, 6).transpose(0, 2)
    values, indices = x.sort(dim)
    np.testing.assert_array_equal(values.numpy(), np.sort(x.numpy(), axis=dim))
    np.testing.assert_array_equal(np.take_along_axis(x.numpy(), indices.numpy(), dim), values.numpy())


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_sorts_as_largest_and_zeros_are_equal(dtype: str) -> None:
    x = fb.tensor([NAN, 0.0, -0.0, float("inf"), -1.0, NAN], dtype=getattr(fb, dtype))
    assert x.argsort().tolist() == [4, 1, 2, 3, 0, 5]
    assert x.argsort(descending=True).tolist() == [0, 5, 3, 1, 2, 4]
    values = as_floats(x.sort()[0])
    assert not np.signbit(values[1]) and np.signbit(values[2])


@pytest.mark.parametrize("size", [30, 3000, 20000])
@pytest.mark.parametrize("span", [1, 1000, 1 << 20, 1 << 40])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_integers_that_lie_together(size: int, span: int, descending: bool) -> None:
    x = np.random.default_rng(0).integers(0, span, size) - (1 << 50)
    values, places = fb.sort(fb.from_numpy(x), descending=descending, stable=True)
    want = np.argsort(-x if descending else x, kind="stable")
    np.testing.assert_array_equal(places.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), x[want])


def test_sort_of_extreme_integers() -> None:
    low, high = -(2**63), 2**63 - 1
    assert fb.tensor([high, 0, low, -1]).sort()[0].tolist() == [low, -1, 0, high]
    assert fb.tensor([high, 0, low, -1]).argsort(descending=True).tolist() == [0, 1, 3, 2]


@pytest.mark.parametrize("k", [1, 3, 40, 400])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "bfloat16"])
def test_topk_takes_the_first_of_equal_elements(k: int, largest: bool, dtype: str) -> None:
    x = numbers(dtype, 3, 400)
    values, indices = fb.topk(x, k, 1, largest)
    plain = as_floats(x)
    expected = np.argsort(-plain if largest else plain, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices.numpy(), expected)
    np.testing.assert_array_equal(as_floats(values), np.take_along_axis(plain, expected, 1))


def test_topk_prefers_nan() -> None:
    assert fb.tensor([1.0, NAN, 3.0]).topk(2)[1].tolist() == [1, 2]
    assert fb.tensor([1.0, NAN, 3.0]).topk(2, largest=False)[1].tolist() == [0, 2]


def test_median_is_the_first_nan() -> None:
    assert fb.tensor([1.0, NAN, 3.0, NAN]).median(0)[1].item() == 1
    assert fb.tensor([4, 1, 3, 2]).median(0)[0].item() == 2


def test_searchsorted_sides_and_nan() -> None:
    sequence = fb.tensor([1.0, 2.0, 2.0, 3.0])
    values = fb.tensor([0.0, 2.0, 3.5, NAN])
    assert fb.searchsorted(sequence, values).tolist() == [0, 1, 4, 4]
    assert fb.searchsorted(sequence, values, right=True).tolist() == [0, 3, 4, 4]
    with_nan = fb.tensor([1.0, 2.0, NAN, NAN, NAN])  # NaN sorts as largest
    assert fb.searchsorted(with_nan, fb.tensor([1.5, 2.0, 9.0])).tolist() == [1, 1, 2]
    rows = fb.tensor([[1, 3, 5], [2, 4, 6]])
    found = fb.searchsorted(rows, fb.tensor([[3], [3]]), out_int32=True)
    assert found.tolist() == [[1], [1]] and found.dtype == fb.int32


@pytest.mark.parametrize("size", [0, 1, 2, 3, 17, 1000])
def test_searchsorted_equals_numpy(size: int) -> None:
    rng = np.random.default_rng(size)
    sequence, values = np.sort(rng.integers(0, 50, size)), rng.integers(-2, 52, (3, 37))
    for right in (False, True):
        want = np.searchsorted(sequence, values, "right" if right else "left")
        got = fb.searchsorted(fb.from_numpy(sequence), fb.from_numpy(values), right=right)
        np.testing.assert_array_equal(got.numpy(), want)


def test_bincount_types() -> None:
    x = fb.tensor([1, 1, 4])
    assert fb.bincount(x, minlength=7).tolist() == [0, 2, 0, 0, 1, 0, 0]
    assert fb.bincount(x, fb.tensor([0.5, 0.5, 2.0])).dtype == fb.float32
    assert fb.bincount(x, fb.tensor([1, 2, 3])).dtype == fb.float64
    assert fb.bincount(fb.tensor([], dtype=fb.int64)).tolist() == []


def test_histc_skips_nan_and_what_lies_outside() -> None:
    x = fb.tensor([-1.0, 0.0, 0.5, 1.0, NAN, 2.0])
    assert fb.histc(x, 2, 0, 1).tolist() == [1, 2]
    assert fb.histc(fb.tensor([1.0, 1.0]), 3).tolist() == [0, 2, 0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: fb.zeros(2, dtype=fb.complex64).sort(),
            RuntimeError,
            "sort: expected real numbers, got complex64",
        ),
        (lambda: fb.zeros(3).topk(-1), RuntimeError, "topk: expected k"),
        (lambda: fb.zeros(3).kthvalue(0), RuntimeError, "the size of dimension 0"),
        (lambda: fb.zeros(2, 0).median(1), IndexError, r"median\(\): Expected reduction dim"),
        (lambda: fb.searchsorted(fb.zeros(2, 3), fb.zeros(3, 1)), RuntimeError, "boundaries of 1 dimension"),
        (lambda: fb.bincount(fb.tensor([-1])), RuntimeError, "integers of 0 or more"),
        (lambda: fb.bincount(fb.tensor([1]), minlength=-1), RuntimeError, "expected minlength >= 0, got -1"),
        (lambda: fb.bincount(fb.tensor([1]), fb.zeros(2)), RuntimeError, "one weight per element"),
        (lambda: fb.histc(fb.zeros(2), 0), RuntimeError, "bins > 0"),
        (lambda: fb.histc(fb.zeros(2), 2, 1, 0), RuntimeError, "min below max"),
        (lambda: fb.histc(fb.tensor([1.0, NAN])), RuntimeError, "is not finite"),
    ],
)
def test_errors(call: object, error: type[Exception], message: str) -> None:
    assert callable(call)
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["int64", "float32", "bfloat16"])
def test_the_first_of_equal_extrema_is_named(dim: int, dtype: str) -> None:
    values = np.random.default_rng(3).integers(0, 3, (7, 65, 9))
    x = fb.tensor(values).to(getattr(fb, dtype))
    assert (x.argmax(dim).numpy() == values.argmax(dim)).all()
    assert (x.argmin(dim).numpy() == values.argmin(dim)).all()
    assert (x.max(dim).indices.numpy() == values.argmax(dim)).all()
    assert (x.min(dim).indices.numpy() == values.argmin(dim)).all()
    turned = x.transpose(0, 2)
    assert (turned.argmax(dim).numpy() == values.transpose(2, 1, 0).argmax(dim)).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", ["full", "forty", "small", "alike", "int32", "uint8", "float32"])
@pytest.mark.parametrize("n", [40, 5000, 70_000])
def test_long_rows_are_stable_at_any_number_of_threads(n: int, kind: str, threads: int):
    rng = np.random.default_rng(n)
    x = {
        "full": lambda: rng.integers(-(2**63), 2**63 - 1, n),
        "forty": lambda: rng.integers(0, 1 << 40, n) // 1000 * 1000,
        "small": lambda: rng.integers(-5, 5, n),
        "alike": lambda: np.full(n, -7),
        "int32": lambda: rng.integers(-(2**31), 2**31 - 1, n).astype(np.int32),
        "uint8": lambda: rng.integers(0, 255, n).astype(np.uint8),
        "float32": lambda: np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n).round(1)).astype(
            "float32"
        ),
    }[kind]()
    kept = fb.get_num_threads()
    fb.set_num_threads(threads)
    try:
        for descending in (False, True):
            values, places = fb.sort(fb.tensor(x), descending=descending, stable=True)
            rank = np.where(np.isnan(x), np.inf, x) if x.dtype.kind == "f" else x.astype(np.int64)
            keys = (-rank if x.dtype.kind == "f" else ~rank) if descending else rank
            expected = np.argsort(keys, kind="stable")
            assert np.array_equal(places.numpy(), expected)
            assert np.array_equal(values.numpy().view(np.uint8), x[expected].view(np.uint8))
    finally:
        fb.set_num_threads(kept)
