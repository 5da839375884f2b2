"""Windows of images as columns, and back."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import Tensor
from flambeau._C import _nn

__all__ = ["fold", "unfold"]

Sizes = int | Sequence[int]


def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Windows of (N, C, H, W) as columns (N, C * kernel elements, windows)."""
    return _nn.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Sum columns of windows back into images of `output_size`; where windows overlap they add up."""
    return _nn.col2im(input, output_size, kernel_size, dilation, padding, stride)
