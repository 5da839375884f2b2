"""Windows of images as columns, and back."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import Tensor
from flambeau._C import _nn
from flambeau._loading.documentation import described_by

__all__ = ["fold", "unfold"]

Sizes = int | Sequence[int]


@described_by(_nn.im2col)
def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Copy the windows of images to columns.

    A matrix product with these columns is a convolution. Where windows overlap, the columns repeat elements.

    Args:
        input: the images, (N, C, H, W) or (C, H, W).
    Shape: (N, C, H, W) to (N, C * kernel elements, windows), or both without N.
    See also: fold, nn.Unfold

    Example:
        >>> x = flambeau.arange(9.0).reshape(1, 1, 3, 3)
        >>> flambeau.nn.functional.unfold(x, 2)
        tensor([[[0., 1., 3., 4.],
                 [1., 2., 4., 5.],
                 [3., 4., 6., 7.],
                 [4., 5., 7., 8.]]])
    """
    return _nn.im2col(input, kernel_size, dilation, padding, stride)


@described_by(_nn.col2im)
def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Sum the columns of windows back to images.

    It is the adjoint of `unfold`: elements of overlapping windows add up.

    Args:
        input: the columns, (N, C * kernel elements, windows), or without N.
        output_size: the height and width of the images.
    Shape: (N, C * kernel elements, windows) to (N, C, *output_size), or both without N.
    See also: unfold, nn.Fold

    Example:
        >>> flambeau.nn.functional.fold(flambeau.ones(1, 4, 4), (3, 3), 2)
        tensor([[[[1., 2., 1.],
                  [2., 4., 2.],
                  [1., 2., 1.]]]])
    """
    return _nn.col2im(input, output_size, kernel_size, dilation, padding, stride)
