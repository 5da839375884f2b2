"""Fourier transforms: the error bound over many lengths, and what the generated tests cannot know."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest

# Radixes of every kind, primes below and above the largest pass, lengths that are split, both ways of
# Bluestein's algorithm, odd and even.
LENGTHS = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    12,
    30,
    47,
    53,
    64,
    97,
    128,
    210,
    224,
    243,
    343,
    500,
    1009,
    2048,
    4099,
    6000,
    8192,
    10007,
)
LONG = (16384, 20011, 45000)


def exact(x: np.ndarray, outputs: np.ndarray, sign: int) -> np.ndarray:
    """Some outputs by the definition in extended precision; the angle is reduced in integers."""
    n = len(x)
    steps = np.multiply.outer(outputs, np.arange(n)) % n
    angles = steps.astype(np.longdouble) * (2 * np.arccos(np.longdouble(-1)) / n) * sign
    wide = x.astype(np.clongdouble)
    return (wide * (np.cos(angles) + 1j * np.sin(angles))).sum(axis=1)


def bound(n: int, dtype: type) -> float:
    """Relative to the norm: 1 eps per pass, and as much again for the twiddles."""
    return float(np.finfo(dtype).eps) * (2 + np.log2(2 * n))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", (*LENGTHS, *LONG))
def test_error_bound(n: int, dtype: type):
    rng = np.random.default_rng(n)
    parts = rng.uniform(-1, 1, (2, n)).astype(dtype)
    x = parts[0] + 1j * parts[1]
    k = np.unique(rng.integers(0, n, 40))
    scale = np.linalg.norm(x.astype(np.complex128))  # of one output, on average
    for function, sign in ((fb.fft.fft, -1), (lambda t: fb.fft.ifft(t, norm="forward"), 1)):
        got = function(fb.from_numpy(x)).numpy()[k]
        error = np.sqrt(np.mean(np.abs(got - exact(x, k, sign)) ** 2))
        assert error <= bound(n, dtype) * scale
    half = k[k <= n // 2]
    got = fb.fft.rfft(fb.from_numpy(parts[0])).numpy()[half]
    assert np.sqrt(np.mean(np.abs(got - exact(parts[0], half, -1)) ** 2)) <= bound(n, dtype) * scale


@pytest.mark.parametrize("shape", [(20, 12), (3, 2, 17), (40, 3, 5), (1, 3000, 2), (2, 1, 4099)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_any_dimension_of_any_layout(shape: tuple[int, ...], dim: int):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    tensor = fb.from_numpy(x.T.copy()).permute(*reversed(range(len(shape))))
    n = shape[dim]
    np.testing.assert_allclose(fb.fft.fft(tensor, dim=dim).numpy(), np.fft.fft(x, axis=dim), atol=1e-11)
    np.testing.assert_allclose(
        fb.fft.rfft(tensor.real, dim=dim).numpy(), np.fft.rfft(x.real, axis=dim), atol=1e-11
    )
    for size in (2 * n - 1, 2 * n):
        want = np.fft.irfft(x, size, axis=dim)
        np.testing.assert_allclose(fb.fft.irfft(tensor, size, dim=dim).numpy(), want, atol=1e-11)


@pytest.mark.parametrize("n", [6, 7, 5000, 4099])
def test_transforming_back_gives_the_input(n: int):
    x = fb.randn(3, n, dtype=fb.float64)
    assert fb.allclose(fb.fft.irfft(fb.fft.rfft(x), n), x)
    assert fb.allclose(fb.fft.ifft(fb.fft.fft(x)).real, x)
    assert fb.allclose(fb.fft.hfft(fb.fft.ihfft(x), n), x)


# Lengths of 4 to 48 vectors of any instruction set, with rows that share a vector or not, and batches
# that leave the last group of rows incomplete.
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [8, 32, 56, 64, 80, 112, 128, 160, 208, 224, 240, 256, 480, 512, 768])
@pytest.mark.parametrize("batch", [1, 2, 3, 5, 9])
def test_batches_of_short_rows(n: int, batch: int, dtype: type):
    rng = np.random.default_rng(n + batch)
    # Each row has a scale of its own, which another row's rounding errors must not reach.
    rows = 10.0 ** rng.permutation(np.arange(batch) * 3 % 7)[:, None]
    tolerance = bound(2 * n, dtype) * np.sqrt(2 * n) * rows
    x = (rng.uniform(-1, 1, (batch, n)) + 1j * rng.uniform(-1, 1, (batch, n))) * rows
    x = x.astype(np.result_type(dtype, np.complex64))
    pairs = x.view(dtype)
    spectrum = np.fft.rfft(pairs.astype(np.float64))
    for got, want in (
        (fb.fft.fft(fb.from_numpy(x)), np.fft.fft(x.astype(np.complex128))),
        (fb.fft.ifft(fb.from_numpy(x), norm="forward"), np.fft.ifft(x.astype(np.complex128), norm="forward")),
        (fb.fft.rfft(fb.from_numpy(pairs)), spectrum),
        (fb.fft.irfft(fb.from_numpy(spectrum.astype(x.dtype))), pairs),
        (fb.fft.fft(fb.from_numpy(x).t().contiguous(), dim=0).t(), np.fft.fft(x.astype(np.complex128))),
    ):
        assert (np.abs(got.numpy() - want) <= tolerance).all()


@pytest.mark.parametrize("n", [64, 128, 224, 256, 512])
@pytest.mark.parametrize("call", [fb.fft.fft, fb.fft.rfft, fb.fft.irfft, fb.fft.ifft])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_stay_in_their_row(n: int, call, bad: float):
    x = fb.randn(6, n // 2 + 1, dtype=fb.complex64) if call is fb.fft.irfft else fb.randn(6, n)
    want = call(x)
    y = x.clone()
    y[2, 5] = bad
    got = call(y)
    assert not got[2].isfinite().any()
    others = [0, 1, 3, 4, 5]
    assert fb.equal(got[others], want[others])


def test_imaginary_parts_that_cannot_be_are_ignored():
    x = fb.tensor([1 + 5j, 2 + 1j, 3 - 7j])
    y = fb.tensor([1, 2 + 1j, 3], dtype=fb.complex64)
    assert fb.fft.irfft(x).tolist() == fb.fft.irfft(y).tolist()


def test_nan_stays_in_its_sequence():
    x = fb.zeros(3, 8)
    x[1, 2] = float("nan")
    spectrum = fb.fft.fft(x)
    assert fb.isnan(spectrum).all(dim=1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: fb.fft.fft(fb.zeros(4, dtype=fb.float16)), RuntimeError, "Unsupported dtype Half"),
        (lambda: fb.fft.fft(fb.zeros(())), IndexError, "no dim for a tensor without dimensions"),
        (lambda: fb.fft.fft(fb.zeros(4), n=0), RuntimeError, "expected 1 or more data points, got 0"),
        (
            lambda: fb.fft.fft(fb.zeros(4), norm="x"),
            RuntimeError,
            "expected backward, forward or ortho as norm, got 'x'",
        ),
        (lambda: fb.fft.rfft(fb.zeros(4) * 1j), RuntimeError, "expected a real input"),
        (
            lambda: fb.fft.fftn(fb.zeros(2, 2), dim=(0, 0)),
            RuntimeError,
            r"expected each dim once, got \[0, 0\]",
        ),
        (lambda: fb.fft.fftn(fb.zeros(2), s=(1, 2)), RuntimeError, "at most 1 dimensions, got 2"),
        (lambda: fb.fft.fftn(fb.zeros(2, 2), s=(1, 2), dim=(0,)), RuntimeError, "as many sizes as dims"),
        (lambda: fb.fft.rfftn(fb.zeros(2, 2), dim=()), RuntimeError, "at least one dim"),
        (lambda: fb.fft.fft2(fb.zeros(3)), IndexError, "Dimension out of range"),
        (lambda: fb.fft.fftfreq(4, dtype=fb.int64), RuntimeError, "floating or complex dtype"),
    ],
)
def test_wrong_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


# Rows by vectors of their own elements, columns by groups with a rest, and parts that are transformed
# along all dimensions one after the other.
SHAPES = [
    ((3, 1024), (1,)),
    ((5, 16384), (1,)),
    ((4, 16, 18), (1, 2)),
    ((6, 128, 36), (0, 1)),
    ((300, 70), (0,)),
    ((5, 40, 7), (2, 1)),
    ((3, 5, 64, 64), (2, 3)),
    ((2, 256, 256), (1, 2)),
    ((7, 3, 9), (0, 1, 2)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_layouts(shape: tuple[int, ...], dim: tuple[int, ...], dtype: type):
    rng = np.random.default_rng(sum(shape))
    real = rng.uniform(-1, 1, shape).astype(dtype)
    wide = real + 1j * rng.uniform(-1, 1, shape).astype(dtype)
    count = int(np.prod([shape[d] for d in dim]))

    def close(result: fb.Tensor, expected: np.ndarray) -> None:
        error = np.linalg.norm(result.numpy() - expected)
        assert error <= bound(count, dtype) * np.linalg.norm(expected)

    # NumPy computes in float64: its own error matters for that type only, and the bound has room.
    close(fb.fft.fftn(fb.tensor(wide), dim=dim), np.fft.fftn(wide.astype(np.complex128), axes=dim))
    close(fb.fft.ifftn(fb.tensor(wide), dim=dim), np.fft.ifftn(wide.astype(np.complex128), axes=dim))
    spectrum = np.fft.rfftn(real.astype(np.float64), axes=dim)
    close(fb.fft.rfftn(fb.tensor(real), dim=dim), spectrum)
    back = fb.fft.irfftn(fb.tensor(spectrum.astype(wide.dtype)), s=[shape[d] for d in dim], dim=dim)
    close(back, real)
