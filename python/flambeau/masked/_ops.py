"""Reductions and normalisations over unmasked elements.

Each fills what is masked with the element that does not count (0 for sums, 1 for products, -inf for
maxima) and calls the operator of the same name, so that gradients follow from it. Masks broadcast to
the input. Where all elements are masked the result is that element, or NaN for means and medians.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, dtype
from flambeau._loading.documentation import described_by
from flambeau.masked._masked_input import takes_masked
from flambeau.masked._masking import (
    Dims,
    dims_of,
    filled,
    inexact_dtype,
    is_inexact,
    lowest,
    mask_of,
    product_dims,
    shared_arguments,
    sum_dtype,
)

_F = _C._functions

# --- sums and products -------------------------------------------------------------------------------


@takes_masked
@described_by(shared_arguments)
def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the sum of the unmasked elements along dimensions; 0 where there is none.

    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.sum(x, 1, mask=m)
        tensor([3., 3.])
    """
    given = filled(input.to(sum_dtype(input, dtype)), mask, 0)
    dims = dims_of(input, dim)
    return given.sum(dims, keepdim, dtype=dtype) if dims else given


@takes_masked
@described_by(shared_arguments)
def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the product of the unmasked elements along dimensions; 1 where there is none.

    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.prod(x, 1, mask=m)
        tensor([2., 3.])
    """
    result = filled(input.to(sum_dtype(input, dtype)), mask, 1)
    for d in sorted(product_dims(input, dim), reverse=True):
        result = result.prod(d, keepdim)
    return result


@takes_masked
@described_by(shared_arguments)
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the sums of the unmasked ones among the first elements along a dimension.

    Shape: the shape of the input.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.cumsum(x, 1, mask=m)
        tensor([[1., 3.],
                [3., 3.]])
    """
    to = sum_dtype(input, dtype)
    return filled(input.to(to), mask, 0).cumsum(dim, dtype=to)


@takes_masked
@described_by(shared_arguments)
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the products of the unmasked ones among the first elements along a dimension.

    Shape: the shape of the input.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.cumprod(x, 1, mask=m)
        tensor([[1., 2.],
                [3., 3.]])
    """
    to = sum_dtype(input, dtype)
    return filled(input.to(to), mask, 1).cumprod(dim, dtype=to)


# --- extrema ---------------------------------------------------------------------------------------


def _extremum(
    name: str, input: Tensor, dim: Dims, keepdim: bool, dtype: dtype | None, mask: Tensor | None, sign: int
) -> Tensor:
    given = input if dtype is None else input.to(dtype)
    given = filled(given, mask, lowest(given.dtype, sign))
    dims = dims_of(input, dim)
    return getattr(given, name)(dims, keepdim) if dims else given


@takes_masked
@described_by(shared_arguments)
def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the largest unmasked element along dimensions; -inf where there is none.

    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.amax(x, 1, mask=m)
        tensor([2., 3.])
    """
    return _extremum("amax", input, dim, keepdim, dtype, mask, -1)


@takes_masked
@described_by(shared_arguments)
def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the smallest unmasked element along dimensions; inf where there is none.

    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.amin(x, 0, mask=m)
        tensor([1., 2.])
    """
    return _extremum("amin", input, dim, keepdim, dtype, mask, 1)


@takes_masked
@described_by(shared_arguments)
def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the index of the largest unmasked element, in the input's dtype unless one is given.

    Args:
        dim: the dimension to search. None means all, with the index in the flattened input.
        dtype: the dtype of the result. None means that of the input.
    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.argmax(x, 1, mask=m)
        tensor([1., 0.])
    """
    given = filled(input, mask, lowest(input.dtype, -1))
    return given.argmax(dim, keepdim).to(input.dtype if dtype is None else dtype)


