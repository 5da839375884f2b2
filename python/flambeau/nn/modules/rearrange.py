"""Layers that move elements between space, channels and windows, and distances."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.functional_layer import REQUIRED, FunctionalLayer
from flambeau.nn.modules.module import Module


class PixelShuffle(FunctionalLayer):
    """(*, C r^2, H, W) to (*, C, H r, W r). Source: Shi et al. 2016, "Sub-pixel convolution"."""

    function, options = "pixel_shuffle", {"upscale_factor": REQUIRED}


class PixelUnshuffle(FunctionalLayer):
    """(*, C, H r, W r) to (*, C r^2, H, W): the inverse of PixelShuffle."""

    function, options = "pixel_unshuffle", {"downscale_factor": REQUIRED}


class ChannelShuffle(FunctionalLayer):
    """Deal the channels of each group out in turn. Source: Zhang et al. 2017, "ShuffleNet"."""

    function, options = "channel_shuffle", {"groups": REQUIRED}


class Fold(FunctionalLayer):
    """Sum windows (batch, channels * window, count) into (batch, channels, *output_size)."""

    function = "fold"
    options = {
        "output_size": REQUIRED, "kernel_size": REQUIRED, "dilation": 1, "padding": 0, "stride": 1,
    }  # fmt: skip


class Unfold(FunctionalLayer):
    """Lay the windows of (batch, channels, *spatial) out as (batch, channels * window, count)."""

    function = "unfold"
    options = {"kernel_size": REQUIRED, "dilation": 1, "padding": 0, "stride": 1}


class Upsample(FunctionalLayer):
    """Resize the trailing dimensions by interpolation; see `nn.functional.interpolate`.

    Args:
        size: the new sizes, or
        scale_factor: the ratio of new to old.
        mode: nearest, linear, bilinear, bicubic or trilinear.
        align_corners: whether the outermost elements stay in place (not for nearest).
        recompute_scale_factor: whether the ratio is taken from the rounded sizes.
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
    """Upsample (batch, channels, height, width) with mode="nearest"."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample (batch, channels, height, width) with mode="bilinear" and align_corners=True."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PairwiseDistance(Module):
    """The norm of differences: |x1 - x2 + eps|_p along the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Measure."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(FunctionalLayer):
    """Cosine of the angle between x1 and x2 along `dim`; norms below `eps` count as `eps`."""

    function, options = "cosine_similarity", {"dim": 1, "eps": 1e-8}
    shown = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """Measure."""
        out: Tensor = self._apply_function(x1, x2)
        return out
