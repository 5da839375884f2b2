"""Operators of `ops.aten` that are private in PyTorch and that libraries call or override by name."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return the tensor: memory of the host needs no pinning."""
    return self.pin_memory()


def _shape_as_tensor(self: Tensor) -> Tensor:
    """Return the sizes as a tensor of int64."""
    return flambeau.tensor(list(self.shape), dtype=flambeau.int64)


def _sparse_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return ``beta * self + alpha * (mat1 @ mat2)``."""
    return flambeau.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def _grouped_mm(
    self: Tensor, mat2: Tensor, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """Return the products of groups of rows; see `flambeau.nn.functional.grouped_mm`."""
    return flambeau.nn.functional.grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


def _convert_indices_from_coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Return where each of `size` rows begins in a sorted vector of row indices, and its length."""
    if self.dim() != 1:
        raise RuntimeError(
            f"_convert_indices_from_coo_to_csr: expected row indices as a vector, got {self.dim()} dimensions"
        )
    ends = flambeau.bincount(self, minlength=size).cumsum(0)
    begins = flambeau.cat([ends.new_zeros(1), ends])
    return begins.to(flambeau.int32 if out_int32 else flambeau.int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Return indices with a row per dimension: batch, row and column (with `transpose`: column, row)."""
    lengths = crow_indices.diff(dim=-1)
    rows = flambeau.arange(lengths.shape[-1]).expand(lengths.shape)
    row = rows.reshape(-1).repeat_interleave(lengths.reshape(-1)).reshape(col_indices.shape)
    batch = col_indices.new_ones(col_indices.shape).nonzero().t()[:-1]
    pair = (col_indices, row) if transpose else (row, col_indices)
    found = flambeau.cat([batch, *(x.reshape(1, -1).to(flambeau.int64) for x in pair)])
    return found.to(flambeau.int32 if out_int32 else flambeau.int64)
