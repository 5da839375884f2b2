"""Products of matrices in a type of one byte, with scales that give the range back."""

from __future__ import annotations

import enum
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = ["ScalingType", "SwizzleType", "scaled_grouped_mm", "scaled_mm"]


class _ScalingType(enum.Enum):
    """What one scale belongs to."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class _SwizzleType(enum.Enum):
    """In which order scales of blocks lie."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


ScalingType, SwizzleType = _ScalingType, _SwizzleType


def _single(value: Any, name: str) -> Any:
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise ValueError(f"scaled_mm: expected one {name}, got {len(value)}")
        return value[0]
    return value


def _scale(scale: Any, recipe: Any, expected: tuple[int, int], name: str) -> Tensor:
    scale, recipe = _single(scale, name), _single(recipe, f"recipe of {name}")
    if recipe not in (ScalingType.TensorWise, ScalingType.RowWise):
        raise NotImplementedError(
            f"scaled_mm: expected TensorWise or RowWise as recipe of {name} on the CPU, got "
            f"{getattr(recipe, 'name', recipe)}"
        )
    if scale.dtype != flambeau.float32:
        raise ValueError(f"scaled_mm: expected {name} to be float32, got {scale.dtype}")
    wanted = 1 if recipe is ScalingType.TensorWise else expected[0] * expected[1]
    if scale.numel() != wanted:
        raise ValueError(f"scaled_mm: expected {wanted} elements in {name}, got shape {tuple(scale.shape)}")
    return scale.reshape(()) if recipe is ScalingType.TensorWise else scale.reshape(expected)


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: _ScalingType | list[_ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: _ScalingType | list[_ScalingType],
    swizzle_a: _SwizzleType | list[_SwizzleType] | None = None,
    swizzle_b: _SwizzleType | list[_SwizzleType] | None = None,
    bias: Tensor | None = None,
    output_dtype: Any = flambeau.bfloat16,
    contraction_dim: list[int] | tuple[int, ...] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Return ``(scale_a * mat_a) @ (scale_b * mat_b) + bias``, accumulated in float32.

    Args:
        mat_a: (M, K), of a floating dtype of one byte.
        mat_b: (K, N), of such a dtype.
        scale_a: one element for TensorWise, (M, 1) for RowWise.
        scale_recipe_a: TensorWise or RowWise.
        scale_b: one element, or (1, N).
        scale_recipe_b: as scale_recipe_a.
        swizzle_a: None or NO_SWIZZLE; scales of blocks are not offered.
        swizzle_b: as swizzle_a.
        bias: (N).
        output_dtype: of the result.
        contraction_dim: empty; other dimensions are not offered.
        use_fast_accum: accepted; the sum is one of float32.
    """
    for mat, name in ((mat_a, "mat_a"), (mat_b, "mat_b")):
        if mat.dim() != 2 or not mat.dtype.is_floating_point or mat.dtype.itemsize != 1:
            raise ValueError(
                f"scaled_mm: expected {name} to be a matrix of a floating dtype of one byte, got "
                f"{mat.dtype} of shape {tuple(mat.shape)}; Invalid scaling configuration"
            )
    for swizzle in (_single(swizzle_a, "swizzle_a"), _single(swizzle_b, "swizzle_b")):
        if swizzle not in (None, SwizzleType.NO_SWIZZLE):
            raise NotImplementedError(f"scaled_mm: expected NO_SWIZZLE on the CPU, got {swizzle}")
    if len(contraction_dim):
        raise NotImplementedError(
            f"scaled_mm: expected an empty contraction_dim on the CPU, got {contraction_dim}"
        )
    by_a = _scale(scale_a, scale_recipe_a, (mat_a.shape[0], 1), "scale_a")
    by_b = _scale(scale_b, scale_recipe_b, (1, mat_b.shape[1]), "scale_b")
    product = (mat_a.float() * by_a) @ (mat_b.float() * by_b)
    if bias is not None:
        product = product + bias.float()
    return product.to(flambeau.bfloat16 if output_dtype is None else output_dtype)


def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: _ScalingType | list[_ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: _ScalingType | list[_ScalingType],
    swizzle_a: _SwizzleType | list[_SwizzleType] | None = None,
    swizzle_b: _SwizzleType | list[_SwizzleType] | None = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: Any = flambeau.bfloat16,
    contraction_dim: list[int] | tuple[int, ...] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Refuse to multiply scaled matrices by groups: only CUDA devices have kernels for it, and this build
    uses none.

    Args:
        mat_a: the left matrices.
        mat_b: the right matrices.
        scale_a: the scales of `mat_a`.
        scale_recipe_a: what a scale of `mat_a` belongs to.
        scale_b: the scales of `mat_b`.
        scale_recipe_b: what a scale of `mat_b` belongs to.
        swizzle_a: the order of the scales of `mat_a`.
        swizzle_b: the order of the scales of `mat_b`.
        bias: what would be added.
        offs: where each group ends.
        output_dtype: the dtype of the result.
        contraction_dim: the dimensions that are summed over.
        use_fast_accum: whether sums may be kept with less precision.
    Raises: NotImplementedError, always.
    """
    raise NotImplementedError("scaled_grouped_mm: expected a CUDA device; the CPU has no kernel for it")
