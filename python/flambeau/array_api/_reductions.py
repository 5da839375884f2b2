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
    """Sum the elements along axes.

    Args:
        x: the array.
        axis: the axis or axes; None means all of them.
        dtype: the dtype of the sum. Default: int64 for bools and integers, else that of `x`.
        keepdims: whether reduced axes remain with size 1.
    Returns: the sums.

    Example:
        >>> flambeau.array_api.sum(flambeau.tensor([[1, 2], [3, 4]]), axis=0)
        tensor([4, 6])
    """
    dims = all_dims(x, axis)
    wide = _sum_dtype(x, dtype)
    return _fb.sum(x, dims, keepdims, dtype=wide) if dims else x.to(wide, copy=True)


def prod(
    x: Tensor, /, *, axis: Axes = None, dtype: dtype | None = None, keepdims: builtins.bool = False
) -> Tensor:
    """Multiply the elements along axes.

    Args:
        x: the array.
        axis: the axis or axes; None means all of them.
        dtype: the dtype of the product. Default: int64 for bools and integers, else that of `x`.
        keepdims: whether reduced axes remain with size 1.
    Returns: the products.

    Example:
        >>> flambeau.array_api.prod(flambeau.tensor([[1, 2], [3, 4]]))
        tensor(24)
    """
    result = x.to(_sum_dtype(x, dtype), copy=True)
    dims = sorted({d % result.ndim for d in all_dims(x, axis)}, reverse=True) if x.ndim else ()
    for dim in dims:
        result = _fb.prod(result, dim, keepdims)
    return result


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Compute the arithmetic mean along axes.

    Args:
        x: the array, of a floating dtype.
        axis: the axis or axes; None means all of them.
        keepdims: whether reduced axes remain with size 1.
    Returns: the means.

    Example:
        >>> flambeau.array_api.mean(flambeau.tensor([1.0, 2.0, 6.0]))
        tensor(3.)
    """
    dims = all_dims(x, axis)
    return _fb.mean(x, dims, keepdims) if dims else x.clone()


def max(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Find the largest element along axes; NaN if one is NaN.

    Args:
        x: the array.
        axis: the axis or axes; None means all of them.
        keepdims: whether reduced axes remain with size 1.
    Returns: the largest elements.

    Example:
        >>> flambeau.array_api.max(flambeau.tensor([[1, 5], [3, 4]]), axis=1)
        tensor([5, 4])
    """
    dims = all_dims(x, axis)
    return _fb.amax(x, dims, keepdims) if dims else x.clone()