@takes_masked
@described_by(shared_arguments)
def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the index of the smallest unmasked element, in the input's dtype unless one is given.

    Args:
        dim: the dimension to search. None means all, with the index in the flattened input.
        dtype: the dtype of the result. None means that of the input.
    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.argmin(x, 1, mask=m)
        tensor([0., 0.])
    """
    given = filled(input, mask, lowest(input.dtype, 1))
    return given.argmin(dim, keepdim).to(input.dtype if dtype is None else dtype)


# --- statistics ------------------------------------------------------------------------------------


def _count(input: Tensor, dims: tuple[int, ...], mask: Tensor | None, to: dtype) -> Any:
    """How many elements are unmasked, with kept dimensions."""
    if mask is None:
        count = math.prod(input.shape[d] for d in dims)
        return _F.scalar_tensor(count, dtype=to, device=input.device)
    counted = mask_of(input, mask).to(to)
    return counted.sum(dims, True, dtype=to) if dims else counted


def _squeezed(result: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    return result if keepdim or not dims else result.squeeze(dims)


@takes_masked
@described_by(shared_arguments)
def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the mean of the unmasked elements along dimensions; NaN where there is none.

    Raises:
        ValueError for an input of integers or bool without `dtype`.
    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.mean(x, 1, mask=m)
        tensor([1.5000, 3.0000])
    """
    to = inexact_dtype("mean", input, dtype)
    dims = dims_of(input, dim)
    total = sum(input, dims or None, keepdim=True, dtype=to, mask=mask)
    return _squeezed(total / _count(input, dims, mask, to), dims, keepdim)


