"""The windows at the top level: periodic by default, of every floating dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _made(
    name: str, window_length: int, periodic: bool, how: dict[str, Any], shape: Callable[..., Tensor]
) -> Tensor:
    dtype = how.pop("dtype", None) or _C.get_default_dtype()
    layout = how.pop("layout", None)
    requires_grad = how.pop("requires_grad", False)
    how.pop("pin_memory", None)
    device = how.pop("device", None)
    if how:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(how))}'")
    if layout not in (None, _C.strided):
        raise RuntimeError(f"{name}: expected a strided layout, got {layout}")
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if window_length < 0:
        raise RuntimeError(f"{name}: expected window_length >= 0, got {window_length}")
    made = shape(window_length, sym=not periodic, dtype=_C.float64, device=device)
    return made.to(dtype).requires_grad_(requires_grad)


def hann_window(window_length: int, periodic: bool = True, **how: Any) -> Tensor:
    r"""Hann's window, :math:`w_n = \sin^2(\pi n / N)`; N is the length if periodic, else one less.

    >>> hann_window(2).tolist()
    [0.0, 1.0]
    """
    from flambeau.signal import windows

    return _made("hann_window", window_length, periodic, how, windows.hann)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **how: Any
) -> Tensor:
    r"""Hamming's window, :math:`w_n = \alpha - \beta \cos(2 \pi n / N)`.

    >>> hamming_window(1).tolist()
    [1.0]
    """
    from flambeau.signal import windows

    def shape(length: int, **given: Any) -> Tensor:
        return windows.general_cosine(length, a=[alpha, beta], **given)

    return _made("hamming_window", window_length, periodic, how, shape)


def blackman_window(window_length: int, periodic: bool = True, **how: Any) -> Tensor:
    r"""Blackman's window, :math:`w_n = 0.42 - 0.5 \cos(2 \pi n / N) + 0.08 \cos(4 \pi n / N)`.

    >>> blackman_window(1).tolist()
    [1.0]
    """
    from flambeau.signal import windows

    return _made("blackman_window", window_length, periodic, how, windows.blackman)


def bartlett_window(window_length: int, periodic: bool = True, **how: Any) -> Tensor:
    r"""Triangle that is 0 at the ends, :math:`w_n = 1 - |2 n / N - 1|`.

    >>> bartlett_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    from flambeau.signal import windows

    return _made("bartlett_window", window_length, periodic, how, windows.bartlett)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **how: Any) -> Tensor:
    r"""Kaiser's window, :math:`w_n = I_0(\beta \sqrt{1 - (2 n / N - 1)^2}) / I_0(\beta)`.

    >>> kaiser_window(1).tolist()
    [1.0]
    """
    from flambeau.signal import windows

    def shape(length: int, **given: Any) -> Tensor:
        return windows.kaiser(length, beta=beta, **given)

    return _made("kaiser_window", window_length, periodic, how, shape)
