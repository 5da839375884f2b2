"""Losses that ask for a margin between scores or distances."""

from __future__ import annotations

from collections.abc import Callable

import flambeau
from flambeau import Tensor
from flambeau._C import _nn
from flambeau._loading.documentation import described_by
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


@described_by(flambeau.hinge_embedding_loss)
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute a loss that makes distances small for target 1 and larger than a margin for target -1.

    Args:
        input: the distances.
        target: 1 for pairs that should be near, -1 for pairs that should be far.
        margin: the distance above which a far pair costs nothing.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    See also: nn.HingeEmbeddingLoss, cosine_embedding_loss

    Example:
        >>> distance, target = flambeau.tensor([0.5, 0.25]), flambeau.tensor([1, -1])
        >>> flambeau.nn.functional.hinge_embedding_loss(distance, target)
        tensor(0.6250)
    """
    reduction = named(size_average, reduce, reduction)
    return flambeau.hinge_embedding_loss(input, target, margin, number_of(reduction))


@described_by(flambeau.margin_ranking_loss)
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute a loss of pairs of scores that stand in the wrong order.

    Args:
        target: 1 if `input1` should be the larger one, -1 if `input2` should.
        margin: the difference above which a pair costs nothing.
    Shape: the three tensors of one shape, which the result has with reduction "none"; else ().
    Raises: RuntimeError if the tensors have different numbers of dimensions.
    See also: nn.MarginRankingLoss

    Example:
        >>> a, b = flambeau.tensor([1.0, 0.0]), flambeau.tensor([0.0, 3.0])
        >>> flambeau.nn.functional.margin_ranking_loss(a, b, flambeau.tensor([1, 1]))
        tensor(1.5000)
    """
    chosen = number_of(named(size_average, reduce, reduction))
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            f"margin_ranking_loss: expected one number of dimensions, got {input1.dim()}, "
            f"{input2.dim()} and {target.dim()}"
        )
    return flambeau.margin_ranking_loss(input1, input2, target, margin, chosen)


@described_by(flambeau.cosine_embedding_loss)
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute a loss that makes vectors parallel for target 1 and not parallel for target -1.

    Args:
        target: 1 for pairs that should point the same way, -1 for others.
        margin: the cosine, in [-1, 1], below which a pair with target -1 costs nothing.
    Shape: `input1` and `input2` (N, D) or (D), `target` (N) or (); the result has the shape of `target` with
        reduction "none"; else ().
    See also: nn.CosineEmbeddingLoss, cosine_similarity

    Example:
        >>> a, b = flambeau.tensor([[1.0, 0.0]]), flambeau.tensor([[0.0, 1.0]])
        >>> flambeau.nn.functional.cosine_embedding_loss(a, b, flambeau.tensor([1]))
        tensor(1.)
    """
    chosen = number_of(named(size_average, reduce, reduction))
    return flambeau.cosine_embedding_loss(input1, input2, target, margin, chosen)


@described_by(_nn.soft_margin_loss)
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the logistic loss of scores for targets 1 and -1.

    Args:
        input: the scores; their sign is the decision.
        target: 1 or -1.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    See also: nn.SoftMarginLoss, hinge_embedding_loss

    Example:
        >>> flambeau.nn.functional.soft_margin_loss(flambeau.tensor([2.0, 0.0]), flambeau.tensor([1, -1]))
        tensor(0.4100)
    """
    return _nn.soft_margin_loss(input, target, number_of(named(size_average, reduce, reduction)))


@described_by(_nn.multi_margin_loss)
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
    """Compute a loss of scores of other classes that come within a margin of the target's score.

    Args:
        input: the scores of the classes.
        target: the classes, int64 in [0, C).
        p: the power of each excess: 1 or 2.
        margin: the wanted distance of the target's score above each other score.
        weight: the factor of each target class, (C). None means 1.
    Shape: `input` (N, C) or (C), `target` (N) or (); the result has the shape of `target` with reduction
        "none"; else ().
    Raises: ValueError for another `p`, or a `weight` of more than 1 dimension.
    See also: nn.MultiMarginLoss, cross_entropy

    Example:
        >>> flambeau.nn.functional.multi_margin_loss(flambeau.tensor([[1.0, 0.5, 0.0]]), flambeau.tensor([0]))
        tensor(0.1667)
    """
    chosen = number_of(named(size_average, reduce, reduction))
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: expected p of 1 or 2, got {p}")
    if weight is not None and weight.dim() != 1:
        raise ValueError(
            f"multi_margin_loss: weight must be one-dimensional: expected 1 dimension, got {weight.dim()}"
        )
    return _nn.multi_margin_loss(input, target, p, margin, weight, chosen)


