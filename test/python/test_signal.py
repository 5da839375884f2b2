"""Windows against SciPy; short-time transforms against their definition, and back."""

from __future__ import annotations

import warnings

import flambeau as fb
import numpy as np
import pytest
import scipy.signal.windows as reference

WINDOWS = [
    ("bartlett", {}, "bartlett", ()),
    ("blackman", {}, "blackman", ()),
    ("cosine", {}, "cosine", ()),
    ("exponential", {"tau": 3.0}, "exponential", (None, 3.0)),
    ("gaussian", {"std": 2.0}, "gaussian", (2.0,)),
    ("general_cosine", {"a": [0.5, 0.3, 0.2]}, "general_cosine", ([0.5, 0.3, 0.2],)),
    ("general_hamming", {"alpha": 0.7}, "general_hamming", (0.7,)),
    ("hamming", {}, "hamming", ()),
    ("hann", {}, "hann", ()),
    ("kaiser", {"beta": 5.0}, "kaiser", (5.0,)),
    ("nuttall", {}, "nuttall", ()),
]


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("M", [0, 1, 2, 7, 16])
@pytest.mark.parametrize(("name", "options", "other", "args"), WINDOWS, ids=[row[0] for row in WINDOWS])
def test_windows(name, options, other, args, M, sym):
    got = getattr(fb.signal.windows, name)(M, sym=sym, dtype=fb.float64, **options)
    want = getattr(reference, other)(M, *args, sym=sym)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-14)


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett"])
def test_windows_of_the_top_level_are_periodic_and_of_any_dtype(name):
    window = getattr(fb, f"{name}_window")
    np.testing.assert_allclose(window(9).numpy(), reference.get_window(name, 9), atol=1e-6)
    np.testing.assert_allclose(window(9, False).numpy(), getattr(reference, name)(9), atol=1e-6)
    assert window(4, dtype=fb.float16).dtype is fb.float16
    assert window(4, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: fb.signal.windows.hann(-1), ValueError, "M"),
        (lambda: fb.signal.windows.hann(4, dtype=fb.int64), ValueError, "float32 or float64"),
        (lambda: fb.signal.windows.gaussian(4, std=0), ValueError, "got:? 0"),
        (lambda: fb.signal.windows.exponential(4, tau=0), ValueError, "(?i)tau"),
        (lambda: fb.signal.windows.exponential(4, center=1), ValueError, "(?i)center"),
        (lambda: fb.signal.windows.general_cosine(4, a=[]), ValueError, "Coefficients cannot be empty"),
        (lambda: fb.signal.windows.general_cosine(4, a=3), TypeError, "list"),
        (lambda: fb.signal.windows.kaiser(4, beta=-1), ValueError, "beta"),
        (lambda: fb.hann_window(4, dtype=fb.int64), RuntimeError, "expects floating point dtypes"),
        (lambda: fb.hann_window(-1), RuntimeError, "window_length"),
    ],
)
def test_wrong_windows(call, error, words):
    with pytest.raises(error, match=words):
        call()


def by_definition(x: np.ndarray, window: np.ndarray, hop: int) -> np.ndarray:
    n = len(window)
    frames = [x[i : i + n] * window for i in range(0, len(x) - n + 1, hop)]
    return np.fft.rfft(np.array(frames), axis=1).T


def test_stft_by_its_definition():
    x = np.random.default_rng(0).standard_normal(50)
    window = reference.hann(8, sym=False)
    got = fb.stft(fb.from_numpy(x), 8, 3, window=fb.from_numpy(window), center=False, return_complex=True)
    np.testing.assert_allclose(got.numpy(), by_definition(x, window, 3), atol=1e-13)
    padded = np.pad(x, 4, mode="reflect")
    got = fb.stft(fb.from_numpy(x), 8, 3, window=fb.from_numpy(window), return_complex=True)
    np.testing.assert_allclose(got.numpy(), by_definition(padded, window, 3), atol=1e-13)
    short = np.pad(reference.hann(5), (1, 2))
    got = fb.stft(
        fb.from_numpy(x), 8, 3, 5, fb.from_numpy(reference.hann(5)), center=False, return_complex=True
    )
    np.testing.assert_allclose(got.numpy(), by_definition(x, short, 3), atol=1e-13)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("shape", [(200,), (3, 200)])
def test_istft_gives_the_signal_back(shape, normalized):
    x = fb.randn(*shape, dtype=fb.float64)
    window = fb.hann_window(16, dtype=fb.float64)
    spectrum = x.stft(16, 4, window=window, normalized=normalized, return_complex=True)
    assert fb.allclose(spectrum.istft(16, 4, window=window, normalized=normalized, length=200), x)
    whole = x.to(fb.complex128).stft(16, 4, window=window, normalized=normalized)
    back = whole.istft(16, 4, window=window, normalized=normalized, length=200, return_complex=True)
    assert fb.allclose(back.real, x)


def test_istft_is_longer_than_its_frames_with_zeros():
    x, window = fb.ones(32), fb.hann_window(8)
    spectrum = fb.stft(x, 8, window=window, return_complex=True)
    with pytest.warns(UserWarning, match="zeros are added"):
        assert fb.istft(spectrum, 8, window=window, length=40)[-4:].tolist() == [0.0] * 4


SIGNAL = fb.ones(2, 20)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fb.stft(SIGNAL, 8), "return_complex"),
        (lambda: fb.stft(SIGNAL, 8, 0, return_complex=True), "expected hop_length > 0"),
        (lambda: fb.stft(SIGNAL, 8, win_length=9, return_complex=True), "win_length"),
        (lambda: fb.stft(SIGNAL, 8, window=fb.ones(5), return_complex=True), "expected a 1D window"),
        (lambda: fb.stft(SIGNAL.to(fb.complex64), 8, onesided=True), "onesided"),
        (lambda: fb.stft(SIGNAL, 30, center=False, return_complex=True), "expected n_fft from 1 to"),
        (lambda: fb.istft(SIGNAL, 8), "complex"),
        (
            lambda: fb.istft(fb.ones(5, 4).to(fb.complex64), 8, window=fb.zeros(8)),
            "window overlap add min: 1",
        ),
    ],
)
def test_wrong_transforms(call, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match=words):
            call()