def min(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Find the smallest element along axes; NaN if one is NaN.

    Args:
        x: the array.
        axis: the axis or axes; None means all of them.
        keepdims: whether reduced axes remain with size 1.
    Returns: the smallest elements.

    Example:
        >>> flambeau.array_api.min(flambeau.tensor([[1, 5], [3, 4]]), axis=1)
        tensor([1, 3])
    """
    dims = all_dims(x, axis)
    return _fb.amin(x, dims, keepdims) if dims else x.clone()


def var(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Tensor:
    """Compute the variance along axes: the sum of squared deviations divided by count - correction.

    Args:
        x: the array, of a floating dtype.
        axis: the axis or axes; None means all of them.
        correction: what the count is reduced by; 1 gives the unbiased variance.
        keepdims: whether reduced axes remain with size 1.
    Returns: the variances.

    Example:
        >>> flambeau.array_api.var(flambeau.tensor([1.0, 3.0]))
        tensor(1.)
    """
    return _fb.var(x, all_dims(x, axis) or None, correction=correction, keepdim=keepdims)


def std(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Tensor:
    """Compute the standard deviation along axes, the square root of the variance.

    Args:
        x: the array, of a floating dtype.
        axis: the axis or axes; None means all of them.
        correction: what the count is reduced by; 1 gives the root of the unbiased variance.
        keepdims: whether reduced axes remain with size 1.
    Returns: the standard deviations.

    Example:
        >>> flambeau.array_api.std(flambeau.tensor([1.0, 3.0]))
        tensor(1.)
    """
    return _fb.std(x, all_dims(x, axis) or None, correction=correction, keepdim=keepdims)


_TRUTH = """Test whether {name} elements along axes are not 0.

    Args:
        x: the array.
        axis: the axis or axes; None means all of them.
        keepdims: whether reduced axes remain with size 1.
    Returns: an array of bools.

    Example:
        >>> flambeau.array_api.{name}(flambeau.tensor([[0, 1], [2, 3]]), axis=0)
        tensor({values})
    """


def _logical(name: str, values: str) -> Any:
    function = getattr(_fb, name)

    def reduced(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
        result = x != 0
        dims = sorted({d % x.ndim for d in all_dims(x, axis)}, reverse=True) if x.ndim else ()
        for dim in dims:
            result = function(result, dim, keepdims)
        return result

    reduced.__name__ = reduced.__qualname__ = name
    reduced.__doc__ = _TRUTH.format(name=name, values=values)
    return reduced


any, all = _logical("any", "[True, True]"), _logical("all", "[False,  True]")


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Count the elements that are not 0 along axes.

    Args:
        x: the array.
        axis: the axis or axes; None means all of them.
        keepdims: whether reduced axes remain with size 1.
    Returns: the counts, of dtype int64.

    Example:
        >>> flambeau.array_api.count_nonzero(flambeau.tensor([0, 3, 4]))
        tensor(2)
    """
    return sum(x != 0, axis=axis, keepdims=keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """Find the index of the first largest element.

    Args:
        x: the array.
        axis: the axis; None searches the flattened array.
        keepdims: whether reduced axes remain with size 1.
    Returns: the indices.

    Example:
        >>> flambeau.array_api.argmax(flambeau.tensor([1, 5, 5]))
        tensor(1)
    """
    return _fb.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """Find the index of the first smallest element.

    Args:
        x: the array.
        axis: the axis; None searches the flattened array.
        keepdims: whether reduced axes remain with size 1.
    Returns: the indices.

    Example:
        >>> flambeau.array_api.argmin(flambeau.tensor([5, 1, 1]))
        tensor(1)
    """
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
    """Compute the cumulative sum along an axis.

    Args:
        x: the array.
        axis: the axis; None is allowed for vectors.
        dtype: the dtype. Default: int64 for bools and integers, else that of `x`.
        include_initial: whether a 0 comes before the sums.
    Returns: the sums; one more along `axis` with `include_initial`.
    Raises: ValueError if `axis` is None for an array that is not a vector.

    Example:
        >>> flambeau.array_api.cumulative_sum(flambeau.tensor([1, 2, 3]), include_initial=True)
        tensor([0, 1, 3, 6])
    """
    return _running(_fb.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: dtype | None = None,
    include_initial: builtins.bool = False,
) -> Tensor:
    """Compute the cumulative product along an axis.

    Args:
        x: the array.
        axis: the axis; None is allowed for vectors.
        dtype: the dtype. Default: int64 for bools and integers, else that of `x`.
        include_initial: whether a 1 comes before the products.
    Returns: the products; one more along `axis` with `include_initial`.
    Raises: ValueError if `axis` is None for an array that is not a vector.

    Example:
        >>> flambeau.array_api.cumulative_prod(flambeau.tensor([1, 2, 3]))
        tensor([1, 2, 6])
    """
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
    """Compute differences of neighbours along an axis.

    Args:
        x: the array.
        axis: the axis.
        n: how often differences are taken.
        prepend: what is joined before `x`; None for nothing.
        append: what is joined after `x`; None for nothing.
    Returns: the n-th differences.

    Example:
        >>> flambeau.array_api.diff(flambeau.tensor([1, 4, 9]))
        tensor([3, 5])
    """
    parts = [p for p in (prepend, x, append) if p is not None]
    result = _fb.cat(parts, axis) if len(parts) > 1 else x
    for _ in range(n):
        size = result.shape[axis]
        later, earlier = (
            result.narrow(axis, i, builtins.max(size - 1, 0)) for i in (builtins.min(1, size), 0)
        )
        result = later ^ earlier if result.dtype == bool else later - earlier
    return result
