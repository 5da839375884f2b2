r"""Windows of ``M`` points, by their formulas over :math:`n = 0, ..., M - 1`.

A symmetric window (``sym=True``, for filters) has :math:`N = M - 1`, a periodic one (for spectra)
:math:`N = M`. Source: Harris 1978, "On the use of windows for harmonic analysis with the discrete Fourier
transform".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from flambeau import _C
from flambeau._arguments.checks import require_type
from flambeau._C import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

_f = _C._functions


def _window(
    name: str, M: int, sym: bool, how: dict[str, Any], values: Callable[[Tensor, int], Tensor]
) -> Tensor:
    """Check what all windows check; values(n, N) gives the elements in double precision."""
    dtype = how["dtype"] if how["dtype"] is not None else _C.get_default_dtype()
    if M > 1:
        require_type(name, int, M=M)
    if M < 0:
        raise ValueError(f"{name}: expected M >= 0, got {M}")
    if how["layout"] != _C.strided:
        raise ValueError(f"{name}: expected a strided layout, got {how['layout']}")
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name}: expected dtype float32 or float64, got {dtype}")
    if M <= 1:
        made = _f.ones([M], dtype=dtype, device=how["device"])
    else:
        n = _f.arange(M, dtype=_C.float64, device=how["device"])
        made = values(n, M - 1 if sym else M).to(dtype)
    return made.requires_grad_(how["requires_grad"])


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = _C.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    r"""Sum of cosines of multiples of one turn.

    .. math:: w_n = \sum_k (-1)^k a_k \cos(2 \pi k n / N)

    Args:
        M: number of points.
        a: the coefficients.
        sym: symmetric instead of periodic.
        dtype: float32 or float64; the default dtype if None.
        layout: strided.
        device: where the window is made.
        requires_grad: whether it records its use.

    Shape: ``(M,)``.
    Raises: ValueError for negative ``M``, other dtypes and layouts, and no coefficients.

    >>> general_cosine(3, a=[0.5, 0.5]).tolist()
    [0.0, 1.0, 0.0]
    """
    how = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}

    def values(n: Tensor, N: int) -> Tensor:
        terms = [(-1) ** k * c * _f.cos(n * (2 * math.pi * k / N)) for k, c in enumerate(coefficients)]
        return sum(terms[1:], terms[0])

    if not isinstance(a, Iterable):
        raise TypeError(f"general_cosine: expected a list or tuple of coefficients, got {type(a).__name__}")
    coefficients = list(a)
    if not coefficients:
        raise ValueError("general_cosine: Coefficients cannot be empty: expected at least one, got none")
    return _window("general_cosine", M, sym, how, values)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **how: Any) -> Tensor:
    r"""Raised cosine on a pedestal: :math:`w_n = \alpha - (1 - \alpha) \cos(2 \pi n / N)`.

    >>> general_hamming(3, alpha=0.5).tolist()
    [0.0, 1.0, 0.0]
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **how)


def hamming(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    r"""Hamming's window: :math:`w_n = 0.54 - 0.46 \cos(2 \pi n / N)`.

    >>> hamming(1).tolist()
    [1.0]
    """
    return general_hamming(M, sym=sym, **how)


def hann(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    r"""Hann's window: :math:`w_n = \sin^2(\pi n / N)`.

    >>> hann(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return general_hamming(M, alpha=0.5, sym=sym, **how)


def blackman(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    r"""Blackman's window: :math:`w_n = 0.42 - 0.5 \cos(2 \pi n / N) + 0.08 \cos(4 \pi n / N)`.

    >>> blackman(1).tolist()
    [1.0]
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **how)


def nuttall(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    r"""Nuttall's minimal window of four cosine terms.

    >>> nuttall(1).tolist()
    [1.0]
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **how)


def _own(
    dtype: Any = None, layout: Any = _C.strided, device: Any = None, requires_grad: bool = False
) -> dict[str, Any]:
    return {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}


def bartlett(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    r"""Triangle that is 0 at the ends: :math:`w_n = 1 - |2 n / N - 1|`.

    >>> bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("bartlett", M, sym, _own(**how), lambda n, N: 1 - _f.abs(n * (2 / N) - 1))


def cosine(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    r"""Half a sine wave: :math:`w_n = \sin(\pi (n + 1/2) / (N + 1))`.

    >>> cosine(1).tolist()
    [1.0]
    """
    return _window("cosine", M, sym, _own(**how), lambda n, N: _f.sin((n + 0.5) * (math.pi / (N + 1))))


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **how: Any
) -> Tensor:
    r"""Exponential decay to both sides of the centre: :math:`w_n = \exp(-|n - c| / \tau)`.

    Args:
        M: number of points.
        center: c, in points; the middle by default. Only for periodic windows.
        tau: the decay, in points; positive.
        sym: symmetric instead of periodic.
        how: dtype, layout, device and requires_grad.

    >>> exponential(1).tolist()
    [1.0]
    """
    if tau <= 0:
        raise ValueError(f"exponential: expected tau > 0, got {tau}")
    if sym and center is not None:
        raise ValueError(f"exponential: expected center=None for sym=True, got {center}")

    def values(n: Tensor, N: int) -> Tensor:
        return _f.exp(-_f.abs(n - (N / 2 if center is None else center)) / tau)

    return _window("exponential", M, sym, _own(**how), values)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **how: Any) -> Tensor:
    r"""Bell curve: :math:`w_n = \exp(-((n - N/2) / \sigma)^2 / 2)`, ``std`` being :math:`\sigma` in points.

    >>> gaussian(1).tolist()
    [1.0]
    """
    if std <= 0:
        raise ValueError(f"gaussian: expected std > 0, got {std}")
    return _window("gaussian", M, sym, _own(**how), lambda n, N: _f.exp(-0.5 * _f.square((n - N / 2) / std)))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **how: Any) -> Tensor:
    r"""Kaiser's window: :math:`w_n = I_0(\beta \sqrt{1 - (2 n / N - 1)^2}) / I_0(\beta)`, ``beta`` >= 0.

    >>> kaiser(1).tolist()
    [1.0]
    """
    if beta < 0:
        raise ValueError(f"kaiser: expected beta >= 0, got {beta}")

    def values(n: Tensor, N: int) -> Tensor:
        inside = 1 - _f.square(n * (2 / N) - 1)
        return _f.i0(beta * _f.sqrt(inside.clamp(min=0))) / _f.i0(_f.scalar_tensor(beta, dtype=n.dtype))

    return _window("kaiser", M, sym, _own(**how), values)
