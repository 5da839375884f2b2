"""Running sums, products and extrema, and the places of extrema: NaN, ties, accuracy, layouts, errors."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from side_by_side import refuse_alike, same

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("shape", [(7,), (9, 5), (5, 300), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_sums_along_every_dimension(shape: tuple[int, ...], dtype: str) -> None:
    plain = np.random.default_rng(0).integers(-9, 9, shape)
    x = fb.tensor(plain.tolist(), dtype=getattr(fb, dtype))
    for dim in range(len(shape)):
        np.testing.assert_array_equal(x.cumsum(dim).numpy(), plain.cumsum(dim))
        np.testing.assert_array_equal(
            x.transpose(0, -1).cumsum(dim).numpy(), plain.swapaxes(0, -1).cumsum(dim)
        )


@pytest.mark.parametrize("dtype", [fb.float32, fb.int64])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 1000])
def test_sums_of_rows_of_any_length(n: int, dtype: fb.dtype) -> None:
    """Rows begin at any alignment; results are the double (wrapping int64) sums, rounded once."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((5, n)) if dtype is fb.float32 else rng.integers(-(2**62), 2**62, (5, n))
    x = x.astype(np.float32) if dtype is fb.float32 else x
    want = x.astype(np.float64 if dtype is fb.float32 else np.int64).cumsum(1).astype(x.dtype)
    tensor = fb.from_numpy(x.copy())
    np.testing.assert_allclose(tensor.cumsum(1).numpy(), want, rtol=2**-23, atol=1e-12)
    np.testing.assert_array_equal(tensor.cumsum_(1).numpy(), fb.from_numpy(x).cumsum(1).numpy())


def test_sums_carry_past_the_pieces_of_a_long_row() -> None:
    n = (1 << 20) + 5
    assert fb.ones(n, dtype=fb.int64).cumsum(0).equal(fb.arange(1, n + 1))
    assert fb.ones(n).cumsum(0)[-3:].tolist() == [n - 2, n - 1, n]
    assert fb.empty(0).cumsum(0).shape == (0,)


@pytest.mark.parametrize("place", [0, 5, 8, 18])
def test_nan_and_infinity_stay_from_where_they_occur(place: int) -> None:
    for bad, after in ((NAN, NAN), (INF, INF), (-INF, -INF)):
        x = np.ones(20, np.float32)
        x[place] = bad
        want = np.arange(1, 21, dtype=np.float32)
        want[place:] = after
        np.testing.assert_array_equal(fb.from_numpy(x).cumsum(0).numpy(), want)
    x = np.ones(20, np.float32)
    x[3], x[place] = INF, -INF
    found = fb.from_numpy(x).cumsum(0).isnan().tolist()
    last = max(3, place)
    assert found == [False] * last + [True] * (20 - last)


def test_half_types_sum_in_float() -> None:
    ones = fb.ones(4096, dtype=fb.bfloat16)
    assert ones.cumsum(0)[-1].item() == 4096  # bfloat16 sums would stop at 256


def test_small_integers_become_int64() -> None:
    assert fb.tensor([200, 100], dtype=fb.uint8).cumsum(0).tolist() == [200, 300]
    assert fb.tensor([True, True]).cumsum(0).dtype == fb.int64
    assert fb.tensor([200, 100], dtype=fb.uint8).cumsum(0, dtype=fb.uint8).tolist() == [200, 44]


def test_running_extrema_keep_nan_and_the_last_place() -> None:
    values, places = fb.tensor([1.0, NAN, 2.0, NAN, 4.0]).cummax(0)
    np.testing.assert_array_equal(values.numpy(), [1, NAN, NAN, NAN, NAN])
    assert places.tolist() == [0, 1, 1, 3, 3]
    assert fb.tensor([1, 1, 0, 1]).cummax(0)[1].tolist() == [0, 1, 1, 3]
    assert fb.tensor([[2, 1], [1, 1]]).cummin(0)[1].tolist() == [[0, 0], [1, 1]]


