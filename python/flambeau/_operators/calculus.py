"""Derivatives of sampled functions by finite differences.

In Python because `spacing` is a number, a tensor or a list of either. Calls `diff`, `narrow` and `cat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._arguments.checks import require_tensors
from flambeau._arguments.dims import wrapped_dims
from flambeau._C import Tensor

__all__ = ["gradient"]


def gradient(
    input: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    r"""Return the derivative of a sampled function along each dimension.

    Inside, the second-order central difference; at both ends a difference of order `edge_order`. For
    neighbours at distances :math:`h` and :math:`k` the difference is
    :math:`(h^2 f_{+} + (k^2 - h^2) f - k^2 f_{-}) / (h k (h + k))`.

    Args:
        input: the samples.
        spacing: the distance of neighbours, 1 by default: a number, one per dimension, or a vector of
            places per dimension.
        dim: the dimensions; None: all of them.
        edge_order: 1 or 2.
    Raises: RuntimeError for a dimension of fewer than edge_order + 1 samples, or spacings that do not fit.
    Source: Fornberg 1988, "Generation of Finite Difference Formulas on Arbitrarily Spaced Grids".

    >>> from flambeau import tensor
    >>> gradient(tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    require_tensors("gradient", input=input)
    if input.dtype in (_C.uint8, _C.bool):
        raise RuntimeError(
            f"gradient: expected numbers with a sign, as uint8 and bool have none, got {input.dtype}"
        )
    if not isinstance(edge_order, int) or isinstance(edge_order, bool):
        raise TypeError(f"gradient(): argument 'edge_order' must be int, not {type(edge_order).__name__}")
    dims = _dims(input, dim)
    steps = _steps(spacing, len(dims))
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: expected edge_order 1 or 2, got {edge_order}")
    return tuple(_along(input, d, h, edge_order) for d, h in zip(dims, steps, strict=True))


def _dims(input: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None:
        return list(range(input.dim()))
    return wrapped_dims("gradient", dim, input.dim())


def _steps(spacing: Any, count: int) -> list[Any]:
    spacing = 1 if spacing is None else spacing
    single = not isinstance(spacing, list | tuple)
    steps = [spacing] * count if single else list(spacing)
    if len(steps) != count:
        raise RuntimeError(f"gradient: expected one spacing, or a list of {count}, got {len(steps)}")
    return steps


def _along(input: Tensor, d: int, step: Any, order: int) -> Tensor:
    n = input.size(d)
    if n < order + 1:
        raise RuntimeError(f"gradient: expected more than edge_order samples in dim {d}, got {n}")
    before: Any = None
    after: Any = None
    if isinstance(step, Tensor):
        if step.dim() != 1 or step.numel() != n:
            raise RuntimeError(
                f"gradient: expected {n} coordinates for a dimension of {n} samples, got shape "
                f"{tuple(step.shape)}"
            )
        before = after = step.diff().reshape([-1 if i == d else 1 for i in range(input.dim())])
    else:
        uniform = step
    whole = not (input.is_floating_point() or input.is_complex())
    f = input.to(_C.get_default_dtype()) if whole else input

    def at(start: int, count: int) -> Tensor:
        return f.narrow(d, start, count)

    if before is None:
        center = (at(2, n - 2) - at(0, n - 2)) / (2 * uniform) if n > 2 else None
        h = [uniform] * 4
    else:
        h = [before.narrow(d, i, 1) for i in (0, min(1, n - 2), n - 2, max(0, n - 3))]
        center = None
        if n > 2:
            left, right = before.narrow(d, 0, n - 2), after.narrow(d, 1, n - 2)
            center = (
                -right / (left * (left + right)) * at(0, n - 2)
                + (right - left) / (left * right) * at(1, n - 2)
                + left / (right * (left + right)) * at(2, n - 2)
            )
    first = _edge([at(i, 1) for i in range(order + 1)], h[0], h[1])
    last = -_edge([at(n - 1 - i, 1) for i in range(order + 1)], h[2], h[3])
    return _C._functions.cat([first, *([] if center is None else [center]), last], d)


def _edge(samples: list[Tensor], near: Any, far: Any) -> Tensor:
    """The one-sided difference at the first of two or three samples."""
    if len(samples) == 2:
        return (samples[1] - samples[0]) / near
    f, g, e = samples
    return (
        -(2 * near + far) / (near * (near + far)) * f
        + (near + far) / (near * far) * g
        - near / (far * (near + far)) * e
    )
