"""Rows of tables, and sums of such rows."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau._arguments.checks import require_tensors
from flambeau._C import _nn

__all__ = ["embedding", "embedding_bag", "one_hot"]

_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Look up rows of `weight`; rows longer than `max_norm` are first shortened in place."""
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx >= weight.size(0) or padding_idx < -weight.size(0):
        raise AssertionError("embedding: Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        padding_idx += weight.size(0)
    if max_norm is not None:
        with flambeau.no_grad():
            flambeau.embedding_renorm_(weight, input, max_norm, norm_type)
    return flambeau.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Integers (*) to rows (*, num_classes) with a single 1; -1: the largest integer + 1 classes."""
    return _nn.one_hot(input, num_classes)


def _bags(input: Tensor, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the indices as a vector, and where each bag begins in it."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "embedding_bag: a matrix of indices has a bag in each row, so offsets has to be None, "
                f"got {type(offsets).__name__}"
            )
        count, length = input.shape
        return input.reshape(-1), flambeau.arange(0, count, dtype=input.dtype, device=input.device) * length
    if input.dim() != 1:
        raise ValueError(f"embedding_bag: expected input of 1 or 2 dimensions, got {input.dim()}")
    if offsets is None:
        raise ValueError("embedding_bag: expected offsets beside a vector of indices, got None")
    if offsets.dim() != 1:
        raise ValueError(f"embedding_bag: expected offsets of 1 dimension, got {offsets.dim()}")
    return input, offsets


def _scales(per_sample_weights: Tensor | None, input: Tensor, mode: str) -> Tensor | None:
    """Check the rows' scales and return them as a vector."""
    if per_sample_weights is None:
        return None
    if input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: expected per_sample_weights of shape {tuple(input.shape)}, got "
            f"{tuple(per_sample_weights.shape)}"
        )
    if mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights are for mode='sum', got {mode!r}")
    return per_sample_weights.reshape(-1)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sum, mean or maximum of rows of `weight`, bag by bag.

    Args:
        input: indices, (B, n) for B bags of n, or (N) together with `offsets`.
        weight: the table, (count, length).
        offsets: where each bag begins in a vector of indices.
        max_norm: rows longer than this are first shortened in place.
        norm_type: order of that norm.
        scale_grad_by_freq: divide a row's gradient by its count in `input`.
        mode: sum, mean or max.
        sparse: make the gradient of `weight` a sparse tensor; for sum and mean.
        per_sample_weights: scale of each row, of input's shape; for mode sum.
        include_last_offset: whether offsets end with the number of indices.
        padding_idx: this index counts nothing.
    """
    require_tensors("embedding_bag", input=input, weight=weight)
    if weight.dtype == flambeau.long and input.is_floating_point():
        input, weight = weight, input
    if weight.dim() != 2:
        raise ValueError(f"embedding_bag: expected weight to be a 2D Tensor, got shape {list(weight.shape)}")
    if mode not in _BAG_MODES:
        raise ValueError(f"embedding_bag: expected max, mean or sum as mode, got {mode!r}")
    per_sample_weights = _scales(per_sample_weights, input, mode)
    indices, starts = _bags(input, offsets)
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("embedding_bag: scale_grad_by_freq is for sum and mean, got mode='max'")
    if mode == "max" and sparse:
        raise ValueError("embedding_bag: sparse gradients are for sum and mean, got mode='max'")
    if max_norm is not None:
        with flambeau.no_grad():
            flambeau.embedding_renorm_(weight, indices, max_norm, norm_type)
    return flambeau.embedding_bag(
        weight,
        indices,
        starts,
        scale_grad_by_freq,
        _BAG_MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]
