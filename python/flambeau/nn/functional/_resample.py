"""Resizing, and sampling at given places."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._C import _functions
from flambeau.nn.functional._pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = [
    "affine_grid",
    "grid_sample",
    "interpolate",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

_LINEAR = {"linear": 3, "bilinear": 4, "trilinear": 5}
_AREA = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


def _per_dimension(value: Any, dims: int, name: str) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, Sequence):
        return [value] * dims
    if len(value) != dims:
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got "
            f"input with {dims} spatial dimensions and {name} of {value}. "
            "Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{name} in (o1, o2, ...,oK) format."
        )
    return list(value)


def _check(input: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None) -> bool:
    """Check the arguments; return whether corners are aligned."""
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if mode not in (*_LINEAR, "bicubic", "nearest", "area", "nearest-exact") or not 3 <= input.dim() <= 5:
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported "
            f"(got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | "
            f"nearest-exact (got {mode})"
        )
    fitting = _LINEAR.get(mode, 4 if mode == "bicubic" else input.dim())
    if input.dim() != fitting:
        if mode == "bicubic":
            raise NotImplementedError(f"Got {input.dim()}D input, but bicubic mode needs 4D input")
        raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {fitting}D input")
    return bool(align_corners)


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the dimensions after batch and channels.

    Args:
        input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: of the result.
        scale_factor: the result's size over the input's; instead of `size`.
        mode: nearest, nearest-exact or area; linear (3-D input), bilinear or bicubic (4-D), trilinear (5-D).
        align_corners: of interpolating modes: samples span the input from corner element to corner element.
        recompute_scale_factor: place the samples by the sizes, not by the given `scale_factor`.
        antialias: bilinear and bicubic filters that widen when the result is smaller.
    Raises: ValueError for contradicting arguments, NotImplementedError for other inputs and modes.
    """
    aligned = _check(input, size, scale_factor, mode, align_corners)
    dims = input.dim() - 2
    sizes = _per_dimension(size, dims, "output size")
    scales = _per_dimension(scale_factor, dims, "scale_factor")
    if recompute_scale_factor and sizes is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if sizes is None:
        assert scales is not None
        sizes = [math.floor(float(input.size(i + 2)) * float(s)) for i, s in enumerate(scales)]
        if recompute_scale_factor:
            scales = None
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if mode == "area":
        return _AREA[input.dim()](input, sizes)
    filter = "linear" if mode in _LINEAR else "cubic" if mode == "bicubic" else mode
    if antialias:
        filter += "-aa"
    scales = None if scales is None else [float(s) for s in scales]
    return _functions._interpolate(input, sizes, filter, aligned, scales)


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` under its older name."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode nearest."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode bilinear and aligned corners."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _aligned(align_corners: bool | None, name: str) -> bool:
    if align_corners is None:
        warnings.warn(
            f"Default {name} and affine_grid behavior has changed to align_corners=False since 1.3.0. "
            "Please specify align_corners=True if the old behavior is desired.",
            stacklevel=3,
        )
    return bool(align_corners)


_FILTERS = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_BORDERS = {"zeros": 0, "border": 1, "reflection": 2}


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Sample at places of a grid.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, H_out, W_out, 2) of x, y or (N, D_out, H_out, W_out, 3) of x, y, z; -1 and 1 are the
            edges of the input.
        mode: bilinear (trilinear for 5-D), nearest, or bicubic (4-D).
        padding_mode: outside the input: zeros, border (nearest edge) or reflection.
        align_corners: whether -1 and 1 are the centers of the corner elements instead.
    """
    if mode not in _FILTERS:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _BORDERS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    aligned = _aligned(align_corners, "grid_sample")
    return flambeau.grid_sampler(input, grid, _FILTERS[mode], _BORDERS[padding_mode], aligned)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Grids for `grid_sample` from affine maps.

    Args:
        theta: (N, 2, 3), or (N, 3, 4) for volumes.
        size: of the sampled result, (N, C, H, W) or (N, C, D, H, W).
        align_corners: as for `grid_sample`.
    """
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    if theta.dim() != 3 or theta.shape[-2] != dims or theta.shape[-1] != dims + 1:
        kind = "2D" if dims == 2 else "3D"
        raise ValueError(
            f"Expected a batch of {kind} affine matrices of shape Nx{dims}x{dims + 1} for size {size}. "
            f"Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return flambeau.affine_grid_generator(theta, size, _aligned(align_corners, "grid_sample"))