@takes_masked
@described_by(shared_arguments)
def median(
    input: Tensor,
    dim: int | None = -1,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the lower median of the unmasked elements along a dimension; NaN where there is none.

    Args:
        dim: the dimension to reduce. None means the last one.

    Raises:
        ValueError for a row of integers without an unmasked element.
    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.median(x, 1, mask=m)
        tensor([1., 3.])
    """
    given = input if dtype is None else input.to(dtype)
    line = given.dim() == 0
    if line:
        given = given.reshape(1)
    if not given.is_floating_point():
        if mask is not None and not bool(mask_of(given, mask).any(-1 if dim is None else dim).all()):
            raise ValueError(
                "masked.median: expected rows with at least one element for integer dtypes, got a fully "
                f"masked row of {input.dtype}"
            )
        wide = filled(given.to(_C.float64), mask, float("nan"))
    else:
        wide = filled(given, mask, float("nan"))
    result = wide.nanmedian(-1 if dim is None else dim, keepdim)[0].to(given.dtype)
    return result.reshape(()) if line else result


def _deviation(
    input: Tensor,
    dim: Dims,
    unbiased: bool | None,
    correction: float | None,
    keepdim: bool,
    dtype: dtype | None,
    mask: Tensor | None,
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise ValueError("masked.var, masked.std: expected unbiased or correction, got both")
    less = 1.0 if correction is None else correction
    if unbiased is not None:
        less = 1.0 if unbiased else 0.0
    to = dtype or (input.dtype if is_inexact(input) else _C.float32)
    dims = dims_of(input, dim)
    given = filled(input.to(to), mask, 0)  # NaN behind the mask would reach the gradient
    count = _count(input, dims, mask, to)
    center = sum(given, dims or None, keepdim=True, dtype=to, mask=mask) / count
    apart = given - center
    total = sum(apart * apart.conj(), dims or None, keepdim=True, dtype=to, mask=mask)
    divisor = count - less
    if not to.is_complex:
        divisor = divisor.clamp_min(0)
    else:
        divisor = divisor.real.clamp_min(0)
    return _squeezed(total / divisor, dims, keepdim)


@takes_masked
@described_by(shared_arguments)
def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the variance of the unmasked elements: squares divided by max(0, count - correction).

    Formula:
        result = sum(|x - mean|**2) / max(0, count - correction)

    Args:
        unbiased: True means correction 1, False correction 0; deprecated.
        correction: what is subtracted from the number of elements. None means 1.

    Raises:
        ValueError for both `unbiased` and `correction`.
    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.var(x, 1, mask=m)
        tensor([0.5000,    nan])
    """
    return _deviation(input, dim, unbiased, correction, keepdim, dtype, mask)


@takes_masked
@described_by(shared_arguments)
def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the standard deviation of the unmasked elements.

    Formula:
        result = sqrt(sum(|x - mean|**2) / max(0, count - correction))

    Args:
        unbiased: True means correction 1, False correction 0; deprecated.
        correction: what is subtracted from the number of elements. None means 1.

    Raises:
        ValueError for both `unbiased` and `correction`.
    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.std(x, 1, unbiased=False, mask=m)
        tensor([0.5000, 0.0000])
    """
    return _deviation(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


@takes_masked
@described_by(shared_arguments)
def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the norm of the unmasked elements; 0 where there is none, inf for order -inf.

    Args:
        ord: the order of the norm, as for `linalg.vector_norm`.
    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.norm(x, 1.0, 1, mask=m)
        tensor([3., 3.])
    """
    from flambeau.linalg import vector_norm

    given = filled(input, mask, float("inf") if ord == float("-inf") else 0)
    to = input.dtype if dtype is None and is_inexact(input) else dtype
    return vector_norm(given, ord, dims_of(input, dim), keepdim, dtype=to)


# --- exponentials ----------------------------------------------------------------------------------


@takes_masked
@described_by(shared_arguments)
def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the logarithm of the sum of exponentials of the unmasked elements; -inf where there is none.

    Shape: the shape of the input without the dimensions `dim`, which have size 1 if `keepdim`.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.logsumexp(x, 1, mask=m)
        tensor([2.3133, 3.0000])
    """
    to = input.dtype if dtype is None else dtype
    given = input if is_inexact(input) else input.to(_C.get_default_dtype())
    given = filled(given, mask, float("-inf"))
    dims = dims_of(input, dim)
    return (given.logsumexp(dims, keepdim) if dims else given).to(to)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return ln(e^input + e^other), in which masked elements count as e^-inf.

    Args:
        input: a tensor.
        other: a tensor of a shape that broadcasts with the input's.
        dtype: the dtype to compute in. None means that of the input.
        input_mask: where elements of `input` count. None means everywhere.
        other_mask: where elements of `other` count. None means everywhere.

    Shape: the shape to which both broadcast.

    Example:
        >>> x = flambeau.tensor([0.0, 1.0])
        >>> flambeau.masked.logaddexp(x, x, other_mask=flambeau.tensor([True, False]))
        tensor([0.6931, 1.0000])
    """
    to = input.dtype if dtype is None else dtype
    a = filled(input.to(to), input_mask, float("-inf"))
    b = filled(other.to(to), other_mask, float("-inf"))
    return _F.logaddexp(a, b)


def _normalised(
    function: Callable[..., Tensor],
    input: Tensor,
    dim: int,
    dtype: dtype | None,
    mask: Tensor | None,
    fill: float,
) -> Tensor:
    to = input.dtype if dtype is None else dtype
    return function(filled(input.to(to), mask, fill), dim, dtype=to)


@takes_masked
@described_by(shared_arguments)
def softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return softmax over the unmasked elements; 0 at the masked ones.

    Shape: the shape of the input.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.softmax(x, 1, mask=m)
        tensor([[0.2689, 0.7311],
                [1.0000, 0.0000]])
    """
    return _normalised(_F.softmax, input, dim, dtype, mask, float("-inf"))


@takes_masked
@described_by(shared_arguments)
def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the logarithm of softmax over the unmasked elements; -inf at the masked ones.

    Shape: the shape of the input.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.log_softmax(x, 1, mask=m)
        tensor([[-1.3133, -0.3133],
                [ 0.0000,    -inf]])
    """
    return _normalised(_F.log_softmax, input, dim, dtype, mask, float("-inf"))


@takes_masked
@described_by(shared_arguments)
def softmin(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return softmax of the negated unmasked elements; 0 at the masked ones.

    Shape: the shape of the input.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.softmin(x, 1, mask=m)
        tensor([[0.7311, 0.2689],
                [1.0000, 0.0000]])
    """
    return _normalised(
        lambda x, d, dtype: _F.softmax(-x, d, dtype=dtype), input, dim, dtype, mask, float("inf")
    )


@takes_masked
@described_by(shared_arguments)
def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Divide the unmasked elements by their norm along a dimension, at least eps; 0 at the masked ones.

    Args:
        ord: the order of the norm.
        eps: the least divisor.
    Shape: the shape of the input.

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> m = flambeau.tensor([[True, True], [True, False]])
        >>> flambeau.masked.normalize(x, 1.0, 1, mask=m)
        tensor([[0.3333, 0.6667],
                [1.0000, 0.0000]])
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    given = filled(input if dtype is None else input.to(dtype), mask, 0)
    return given / length.clamp_min(eps)