@described_by(_nn.multilabel_margin_loss)
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute a loss of scores of other classes that come within 1 of a label's score.

    Args:
        input: the scores of the classes.
        target: the labels of each sample, int64, ended by the first -1.
    Shape: `input` and `target` (N, C) or (C); the result is (N) or () with reduction "none"; else ().
    See also: nn.MultiLabelMarginLoss, multilabel_soft_margin_loss

    Example:
        >>> target = flambeau.tensor([[1, -1, 0]])
        >>> flambeau.nn.functional.multilabel_margin_loss(flambeau.tensor([[0.5, 1.0, 0.0]]), target)
        tensor(0.1667)
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
    """Compute the binary cross entropy of scores of several labels, averaged over the classes.

    Formula: result = -mean over classes of weight (target ln(sigmoid(input)) + (1 - target)
        ln(sigmoid(-input)))

    Args:
        input: the scores (logits) of the classes, which are the last dimension.
        target: 1 for the labels of a sample, 0 for other classes.
        weight: the factor of each class, (C). None means 1.
        size_average: deprecated; `reduction` replaces it. False means the sum.
        reduce: deprecated; `reduction` replaces it. False means no reduction.
        reduction: "mean" (over the samples), "sum" or "none".
    Shape: `input` and `target` (*, C); the result is (*) with reduction "none"; else ().
    See also: nn.MultiLabelSoftMarginLoss, binary_cross_entropy_with_logits

    Example:
        >>> target = flambeau.tensor([[0.0, 1.0]])
        >>> flambeau.nn.functional.multilabel_soft_margin_loss(flambeau.zeros(1, 2), target)
        tensor(0.6931)
    """
    chosen = number_of(named(size_average, reduce, reduction))
    loss = -(target * _nn.log_sigmoid(input) + (1 - target) * _nn.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(-1) / input.size(-1)
    return loss.mean() if chosen == 1 else loss.sum() if chosen == 2 else loss


@described_by(flambeau.triplet_margin_loss)
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
    """Compute a loss of triplets whose positive is not nearer to the anchor than the negative by a margin.

    Args:
        margin: the wanted difference of the two distances.
        p: the order of the norm that measures the distances.
        eps: added to each difference of vectors, so that the norm has a gradient where vectors are equal.
        swap: whether the distance of positive and negative counts where it is smaller than that of anchor and
            negative.
    Shape: the three tensors (N, D) or (D); the result is (N) or () with reduction "none"; else ().
    Raises: ValueError if `margin` is not positive.
    See also: nn.TripletMarginLoss, triplet_margin_with_distance_loss

    Example:
        >>> anchor, positive = flambeau.zeros(1, 2), flambeau.tensor([[0.0, 1.0]])
        >>> negative = flambeau.tensor([[0.5, 0.0]])
        >>> flambeau.nn.functional.triplet_margin_loss(anchor, positive, negative)
        tensor(1.5000)
    """
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
    """Compute the loss of triplets with a distance of one's own.

    Formula: result = max(0, margin + d(anchor, positive) - d(anchor, negative))

    Args:
        anchor: the reference tensors.
        positive: the tensors that should be near the anchors.
        negative: the tensors that should be far from the anchors.
        distance_function: d, a function of two tensors. None means `pairwise_distance`.
        margin: the wanted difference of the two distances, above 0.
        swap: whether d(positive, negative) counts where it is smaller than d(anchor, negative).
        reduction: "mean", "sum" or "none" (one loss per triplet).
    Shape: the three tensors (N, *); the result has the shape of the distances with reduction "none"; else ().
    Source: Balntas et al. 2016, "Learning Local Feature Descriptors with Triplets and Shallow Convolutional
        Neural Networks".
    Raises: ValueError if `margin` is not positive, RuntimeError if the numbers of dimensions differ.
    See also: nn.TripletMarginWithDistanceLoss, triplet_margin_loss

    Example:
        >>> def distance(a, b):
        ...     return (a - b).abs().sum(-1)
        >>> a, n = flambeau.zeros(1, 2), flambeau.ones(1, 2)
        >>> flambeau.nn.functional.triplet_margin_with_distance_loss(a, n, n, distance_function=distance)
        tensor(1.)
    """
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
