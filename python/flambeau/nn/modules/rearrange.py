"""Layers that move elements between space, channels and windows, and distances."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.functional_layer import REQUIRED, FunctionalLayer
from flambeau.nn.modules.module import Module


class PixelShuffle(FunctionalLayer):
    """Rearrangement of channels to pixels: an image grows by a factor in both directions.

    Shape: ``(*, C r^2, H, W)`` to ``(*, C, H r, W r)``, r = `upscale_factor`.
    See also: PixelUnshuffle, Upsample

    Example:
        >>> flambeau.nn.PixelShuffle(2)(flambeau.arange(4.0).reshape(4, 1, 1))
        tensor([[[0., 1.],
                 [2., 3.]]])
    """

    function, options = "pixel_shuffle", {"upscale_factor": REQUIRED}


class PixelUnshuffle(FunctionalLayer):
    """Rearrangement of pixels to channels, the inverse of `PixelShuffle`.

    Shape: ``(*, C, H r, W r)`` to ``(*, C r^2, H, W)``, r = `downscale_factor`.
    See also: PixelShuffle

    Example:
        >>> flambeau.nn.PixelUnshuffle(2)(flambeau.arange(4.0).reshape(1, 2, 2)).flatten()
        tensor([0., 1., 2., 3.])
    """

    function, options = "pixel_unshuffle", {"downscale_factor": REQUIRED}


class ChannelShuffle(FunctionalLayer):
    """Rearrangement of channels that deals those of each group out in turn.

    Shape: ``(batch, channels, *)`` to the same.
    See also: nn.functional.channel_shuffle

    Example:
        >>> flambeau.nn.ChannelShuffle(2)(flambeau.arange(4.0).reshape(1, 4, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    function, options = "channel_shuffle", {"groups": REQUIRED}


class Fold(FunctionalLayer):
    """Adjoint of `Unfold`: it adds windows, given as columns, up to images.

    Args:
        output_size: the height and width of the images.
    Shape: ``(batch, channels * window, count)``, or without batch, to ``(batch, channels, *output_size)``.
    See also: Unfold

    Example:
        >>> flambeau.nn.Fold((3, 3), 2)(flambeau.ones(1, 4, 4))
        tensor([[[[1., 2., 1.],
                  [2., 4., 2.],
                  [1., 2., 1.]]]])
    """

    function = "fold"
    options = {
        "output_size": REQUIRED, "kernel_size": REQUIRED, "dilation": 1, "padding": 0, "stride": 1,
    }  # fmt: skip


class Unfold(FunctionalLayer):
    """Windows of images as columns.

    Shape: ``(batch, channels, height, width)``, or without batch, to ``(batch, channels * window, count)``.
    See also: Fold, Conv2d

    Example:
        >>> flambeau.nn.Unfold(2)(flambeau.arange(9.0).reshape(1, 1, 3, 3))
        tensor([[[0., 1., 3., 4.],
                 [1., 2., 4., 5.],
                 [3., 4., 6., 7.],
                 [4., 5., 7., 8.]]])
    """

    function = "unfold"
    options = {"kernel_size": REQUIRED, "dilation": 1, "padding": 0, "stride": 1}


class Upsample(FunctionalLayer):
    """Resizing of the spatial dimensions by interpolation.

    Shape: ``(batch, channels, *)`` to the same with the new sizes.
    Raises: ValueError for arguments that contradict each other, NotImplementedError for another mode or
        number of dimensions.
    See also: nn.functional.interpolate, PixelShuffle

    Example:
        >>> layer = flambeau.nn.Upsample(scale_factor=2, mode="nearest")
        >>> layer(flambeau.tensor([[[0.0, 2.0]]]))
        tensor([[[0., 0., 2., 2.]]])
    """

    function = "interpolate"
    options = {
        "size": None, "scale_factor": None, "mode": "nearest",
        "align_corners": None, "recompute_scale_factor": None,
    }  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scale: Any = vars(self)["scale_factor"]
        if isinstance(scale, tuple):
            vars(self)["scale_factor"] = tuple(float(s) for s in scale)
        elif scale:
            vars(self)["scale_factor"] = float(scale)

    def extra_repr(self) -> str:
        given = "size" if self.scale_factor is None else "scale_factor"
        return f"{given}={getattr(self, given)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizing of images with mode "nearest"; `Upsample` does the same.

    Args:
        size: the height and width of the result. None follows `scale_factor`.
        scale_factor: the ratio of new to old sizes. None follows `size`.
    Shape: ``(batch, channels, height, width)`` to the same with the new sizes.
    See also: Upsample

    Example:
        >>> flambeau.nn.UpsamplingNearest2d(scale_factor=2)(flambeau.tensor([[[[0.0, 2.0]]]]))
        tensor([[[[0., 0., 2., 2.],
                  [0., 0., 2., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizing of images with mode "bilinear" and aligned corners; `Upsample` does the same.

    Args:
        size: the height and width of the result. None follows `scale_factor`.
        scale_factor: the ratio of new to old sizes. None follows `size`.
    Shape: ``(batch, channels, height, width)`` to the same with the new sizes.
    See also: Upsample

    Example:
        >>> flambeau.nn.UpsamplingBilinear2d(size=(1, 3))(flambeau.tensor([[[[0.0, 2.0]]]]))
        tensor([[[[0., 1., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PairwiseDistance(Module):
    """Distance of pairs of vectors: the norm of their difference.

    Formula: result = (sum over the last dimension of |x1 - x2 + eps|^p)^(1 / p)

    Args:
        p: the order of the norm.
        eps: added to each difference, so that equal vectors have a gradient.
        keepdim: whether the last dimension stays, with size 1.
    Shape: ``(N, D)`` or ``(D)`` twice, which broadcast, to ``(N)`` or ``()``, or ``(N, 1)`` or ``(1)`` with
        `keepdim`.
    See also: CosineSimilarity

    Example:
        >>> flambeau.nn.PairwiseDistance()(flambeau.tensor([[0.0, 3.0]]), flambeau.tensor([[4.0, 0.0]]))
        tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Measure."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(FunctionalLayer):
    """Cosine of the angle between vectors along a dimension.

    Args:
        dim: the dimension of the vectors.
        eps: the least norm, so that zero vectors give 0.
    Shape: ``(*)`` twice, which broadcast, to the same without `dim`.
    See also: CosineEmbeddingLoss, PairwiseDistance

    Example:
        >>> flambeau.nn.CosineSimilarity()(flambeau.tensor([[1.0, 1.0]]), flambeau.tensor([[2.0, 0.0]]))
        tensor([0.7071])
    """

    function, options = "cosine_similarity", {"dim": 1, "eps": 1e-8}
    shown = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """Measure."""
        out: Tensor = self._apply_function(x1, x2)
        return out
