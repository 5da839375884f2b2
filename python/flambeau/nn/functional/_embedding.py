"""Rows of tables, and sums of such rows."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau._arguments.checks import require_tensors
from flambeau._C import _nn
from flambeau._loading.documentation import described_by

__all__ = ["embedding", "embedding_bag", "one_hot"]

_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


@described_by(flambeau.embedding)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Look up rows of a table by integer index.

    Args:
        input: the indices, of an integer dtype, in [0, count).
        weight: the table.
        padding_idx: the row that receives no gradient; negative values count from the last one. None means no
            row.
        max_norm: rows that are looked up and have a larger norm are first scaled down to it, in place.
        norm_type: the order of that norm.
    Shape: `input` (*) and `weight` (count, length) give (*, length).
    Raises: AssertionError if `padding_idx` is not a row; IndexError for an index out of range.
    See also: nn.Embedding, embedding_bag, one_hot

    Example:
        >>> table = flambeau.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        >>> flambeau.nn.functional.embedding(flambeau.tensor([2, 0]), table)
        tensor([[4., 5.],
                [0., 1.]])
    """
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx >= weight.size(0) or padding_idx < -weight.size(0):
        raise AssertionError(
            f"embedding: Padding_idx must be within num_embeddings: expected a row of {weight.size(0)}, got "
            f"{padding_idx}"
        )
    elif padding_idx < 0:
        padding_idx += weight.size(0)
    if max_norm is not None:
        with flambeau.no_grad():
            flambeau.embedding_renorm_(weight, input, max_norm, norm_type)
    return flambeau.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


@described_by(_nn.one_hot)
def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Make vectors that are 1 at the given class and 0 elsewhere.

    Args:
        input: the classes, int64, 0 or more.
        num_classes: the length of the vectors; -1 takes the largest class plus 1.
    """
    return _nn.one_hot(input, num_classes)


def _bags(input: Tensor, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the indices as a vector, and where each bag begins in it."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "embedding_bag: offsets has to be None for a matrix of indices, whose rows are the bags: "
                f"expected None, got {type(offsets).__name__}"
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
        raise NotImplementedError(f"embedding_bag: expected mode='sum' with per_sample_weights, got {mode!r}")
    return per_sample_weights.reshape(-1)


@described_by(flambeau.embedding_bag)
def _check_maxima(scale_grad_by_freq: bool, sparse: bool) -> None:
    if scale_grad_by_freq:
        raise ValueError(
            "embedding_bag: expected mode 'sum' or 'mean' for scale_grad_by_freq=True, got mode='max'"
        )
    if sparse:
        raise ValueError("embedding_bag: expected mode 'sum' or 'mean' for sparse gradients, got mode='max'")


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
    """Sum, average or maximize rows of a table, bag by bag.

    The rows themselves are not kept in memory. An empty bag gives 0.

    Args:
        input: the indices: (B, n) for B bags of n, or (N) together with `offsets`.
        weight: the table, (count, length).
        offsets: where each bag begins in a vector of indices; None with a matrix of indices.
        max_norm: rows that are looked up and have a larger norm are first scaled down to it, in place.
        norm_type: the order of that norm.
        scale_grad_by_freq: whether a row's gradient is divided by its count in `input`; not for "max".
        mode: "sum", "mean" or "max".
        sparse: whether the gradient of `weight` is a sparse tensor; not for "max".
        per_sample_weights: the factor of each row, of the shape of `input`; for "sum" alone.
        include_last_offset: whether `offsets` ends with the number of indices.
        padding_idx: an index that counts in no bag. None means that all count.
    Returns: the result, of shape (B, length).
    Shape: `input` (B, n), or `input` (N) and `offsets` (B); `weight` (count, length); the result (B, length).
    Raises: ValueError for another number of dimensions, another mode, `offsets` with a matrix or missing with
        a vector, or options that do not go with "max"; NotImplementedError for `per_sample_weights` without
        "sum".
    See also: nn.EmbeddingBag, embedding

    Example:
        >>> table = flambeau.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        >>> places = flambeau.tensor([0, 1, 2])
        >>> flambeau.nn.functional.embedding_bag(places, table, flambeau.tensor([0, 2]), mode="sum")
        tensor([[2., 4.],
                [4., 5.]])
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
    if mode == "max":
        _check_maxima(scale_grad_by_freq, sparse)
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
