"""Resizing, and sampling at given places."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._arguments.checks import require_type
from flambeau._C import _functions
from flambeau._loading.documentation import described_by
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
        raise ValueError(f"interpolate: expected {name} for {dims} spatial dimensions, got {value}")
    return list(value)


def _check(input: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None) -> bool:
    """Check the arguments; return whether corners are aligned."""
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "interpolate: expected mode linear, bilinear, bicubic or trilinear for align_corners, "
                f"got {mode!r}"
            )
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: expected size or scale_factor, got both")
    if size is None and scale_factor is None:
        raise ValueError("interpolate: expected either size or scale_factor, got none")
    require_type("interpolate", bool, align_corners=align_corners)
    given = scale_factor if size is None else size
    if isinstance(given, list | tuple) and len(given) != input.dim() - 2:
        raise ValueError(
            f"interpolate: expected as many sizes or scales as input has spatial dimensions, "
            f"got {given} for {input.dim()}-D input"
        )
    if mode not in (*_LINEAR, "bicubic", "nearest", "area", "nearest-exact") or not 3 <= input.dim() <= 5:
        raise NotImplementedError(
            f"interpolate: expected 3D, 4D or 5D input and a known mode, got {input.dim()}D and {mode!r}"
        )
    fitting = _LINEAR.get(mode, 4 if mode == "bicubic" else input.dim())
    if input.dim() != fitting:
        raise NotImplementedError(
            f"interpolate: {mode} mode needs {fitting}D input: expected {fitting}D, got {input.dim()}D"
        )
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
    """Resize the spatial dimensions by interpolation.

    Args:
        input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: the new spatial sizes; one number stands for all. None follows `scale_factor`.
        scale_factor: the ratio of new to old sizes; one number stands for all. None follows `size`.
        mode: "nearest", "nearest-exact" (without the shift of half an element that "nearest" has), "area"
            (means), "linear" (3-D input), "bilinear" or "bicubic" (4-D), "trilinear" (5-D).
        align_corners: for modes that interpolate: whether samples span the input from the center of the first
            element to that of the last instead of from edge to edge. None means False.
        recompute_scale_factor: whether samples are placed by the ratio of the rounded sizes instead of the
            given ratio.
        antialias: whether the filter widens when the result is smaller; for "bilinear" and "bicubic" of 4-D
            input.
    Shape: (N, C, *size) to (N, C, *new).
    Raises: ValueError for arguments that contradict each other, NotImplementedError for another mode or
        number of dimensions.
    Source: Keys 1981, "Cubic Convolution Interpolation for Digital Image Processing", a = -0.75, for
        "bicubic".
    See also: nn.Upsample, grid_sample

    Example:
        >>> x = flambeau.tensor([[[0.0, 2.0]]])
        >>> flambeau.nn.functional.interpolate(x, size=4, mode="linear")
        tensor([[[0.0000, 0.5000, 1.5000, 2.0000]]])
        >>> flambeau.nn.functional.interpolate(x, scale_factor=2, mode="nearest")
        tensor([[[0., 0., 2., 2.]]])
    """
    aligned = _check(input, size, scale_factor, mode, align_corners)
    dims = input.dim() - 2
    sizes = _per_dimension(size, dims, "output size")
    scales = _per_dimension(scale_factor, dims, "scale_factor")
    if recompute_scale_factor and sizes is not None:
        raise ValueError("interpolate: expected recompute_scale_factor without an explicit size, got both")
    if sizes is None:
        assert scales is not None
        sizes = [math.floor(float(input.size(i + 2)) * float(s)) for i, s in enumerate(scales)]
        if recompute_scale_factor:
            scales = None
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(
            "interpolate: expected a bilinear or bicubic mode of 4-D input for antialias=True, got "
            f"{mode!r} and {input.dim()}-D"
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
    """Deprecated alias of `nn.functional.interpolate`."""
    warnings.warn("upsample is deprecated: call interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated alias of `nn.functional.interpolate` with mode "nearest"."""
    warnings.warn(
        "upsample_nearest is deprecated: call interpolate",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated alias of `nn.functional.interpolate` with mode "bilinear" and aligned corners."""
    warnings.warn(
        "upsample_bilinear is deprecated: call interpolate",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _aligned(align_corners: bool | None, name: str) -> bool:
    if align_corners is None:
        warnings.warn(
            f"{name}: align_corners=False is taken by default; say which is meant",
            stacklevel=3,
        )
    return bool(align_corners)


_FILTERS = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_BORDERS = {"zeros": 0, "border": 1, "reflection": 2}


@described_by(flambeau.grid_sampler)
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Sample images or volumes at the places that a grid names.

    Args:
        input: the images, (N, C, H, W), or volumes, (N, C, D, H, W).
        grid: the places: x, y or x, y, z in the last dimension; -1 and 1 are the edges of the input.
        mode: "bilinear" (trilinear for volumes), "nearest", or "bicubic" for images.
        padding_mode: what lies outside of the input: "zeros", "border" (the nearest edge element) or
            "reflection".
        align_corners: whether -1 and 1 are the centers of the corner elements instead of the edges. None
            means False, with a warning.
    Shape: (N, C, H, W) and (N, H_out, W_out, 2) give (N, C, H_out, W_out); with a depth likewise.
    Raises: ValueError for another mode or padding mode, TypeError for an `align_corners` that is not a bool.
    See also: affine_grid, interpolate

    Example:
        >>> image = flambeau.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
        >>> center = flambeau.zeros(1, 1, 1, 2)
        >>> flambeau.nn.functional.grid_sample(image, center, align_corners=False)
        tensor([[[[1.5000]]]])
    """
    if mode not in _FILTERS:
        raise ValueError(f"grid_sample: expected bicubic, bilinear or nearest as mode, got {mode!r}")
    if padding_mode not in _BORDERS:
        raise ValueError(
            f"grid_sample: expected border, reflection or zeros as padding_mode, got {padding_mode!r}"
        )
    require_type("grid_sample", bool, align_corners=align_corners)
    aligned = _aligned(align_corners, "grid_sample")
    return flambeau.grid_sampler(input, grid, _FILTERS[mode], _BORDERS[padding_mode], aligned)


@described_by(flambeau.affine_grid_generator)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Make the grid that `grid_sample` needs for an affine map of images or volumes.

    Args:
        theta: the maps from places in the result to places in the input, (N, 2, 3) or (N, 3, 4).
        size: the sizes of the result, (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the centers of the corner elements instead of the edges. None
            means False, with a warning. `grid_sample` needs the same choice.
    Raises: ValueError for a `theta` of another dtype or shape or an empty size, NotImplementedError for
        another number of sizes, TypeError for an `align_corners` that is not a bool.
    See also: grid_sample

    Example:
        >>> identity = flambeau.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> flambeau.nn.functional.affine_grid(identity, (1, 1, 1, 2), align_corners=False)
        tensor([[[[-0.5000,  0.0000],
                  [ 0.5000,  0.0000]]]])
    """
    require_type("affine_grid", bool, align_corners=align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid: expected theta of a floating point type, got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(f"affine_grid: expected a size of 4 or 5 numbers, got {size}")
    if theta.dim() != 3 or theta.shape[-2] != dims or theta.shape[-1] != dims + 1:
        raise ValueError(
            f"affine_grid: expected theta of shape N x {dims} x {dims + 1} for size {size}, "
            f"got {tuple(theta.shape)}"
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: expected a positive size, got {size}")
    return flambeau.affine_grid_generator(theta, size, _aligned(align_corners, "affine_grid"))
