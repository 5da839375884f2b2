"""Products of groups of rows or columns, as mixtures of experts need them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = ["grouped_mm"]


def _groups(offs: Tensor, size: int) -> Iterator[slice]:
    """The stretches that end at each offset."""
    begin = 0
    for end in offs.tolist():
        if not begin <= end <= size:
            raise RuntimeError(
                f"grouped_mm: expected offs to grow from 0 to {size} at most, got {offs.tolist()}"
            )
        yield slice(begin, end)
        begin = end


def _check(mat_a: Tensor, mat_b: Tensor, offs: Tensor | None, bias: Tensor | None) -> None:
    if mat_a.dim() not in (2, 3) or mat_b.dim() not in (2, 3):
        raise RuntimeError(
            f"grouped_mm: expected 2 or 3 dimensions in mat_a and mat_b, got {mat_a.dim()} and {mat_b.dim()}"
        )
    if mat_a.dtype != mat_b.dtype:
        raise RuntimeError(f"grouped_mm: expected operands of one dtype, got {mat_a.dtype} and {mat_b.dtype}")
    flat = mat_a.dim() == 2 or mat_b.dim() == 2
    if flat != (offs is not None):
        what = "offs for a 2d matrix" if flat else "None as offs for 3d operands"
        raise RuntimeError(f"grouped_mm: expected {what}, got {'None' if flat else 'a Tensor'}")
    if offs is not None and (offs.dim() != 1 or offs.dtype != flambeau.int32):
        raise RuntimeError(
            f"grouped_mm: Offsets have to be int32: expected int32 in 1 dimension, got {offs.dtype} in "
            f"{offs.dim()}"
        )
    if flat and mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError(
            "grouped_mm: expected contraction dimensions of equal size, got shapes "
            f"{tuple(mat_a.shape)} and {tuple(mat_b.shape)}"
        )
    if bias is not None:
        raise RuntimeError("grouped_mm: Bias not supported yet: expected None as bias, got a Tensor")


def _rest(like: Tensor, dim: int, size: int) -> Tensor:
    """Zeros for what lies behind the last offset."""
    shape = list(like.shape)
    shape[dim] = size - shape[dim]
    return like.new_zeros(shape)


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Multiply matrices group by group, as mixtures of experts need it.

    Args:
        mat_a: (G, M, K), or (M, K), whose rows are divided into groups. If both matrices have 2 dimensions, K
            is divided.
        mat_b: (G, K, N), or (K, N), whose columns are divided into groups.
        offs: where each group ends, int32 (G), given exactly if a matrix has 2 dimensions. Results after the
            last end are 0.
        bias: None; others are refused.
        out_dtype: the dtype of the result. None means that of the matrices.
    Shape: (M, N) if one matrix has 2 dimensions, else (G, M, N).
    Raises: RuntimeError for shapes, dtypes or offsets that do not fit, or a bias.

    Example:
        >>> a, b = flambeau.ones(3, 4), flambeau.stack([flambeau.eye(4), 2 * flambeau.eye(4)])
        >>> ends = flambeau.tensor([1, 3], dtype=flambeau.int32)
        >>> flambeau.nn.functional.grouped_mm(a, b, offs=ends)
        tensor([[1., 1., 1., 1.],
                [2., 2., 2., 2.],
                [2., 2., 2., 2.]])
    """
    _check(mat_a, mat_b, offs, bias)
    if offs is None:
        found = flambeau.bmm(mat_a, mat_b)
    elif mat_a.dim() == 2 and mat_b.dim() == 2:
        parts = [mat_a[:, part] @ mat_b[part] for part in _groups(offs, mat_a.shape[1])]
        found = flambeau.stack(parts)
    elif mat_a.dim() == 2:
        parts = [mat_a[part] @ b for part, b in zip(_groups(offs, mat_a.shape[0]), mat_b, strict=True)]
        found = flambeau.cat(parts)
        found = flambeau.cat([found, _rest(found, 0, mat_a.shape[0])])
    else:
        parts = [a @ mat_b[:, part] for part, a in zip(_groups(offs, mat_b.shape[1]), mat_a, strict=True)]
        found = flambeau.cat(parts, 1)
        found = flambeau.cat([found, _rest(found, 1, mat_b.shape[1])], 1)
    return found if out_dtype is None else found.to(out_dtype)