def test_logcumsumexp_at_infinity() -> None:
    result = fb.tensor([-INF, -INF, 0.0, INF, 1.0, NAN]).logcumsumexp(0)
    np.testing.assert_array_equal(result.numpy(), [-INF, -INF, 0, INF, INF, NAN])
    assert fb.tensor([1000.0, 1000.0]).logcumsumexp(0)[1].item() == pytest.approx(1000 + np.log(2))


@pytest.mark.parametrize("dtype", "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split())
@pytest.mark.parametrize("shape", [(70,), (1000, 3), (3, 1000), (4, 5, 6), (200000,)])
def test_places_of_extrema(dtype: str, shape: tuple[int, ...]) -> None:
    plain = np.random.default_rng(1).integers(0, 100, shape)
    x = fb.tensor(plain.tolist(), dtype=getattr(fb, dtype))
    assert x.argmax().item() == plain.argmax()
    assert x.argmin().item() == plain.argmin()
    for dim in range(len(shape)):
        values, places = x.max(dim, keepdim=True)
        np.testing.assert_array_equal(places.numpy(), plain.argmax(dim, keepdims=True))
        np.testing.assert_array_equal(values.to(fb.int64).numpy(), plain.max(dim, keepdims=True))
        np.testing.assert_array_equal(x.argmin(dim).numpy(), plain.argmin(dim))


def test_nan_is_both_extrema() -> None:
    x = fb.tensor([1.0, NAN, INF, -INF, NAN])
    assert [x.argmax().item(), x.argmin().item(), x.max(0)[1].item(), x.min(0)[1].item()] == [1, 1, 1, 1]
    assert fb.tensor([0.0, -0.0]).argmin().item() == 0


def test_number_like_tensors() -> None:
    assert [part.item() for part in fb.tensor(3.0).max(0)] == [3.0, 0]
    assert fb.tensor(3.0).cumsum(-1).item() == 3.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: fb.zeros(2, 0).max(1),
            IndexError,
            r"max\(\): Expected reduction dim of non-zero size",
        ),
        (lambda: fb.zeros(0).argmin(), IndexError, "got None as 'dim'"),
        (
            lambda: fb.zeros(2, dtype=fb.complex64).min(0),
            RuntimeError,
            "min.*: expected real numbers, got complex64",
        ),
        (lambda: fb.tensor([True]).argmax(), RuntimeError, "argmax.*: expected real numbers, got bool"),
        (lambda: fb.zeros(2).cumsum(1), IndexError, r"range of \[-1, 0\].* got 1"),
        (lambda: fb.tensor([1]).logcumsumexp(0), NotImplementedError, "not implemented for 'Long'"),
        (lambda: fb.tensor([1j]).cummax(0), NotImplementedError, "not implemented for 'ComplexFloat'"),
    ],
)
def test_errors(call: object, error: type[Exception], message: str) -> None:
    assert callable(call)
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float16", "float32", "float64", "complex64"])
def test_differences_of_order_zero_are_not_cast(dtype: str) -> None:
    """Of higher orders they are, where PyTorch casts."""

    def program(m, of, n):
        x = m.arange(4, dtype=getattr(m, of))
        out = m.empty(4 - n, dtype=getattr(m, dtype))
        return [m.diff(x, n=n, out=out) is out, out]

    for of, n in (("float32", 0), ("int32", 0), ("float32", 1), ("int64", 2)):
        kinds = "bool int32 int64 float16 float32 float64 complex64".split()
        refused = (dtype != of) if n == 0 else (kinds.index(dtype) < 3 and of == "float32") or dtype == "bool"
        (refuse_alike if refused else same)(lambda m, o=of, k=n: program(m, o, k))


def test_errors_of_differences_of_order_zero() -> None:
    refuse_alike(
        lambda m: m.diff(m.arange(4.0, device="meta"), n=0, out=m.empty(4, dtype=m.int64, device="meta"))
    )
    refuse_alike(lambda m: m.diff(m.tensor(1.0), n=0, out=m.empty(0)))
    same(lambda m: m.diff(m.arange(4.0), n=0, out=m.empty(0)))
