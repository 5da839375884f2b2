"""What masked functions share: documentation of arguments, masks, dimensions, dtypes and fillings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._arguments.dims import wrapped_dims
from flambeau._C import Tensor, dtype

Dims = int | Sequence[int] | None
_F = _C._functions


def shared_arguments(input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Any) -> None:
    """Hold the documentation of the arguments that the functions share.

    Args:
        input: a tensor of any shape.
        dim: the dimension or dimensions. None means all of them.
        keepdim: whether reduced dimensions stay with size 1.
        dtype: the dtype to compute in. None means that of the input; sums, products and their cumulative
            forms of integers and bool use int64.
        mask: bool, of a shape that broadcasts to the input's; True where an element counts. None means
            everywhere.
    """


def dims_of(input: Tensor, dim: Dims) -> tuple[int, ...]:
    """The dimensions to reduce, wrapped; all of them for None and an empty tuple."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(input.dim()))
    return tuple(d for d in wrapped_dims("flambeau.masked", dim, input.dim()) if d < input.dim())


def product_dims(input: Tensor, dim: Dims) -> tuple[int, ...]:
    """Return the dimensions that are multiplied one by one, with those that a scalar has by name."""
    if input.dim() == 0 and (isinstance(dim, int) or dim):
        return (*wrapped_dims("flambeau.masked", dim, 0),)  # autocast gives this reduction in float32, too
    return dims_of(input, dim)


def mask_of(input: Tensor, mask: Tensor) -> Tensor:
    """The mask as bools of the input's shape."""
    if mask.dim() > input.dim():
        raise IndexError(
            f"flambeau.masked: expected a mask of at most {input.dim()} dimensions, got {mask.dim()}: "
            "mask dimensionality is beyond the input's"
        )
    return (mask if mask.dtype is _C.bool else mask.bool()).expand(input.shape)


def filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    if mask is None:
        return input
    return _F.where(
        mask_of(input, mask), input, _F.scalar_tensor(value, dtype=input.dtype, device=input.device)
    )


def sum_dtype(input: Tensor, wanted: dtype | None) -> dtype:
    """Integers and bool are summed and multiplied in int64."""
    if wanted is not None:
        return wanted
    return input.dtype if is_inexact(input) else _C.int64


def is_inexact(input: Tensor) -> bool:
    return input.is_floating_point() or input.is_complex()


def inexact_dtype(name: str, input: Tensor, wanted: dtype | None) -> dtype:
    if wanted is not None:
        return wanted
    if not is_inexact(input):
        raise ValueError(
            f"{name}(): could not infer output dtype: expected a floating or complex input, got {input.dtype}"
        )
    return input.dtype


def lowest(of: dtype, sign: int) -> Any:
    """The smallest number of a dtype for sign -1, the largest for 1."""
    if of is _C.bool:
        return sign > 0
    if of.is_floating_point:
        return sign * float("inf")
    from flambeau._types.limits import iinfo

    return iinfo(of).max if sign > 0 else iinfo(of).min
