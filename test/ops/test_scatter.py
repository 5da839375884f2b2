"""Scatters: repeated places, each reduction, layouts, and what is refused."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest

NAN = float("nan")
A = fb.tensor


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_adding_along_every_dimension(dim: int, transposed: bool) -> None:
    rng = np.random.default_rng(dim)
    shape = (4, 300, 5)
    x, src = rng.standard_normal((2, *shape))
    index = rng.integers(0, shape[dim], shape)
    expected = x.copy()
    where = [np.arange(n).reshape([-1 if d == e else 1 for e in range(3)]) for d, n in enumerate(shape)]
    np.add.at(expected, tuple(index if d == dim else where[d] for d in range(3)), src)
    ours = A(x.tolist(), dtype=fb.float64)
    if transposed:
        ours = ours.transpose(0, 2).contiguous().transpose(0, 2)
    ours.scatter_add_(dim, A(index.tolist()), A(src.tolist(), dtype=fb.float64))
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-12)


REDUCTIONS = {
    "sum": ([11, 2, 6], [10, 2, 3]),
    "prod": ([24, 2, 9], [24, 2, 3]),
    "mean": ([11 / 3, 2, 3], [5, 2, 3]),
    "amax": ([6, 2, 3], [6, 2, 3]),
    "amin": ([1, 2, 3], [4, 2, 3]),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("reduce", sorted(REDUCTIONS))
def test_each_reduction(reduce: str, dtype: str) -> None:
    kind = getattr(fb, dtype)
    x, src, index = A([1, 2, 3], dtype=kind), A([4, 6, 3], dtype=kind), A([0, 0, 2])
    for include_self, expected in zip((True, False), REDUCTIONS[reduce], strict=True):
        result = x.scatter_reduce(0, index, src, reduce, include_self=include_self)
        values = np.floor(expected) if dtype == "int32" else expected
        np.testing.assert_allclose(result.to(fb.float64).numpy(), values, rtol=1e-3)


def test_half_sums_are_rounded_once() -> None:
    src, index = fb.ones(4096, dtype=fb.bfloat16), fb.zeros(4096, dtype=fb.int64)
    assert fb.zeros(1, dtype=fb.bfloat16).scatter_add(0, index, src).item() == 4096


def test_extrema_let_nan_win_and_means_of_integers_are_floored() -> None:
    index = A([0, 0])
    assert np.isnan(A([1.0]).scatter_reduce(0, index, A([NAN, 3.0]), "amax").item())
    assert np.isnan(A([1.0]).scatter_reduce(0, index, A([NAN, 3.0]), "amin").item())
    assert A([0]).scatter_reduce(0, index, A([-4, -3]), "mean", include_self=False).item() == -4


def test_bool_complex_and_number_forms() -> None:
    assert A([True, False]).scatter_add(0, A([1]), A([True])).tolist() == [True, True]
    assert A([2j, 1]).scatter(0, A([0]), A([2j]), reduce="multiply").tolist() == [-4, 1]
    assert A([1, 2]).scatter(0, A([0]), 2.7).tolist() == [2, 2]
    assert A(1.0).scatter(0, A(0), A(5.0)).item() == 5
    assert A([1.0, 2.0]).scatter(0, A([], dtype=fb.int64), A([], dtype=fb.float32)).tolist() == [1, 2]
    assert A([1.0, 2.0]).scatter(0, A([1], dtype=fb.int32), A([7.0])).tolist() == [1, 7]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: A([1.0, 2.0]).scatter(0, A([3]), A([1.0])),
            "index 3 is out of bounds for dimension 0 with size 2",
        ),
        (lambda: A([1.0, 2.0]).scatter(0, A([-1]), 0), "index -1 is out of bounds"),
        (lambda: A([1.0]).scatter(0, A([0], dtype=fb.int16), 0), "int64 or int32, got int16"),
        (lambda: A([1.0]).scatter(0, A([0]), A([1])), "src of dtype float32, got int64"),
        (lambda: A([1.0]).scatter(0, A([[0]]), 0), "index of 1 dimensions"),
        (lambda: A([1.0]).scatter(0, A([0]), A([[1.0]])), "src of 1 dimensions"),
        (lambda: A([1.0]).scatter(0, A([0, 0]), A([1.0])), r"fits into src"),
        (lambda: fb.zeros(2, 3).scatter(0, fb.zeros(1, 4, dtype=fb.int64), 1), "dimensions but 0"),
        (lambda: A([1.0]).scatter(0, A([0]), A([1.0]), reduce="sum"), "'add' or 'multiply'"),
        (lambda: A([1.0]).scatter_reduce(0, A([0]), A([1.0]), "add"), "amax, amin, mean, prod or sum"),
        (lambda: A([1, 2]).scatter(0, A([0]), 2j), "int64_t without overflow"),
        (lambda: fb.zeros(3).expand(2, 3).scatter_(0, A([[0, 0, 0]]), 1), "unsupported operation"),
    ],
)
def test_errors(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(RuntimeError, match=message):
        call()
