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
from flambeau._loading.documentation import described_by

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


def _arguments(M: int, sym: bool, **how: Any) -> None:
    """Hold the documentation that the windows share.

    Args:
        M: the number of points, 0 or more.
        sym: whether the window is symmetric instead of periodic.
        **how: `dtype` (float32 or float64; None means the default dtype), `layout` (strided), `device` and
            `requires_grad` of the result.

    Shape:
        ``(M,)``.

    Raises:
        ValueError for a negative `M`, another dtype and another layout.

    Source:
        Harris 1978, "On the use of windows for harmonic analysis with the discrete Fourier transform".
    """


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
    """Return a sum of cosines of multiples of one turn.

    Formula:
        w_n = sum over k of (-1)**k * a_k * cos(2 * pi * k * n / N)

    Args:
        M: number of points.
        a: the coefficients.
        sym: symmetric instead of periodic.
        dtype: float32 or float64; the default dtype if None.
        layout: strided.
        device: where the window is made.
        requires_grad: whether it records its use.

    Shape: ``(M,)``.
    Raises: TypeError for coefficients that cannot be iterated over; ValueError for a negative `M`, other
        dtypes and layouts, and no coefficients.

    Example:
        >>> flambeau.signal.windows.general_cosine(3, a=[0.5, 0.5]).tolist()
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


@described_by(_arguments)
def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **how: Any) -> Tensor:
    """Return a raised cosine on a pedestal.

    Formula:
        w_n = alpha - (1 - alpha) * cos(2 * pi * n / N)

    Args:
        alpha: the weight of the constant.

    Example:
        >>> flambeau.signal.windows.general_hamming(3, alpha=0.5).tolist()
        [0.0, 1.0, 0.0]
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **how)


@described_by(_arguments)
def hamming(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    """Return a Hamming window.

    Formula:
        w_n = 0.54 - 0.46 * cos(2 * pi * n / N)

    Example:
        >>> flambeau.signal.windows.hamming(4)
        tensor([0.0800, 0.7700, 0.7700, 0.0800])
    """
    return general_hamming(M, sym=sym, **how)


@described_by(_arguments)
def hann(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    """Return a Hann window.

    Formula:
        w_n = sin(pi * n / N)**2

    Example:
        >>> flambeau.signal.windows.hann(3).tolist()
        [0.0, 1.0, 0.0]
    """
    return general_hamming(M, alpha=0.5, sym=sym, **how)


@described_by(_arguments)
def blackman(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    """Return a Blackman window.

    Formula:
        w_n = 0.42 - 0.5 * cos(2 * pi * n / N) + 0.08 * cos(4 * pi * n / N)

    Example:
        >>> [round(w, 2) for w in flambeau.signal.windows.blackman(4).tolist()]
        [-0.0, 0.63, 0.63, -0.0]
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **how)


@described_by(_arguments)
def nuttall(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    """Return Nuttall's window of four cosine terms.

    Formula:
        w_n = sum over k of (-1)**k * a_k * cos(2 * pi * k * n / N),
        a = (0.3635819, 0.4891775, 0.1365995, 0.0106411)

    Example:
        >>> flambeau.signal.windows.nuttall(4)
        tensor([3.6280e-04, 5.2923e-01, 5.2923e-01, 3.6280e-04])
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **how)


def _own(
    dtype: Any = None, layout: Any = _C.strided, device: Any = None, requires_grad: bool = False
) -> dict[str, Any]:
    return {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}


@described_by(_arguments)
def bartlett(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    """Return a triangle that is 0 at the ends.

    Formula:
        w_n = 1 - abs(2 * n / N - 1)

    Example:
        >>> flambeau.signal.windows.bartlett(3).tolist()
        [0.0, 1.0, 0.0]
    """
    return _window("bartlett", M, sym, _own(**how), lambda n, N: 1 - _f.abs(n * (2 / N) - 1))


@described_by(_arguments)
def cosine(M: int, *, sym: bool = True, **how: Any) -> Tensor:
    """Return half a sine wave.

    Formula:
        w_n = sin(pi * (n + 1/2) / (N + 1))

    Example:
        >>> flambeau.signal.windows.cosine(4)
        tensor([0.3827, 0.9239, 0.9239, 0.3827])
    """
    return _window("cosine", M, sym, _own(**how), lambda n, N: _f.sin((n + 0.5) * (math.pi / (N + 1))))


@described_by(_arguments)
def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **how: Any
) -> Tensor:
    """Return an exponential decay to both sides of a center.

    Formula:
        w_n = exp(-abs(n - center) / tau)

    Args:
        center: in points. None means the middle; other values need ``sym=False``.
        tau: the decay in points, above 0.

    Raises: ValueError for `tau` of 0 or less, and for a `center` of a symmetric window.

    Example:
        >>> flambeau.signal.windows.exponential(4)
        tensor([0.2231, 0.6065, 0.6065, 0.2231])
    """
    if tau <= 0:
        raise ValueError(f"exponential: expected tau > 0, got {tau}")
    if sym and center is not None:
        raise ValueError(f"exponential: expected center=None for sym=True, got {center}")

    def values(n: Tensor, N: int) -> Tensor:
        return _f.exp(-_f.abs(n - (N / 2 if center is None else center)) / tau)

    return _window("exponential", M, sym, _own(**how), values)


@described_by(_arguments)
def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **how: Any) -> Tensor:
    """Return a bell curve.

    Formula:
        w_n = exp(-((n - N / 2) / std)**2 / 2)

    Args:
        std: the standard deviation in points, above 0.

    Raises: ValueError for `std` of 0 or less.

    Example:
        >>> flambeau.signal.windows.gaussian(4)
        tensor([0.3247, 0.8825, 0.8825, 0.3247])
    """
    if std <= 0:
        raise ValueError(f"gaussian: expected std > 0, got {std}")
    return _window("gaussian", M, sym, _own(**how), lambda n, N: _f.exp(-0.5 * _f.square((n - N / 2) / std)))


@described_by(_arguments)
def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **how: Any) -> Tensor:
    """Return a Kaiser window.

    Formula:
        w_n = I0(beta * sqrt(1 - (2 * n / N - 1)**2)) / I0(beta)

    Args:
        beta: the shape, 0 or more; larger values have lower side lobes and a wider main lobe.

    Raises: ValueError for a negative `beta`.

    Example:
        >>> flambeau.signal.windows.kaiser(4)
        tensor([5.2773e-05, 5.1884e-01, 5.1884e-01, 5.2773e-05])
    """
    if beta < 0:
        raise ValueError(f"kaiser: expected beta >= 0, got {beta}")

    def values(n: Tensor, N: int) -> Tensor:
        inside = 1 - _f.square(n * (2 / N) - 1)
        return _f.i0(beta * _f.sqrt(inside.clamp(min=0))) / _f.i0(_f.scalar_tensor(beta, dtype=n.dtype))

    return _window("kaiser", M, sym, _own(**how), values)
