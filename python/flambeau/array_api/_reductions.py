"""Reductions and scans along `axis`."""

from __future__ import annotations

import builtins
from typing import Any

import flambeau as _fb
from flambeau import bool, int64
from flambeau._C import Tensor, dtype
from flambeau.array_api._dtypes import isdtype

Axes = int | tuple[int, ...] | None


def all_dims(x: Tensor, axis: Axes) -> tuple[int, ...]:
    """The axes meant; None: all of them."""
    if axis is None:
        return tuple(range(x.ndim))
    return axis if isinstance(axis, tuple) else (axis,)


def _sum_dtype(x: Tensor, wanted: dtype | None) -> dtype:
    if wanted is not None:
        return wanted
    return int64 if x.dtype == bool or isdtype(x.dtype, "integral") else x.dtype


def sum(
    x: Tensor, /, *, axis: Axes = None, dtype: dtype | None = None, keepdims: builtins.bool = False
) -> Tensor:
    """Return the sum along `axis`; integers are added in int64 if `dtype` is None."""
    dims = all_dims(x, axis)
    wide = _sum_dtype(x, dtype)
    return _fb.sum(x, dims, keepdims, dtype=wide) if dims else x.to(wide, copy=True)


def prod(
    x: Tensor, /, *, axis: Axes = None, dtype: dtype | None = None, keepdims: builtins.bool = False
) -> Tensor:
    """Return the product along `axis`; integers are multiplied in int64 if `dtype` is None."""
    result = x.to(_sum_dtype(x, dtype), copy=True)
    dims = sorted({d % result.ndim for d in all_dims(x, axis)}, reverse=True) if x.ndim else ()
    for dim in dims:
        result = _fb.prod(result, dim, keepdims)
    return result


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Return the arithmetic mean along `axis`."""
    dims = all_dims(x, axis)
    return _fb.mean(x, dims, keepdims) if dims else x.clone()


def max(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Return the largest element along `axis`; NaN if any is NaN."""
    dims = all_dims(x, axis)
    return _fb.amax(x, dims, keepdims) if dims else x.clone()


def min(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Return the smallest element along `axis`; NaN if any is NaN."""
    dims = all_dims(x, axis)
    return _fb.amin(x, dims, keepdims) if dims else x.clone()


def var(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Tensor:
    """Return the variance along `axis`: squared deviations divided by count - correction."""
    return _fb.var(x, all_dims(x, axis) or None, correction=correction, keepdim=keepdims)


def std(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Tensor:
    """Return the standard deviation along `axis`."""
    return _fb.std(x, all_dims(x, axis) or None, correction=correction, keepdim=keepdims)


def _logical(name: str) -> Any:
    function = getattr(_fb, name)

    def reduced(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
        result = x != 0
        dims = sorted({d % x.ndim for d in all_dims(x, axis)}, reverse=True) if x.ndim else ()
        for dim in dims:
            result = function(result, dim, keepdims)
        return result

    reduced.__name__ = name
    reduced.__doc__ = f"Return whether {name} elements along `axis` are not 0."
    return reduced


any, all = map(_logical, ("any", "all"))


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Return how many elements along `axis` are not 0."""
    return sum(x != 0, axis=axis, keepdims=keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """Return the index of the first largest element."""
    return _fb.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """Return the index of the first smallest element."""
    return _fb.argmin(x, axis, keepdims)


def one_axis(name: str, x: Tensor, axis: int | None) -> int:
    """The axis meant; it may be left out for vectors."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: expected an axis for an array of {x.ndim} dimensions, got None")
        return 0
    return axis


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: dtype | None = None,
    include_initial: builtins.bool = False,
) -> Tensor:
    """Return running sums; `include_initial` puts a 0 before them."""
    return _running(_fb.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: dtype | None = None,
    include_initial: builtins.bool = False,
) -> Tensor:
    """Return running products; `include_initial` puts a 1 before them."""
    return _running(_fb.cumprod, 1, x, axis, dtype, include_initial)


def _running(
    scan: Any, first: int, x: Tensor, axis: int | None, dtype: dtype | None, include_initial: builtins.bool
) -> Tensor:
    dim = one_axis("cumulative_sum", x, axis)
    result = scan(x, dim, dtype=_sum_dtype(x, dtype))
    if not include_initial:
        return result
    shape = list(result.shape)
    shape[dim] = 1
    return _fb.cat([_fb.full(shape, first, dtype=result.dtype), result], dim)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Return the n-th differences of neighbours along `axis`."""
    parts = [p for p in (prepend, x, append) if p is not None]
    result = _fb.cat(parts, axis) if len(parts) > 1 else x
    for _ in range(n):
        size = result.shape[axis]
        later, earlier = (
            result.narrow(axis, i, builtins.max(size - 1, 0)) for i in (builtins.min(1, size), 0)
        )
        result = later ^ earlier if result.dtype == bool else later - earlier
    return result
