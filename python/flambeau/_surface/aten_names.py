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


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
    allow_tf32: bool = True,
) -> Tensor:
    """Return the convolution; the last four arguments are for devices that are not here."""
    return flambeau.convolution(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
