"""Short-time Fourier transform and its inverse.

In Python because both warn, which function bodies cannot, and because the defaults of `onesided` and
`return_complex` follow from other arguments. Calls `unfold`, `fft_fft`, `fft_rfft`,
`fft_ifft`, `fft_irfft`, `view_as_real` and `_unfold_backward`.
"""

from __future__ import annotations

import warnings

from flambeau import _C
from flambeau._arguments.checks import require_tensors, require_type
from flambeau._C import Tensor

__all__ = ["istft", "stft"]

_f = _C._functions
_SMALLEST_ENVELOPE = 1e-11


def _check(holds: bool, name: str, text: str) -> None:
    if not holds:
        raise RuntimeError(f"{name}: {text}")


def _check_sizes(name: str, n_fft: int, hop: int, length: int, window: Tensor | None) -> None:
    _check(hop > 0, name, f"expected hop_length > 0, got {hop}")
    _check(0 < length <= n_fft, name, f"expected win_length from 1 to n_fft, got {length}")
    fits = window is None or (window.dim() == 1 and window.shape[0] == length)
    got = "" if window is None else str(list(window.shape))
    text = f"expected a 1D window of {length} elements (win_length), got size {got}"
    _check(fits, name, text)


def _centred(window: Tensor, n_fft: int) -> Tensor:
    """Zeros to both sides up to n_fft points."""
    length = window.shape[0]
    left = (n_fft - length) // 2
    if length == n_fft:
        return window
    parts = [window.new_zeros(left), window, window.new_zeros(n_fft - length - left)]
    return _f.cat(parts)


