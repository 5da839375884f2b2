"""Losses that ask for a margin between scores or distances."""

from __future__ import annotations

from collections.abc import Callable

import flambeau
from flambeau import Tensor
from flambeau._C import _nn
from flambeau.nn.functional._reduction import named, number_of

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Distances where target is 1, max(0, margin - distance) where it is -1."""
    reduction = named(size_average, reduce, reduction)
    return flambeau.hinge_embedding_loss(input, target, margin, number_of(reduction))


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - target (input1 - input2))."""
    chosen = number_of(named(size_average, reduce, reduction))
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            f"margin_ranking_loss: expected one number of dimensions, got {input1.dim()}, "
            f"{input2.dim()} and {target.dim()}"
        )
    return flambeau.margin_ranking_loss(input1, input2, target, margin, chosen)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""
    chosen = number_of(named(size_average, reduce, reduction))
    return flambeau.cosine_embedding_loss(input1, input2, target, margin, chosen)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """ln(1 + e^(-target input)) for targets 1 and -1."""
    return _nn.soft_margin_loss(input, target, number_of(named(size_average, reduce, reduction)))


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over the classes of max(0, margin - score of the target + score of another)^p."""
    chosen = number_of(named(size_average, reduce, reduction))
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: expected p of 1 or 2, got {p}")
    if weight is not None and weight.dim() != 1:
        raise ValueError("multi_margin_loss: weight must be one-dimensional")
    return _nn.multi_margin_loss(input, target, p, margin, weight, chosen)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Sum of max(0, 1 - (score of a label - score of another class)), over the number of classes.

    The labels of a row of `target` are those before its first -1.
    """
    return _nn.multilabel_margin_loss(input, target, number_of(named(size_average, reduce, reduction)))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy of sigmoid(input), averaged over the classes (last dimension)."""
    chosen = number_of(named(size_average, reduce, reduction))
    loss = -(target * _nn.log_sigmoid(input) + (1 - target) * _nn.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(-1) / input.size(-1)
    return loss.mean() if chosen == 1 else loss.sum() if chosen == 2 else loss


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + |anchor - positive| - |anchor - negative|)."""
    chosen = number_of(named(size_average, reduce, reduction))
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: expected margin > 0, got {margin}")
    return flambeau.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, chosen)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with any distance; `flambeau.pairwise_distance` by default."""
    chosen = number_of(reduction)
    distance = flambeau.pairwise_distance if distance_function is None else distance_function
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss: expected margin > 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            f"triplet_margin_loss: expected one number of dimensions, got {anchor.dim()}, "
            f"{positive.dim()} and {negative.dim()}"
        )
    near = distance(anchor, positive)
    far = distance(anchor, negative)
    if swap:
        far = flambeau.minimum(far, distance(positive, negative))
    loss = flambeau.clamp_min(margin + near - far, 0)
    return loss.mean() if chosen == 1 else loss.sum() if chosen == 2 else loss