def _padded(input: Tensor, n_fft: int, mode: str) -> Tensor:
    from flambeau.nn.functional import pad

    wide = input.reshape([1] * (3 - input.dim()) + list(input.shape))
    padded = pad(wide, [n_fft // 2, n_fft // 2], mode)
    return padded.reshape(list(padded.shape)[-input.dim() :])


def _windowed(frames: Tensor, window: Tensor | None, length: int) -> Tensor:
    n_fft = frames.shape[-1]
    if window is None and length == n_fft:
        return frames
    return frames * _centred(frames.new_ones(length) if window is None else window, n_fft)


def _shown(result: Tensor, return_complex: bool | None) -> Tensor:
    return _f.view_as_real(result.contiguous()) if return_complex is False else result


def _has_onesided(onesided: bool | None, complex_output: bool) -> bool:
    if onesided and complex_output:
        raise RuntimeError("stft: expected a real signal and window with onesided=True, got complex numbers")
    return not complex_output if onesided is None else onesided


def _aligned(signal: Tensor, missing: int) -> Tensor:
    """Pad so that the first window, which is shorter than its frame by `missing`, begins at the start."""
    from flambeau.nn.functional import pad

    return pad(signal, [missing // 2] * 2)


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    r"""Fourier transforms of the windowed frames of a signal.

    .. math:: X[k, m] = \sum_j w[j] \, x[m h + j] \, e^{-2 \pi i jk / n}

    Args:
        input: real or complex signals.
        n_fft: points n of each transform.
        hop_length: h, points from frame to frame; ``n_fft // 4`` by default.
        win_length: points of the window; ``n_fft`` by default. Shorter windows are centred in the frame.
        window: w; all ones if None.
        center: pad the signal by half a frame at both ends, so that frame m is centred at m h.
        pad_mode: how, as in ``nn.functional.pad``.
        normalized: divide by the square root of n.
        onesided: keep the first n / 2 + 1 frequencies; by default where signal and window are real.
        return_complex: complex result, else real and imaginary part in a last dimension of 2.
        align_to_window: without ``center``, pad so that the first window begins at the signal's start.

    Shape: ``(batch, L)`` or ``(L,)`` to ``(batch, frequencies, frames)`` or without batch.
    Raises: RuntimeError for sizes that do not fit, and for real input without ``return_complex``.

    >>> from flambeau import ones
    >>> stft(ones(8), 4, center=False, window=ones(4), return_complex=True).shape
    flambeau.Size([3, 5])
    """
    require_type("stft", int, n_fft=n_fft, hop_length=hop_length, win_length=win_length)
    require_type("stft", bool, normalized=normalized, onesided=onesided, return_complex=return_complex)
    if center:
        if align_to_window is not None:
            raise RuntimeError(f"stft: expected center=False with align_to_window, got center={center}")
        input = _padded(input, n_fft, pad_mode)
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if window is None:
        warnings.warn("no window was given: all samples of a frame weigh the same", stacklevel=2)
    complex_output = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not complex_output:
        raise RuntimeError("stft: expected return_complex=True or False for a real signal, got None")
    _check(input.is_floating_point() or input.is_complex(), "stft", "expected a floating or complex tensor")
    _check(input.dim() in (1, 2), "stft", "expected 1 or 2 dimensions")
    signal = input.unsqueeze(0) if input.dim() == 1 else input
    if not center and align_to_window:
        signal = _aligned(signal, n_fft - length)
    points = signal.shape[1]
    _check(0 < n_fft <= points, "stft", f"expected n_fft from 1 to {points}, got {n_fft}")
    _check_sizes("stft", n_fft, hop, length, window)
    onesided = _has_onesided(onesided, complex_output)
    frames = _windowed(signal.unfold(-1, n_fft, hop), window, length)
    transform = _C._fft.fft_rfft if onesided else _C._fft.fft_fft
    result = transform(frames, norm="ortho" if normalized else None).transpose(1, 2)
    return _shown(result if input.dim() == 2 else result.squeeze(0), return_complex)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    r"""The signal whose :func:`stft` is nearest to the input: overlapping frames, weighted by the window.

    .. math:: x[t] = \sum_m w[t - m h] \, x_m[t - m h] \; / \; \sum_m w[t - m h]^2

    Args:
        input: complex transforms, as stft returns them.
        n_fft: points of each transform.
        hop_length: h, as for stft.
        win_length: as for stft.
        window: w, as for stft.
        center: whether stft padded the signal.
        normalized: whether stft divided by the square root of n.
        onesided: whether the input has n / 2 + 1 frequencies; by default told from its size.
        length: points of the result: trimmed, or filled up with zeros.
        return_complex: complex result.

    Shape: ``(batch, frequencies, frames)`` or without batch to ``(batch, L)`` or ``(L,)``.
    Raises: RuntimeError for sizes that do not fit, and where the windows leave a gap.
    Source: Griffin & Lim 1984, "Signal estimation from modified short-time Fourier transform".

    >>> from flambeau import arange, ones
    >>> x = arange(8.0)
    >>> w = ones(4)
    >>> istft(stft(x, 4, window=w, return_complex=True), 4, window=w, length=8).round().tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    require_tensors("istft", input=input)
    require_type("istft", int, n_fft=n_fft, hop_length=hop_length, win_length=win_length, length=length)
    require_type("istft", bool, center=center, onesided=onesided, return_complex=return_complex)
    hop = n_fft // 4 if hop_length is None else hop_length
    points = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError(
            f"istft: expected complex values, as stft returns with return_complex=True, got {input.dtype}"
        )
    _check(input.numel() > 0, "istft", "input tensor cannot be empty.")
    _check(input.dim() in (2, 3), "istft", "expected 2 or 3 dimensions")
    if window is None:
        warnings.warn("no window was given: all samples of a frame weigh the same", stacklevel=2)
    _check_sizes("istft", n_fft, hop, points, window)
    _check(hop <= points, "istft", f"expected 0 < hop_length <= win_length, but got hop_length={hop}")
    onesided = _inverse_onesided(input, n_fft, onesided, return_complex, window)
    spectra = (input.unsqueeze(0) if input.dim() == 2 else input).transpose(1, 2)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = _C._fft.fft_ifft(spectra, norm=norm)
    else:
        frames = _C._fft.fft_irfft(spectra if onesided else spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    taper = _centred(frames.new_ones(points) if window is None else window, n_fft)
    result = _overlapped(
        frames * taper, taper.square().expand(1, frames.shape[1], n_fft), hop, center, length
    )
    return result.squeeze(0) if input.dim() == 2 else result


def _inverse_onesided(
    input: Tensor, n_fft: int, onesided: bool | None, return_complex: bool, window: Tensor | None
) -> bool:
    have = input.shape[-2]
    onesided = have != n_fft if onesided is None else onesided
    want, text = (
        (n_fft // 2 + 1, "n_fft / 2 + 1 when onesided=True")
        if onesided
        else (n_fft, "n_fft when onesided=False")
    )
    _check(have == want, "istft", f"expected {text} frequencies, got {have}")
    if return_complex and onesided:
        raise RuntimeError("istft: expected onesided=False with return_complex=True, got True")
    if not return_complex and window is not None and window.is_complex():
        raise RuntimeError(f"istft: expected a real window with return_complex=False, got {window.dtype}")
    return onesided


def _overlapped(frames: Tensor, weights: Tensor, hop: int, center: bool, length: int | None) -> Tensor:
    """Add the frames where they lie, divide by the sum of weights, cut to `length`."""
    batch, count, n_fft = frames.shape
    whole = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - start
    summed = _f._unfold_backward(frames, [batch, whole], 1, n_fft, hop)[:, start:end]
    envelope = _f._unfold_backward(weights, [1, whole], 1, n_fft, hop)[:, start:end]
    smallest = float(envelope.abs().min()) if envelope.numel() else 0.0
    _check(smallest > _SMALLEST_ENVELOPE, "istft", "window overlap add min: 1")
    result = summed / envelope
    if end > whole:
        warnings.warn("istft: length is beyond the signal's end, where zeros are added", stacklevel=3)
        result = _f.cat([result, result.new_zeros(batch, end - whole)], 1)
    return result
