"""Margin, ranking, counting and sequence losses as layers; see the functions of the same name."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.nn.functional._reduction import named, number_of
from flambeau.nn.modules.functional_layer import FunctionalLayer
from flambeau.nn.modules.rearrange import PairwiseDistance

_MEAN = {"reduction": "mean"}
_OLDER = {"size_average": None, "reduce": None, **_MEAN}


class _Loss(FunctionalLayer):
    """A loss; `size_average` and `reduce` are PyTorch's older words for `reduction`."""

    unused = ("size_average", "reduce")
    shown = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        size_average, reduce = (vars(self).pop(name, None) for name in self.unused)
        self.reduction: str = named(size_average, reduce, vars(self)["reduction"])
        number_of(self.reduction)  # ValueError on other words

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(input, target)
        return out


class HingeEmbeddingLoss(_Loss):
    """Loss that makes distances small for target 1 and larger than a margin for target -1.

    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    See also: CosineEmbeddingLoss

    Example:
        >>> flambeau.nn.HingeEmbeddingLoss()(flambeau.tensor([0.5, 0.25]), flambeau.tensor([1, -1]))
        tensor(0.6250)
    """

    function, options = "hinge_embedding_loss", {"margin": 1.0, **_OLDER}


class MarginRankingLoss(_Loss):
    """Loss of pairs of scores that stand in the wrong order.

    The target is 1 where the first score should be the larger one, -1 where the second should.

    Shape: ``(*)`` three times; the result has the same shape with reduction "none", else ``()``.
    See also: TripletMarginLoss

    Example:
        >>> a, b = flambeau.tensor([1.0, 0.0]), flambeau.tensor([0.0, 3.0])
        >>> flambeau.nn.MarginRankingLoss()(a, b, flambeau.tensor([1, 1]))
        tensor(1.5000)
    """

    function, options = "margin_ranking_loss", {"margin": 0.0, **_OLDER}

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(input1, input2, target)
        return out


class CosineEmbeddingLoss(_Loss):
    """Loss that makes vectors parallel for target 1 and not parallel for target -1.

    Shape: ``(N, D)`` or ``(D)`` twice, and ``(N)`` or ``()``, which the result has with reduction "none".
    See also: CosineSimilarity, HingeEmbeddingLoss

    Example:
        >>> a, b = flambeau.tensor([[1.0, 0.0]]), flambeau.tensor([[0.0, 1.0]])
        >>> flambeau.nn.CosineEmbeddingLoss()(a, b, flambeau.tensor([1]))
        tensor(1.)
    """

    function, options = "cosine_embedding_loss", {"margin": 0.0, **_OLDER}

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(input1, input2, target)
        return out


class SoftMarginLoss(_Loss):
    """Logistic loss of scores for targets 1 and -1.

    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    See also: BCEWithLogitsLoss

    Example:
        >>> flambeau.nn.SoftMarginLoss()(flambeau.tensor([2.0, 0.0]), flambeau.tensor([1, -1]))
        tensor(0.4100)
    """

    function, options = "soft_margin_loss", _OLDER


class MultiMarginLoss(_Loss):
    """Loss of scores of other classes that come within a margin of the target's score.

    Args:
        weight: the factor of each target class, ``(C)``; a buffer. None means 1.
    Shape: ``(N, C)`` or ``(C)``, and int64 ``(N)`` or ``()``, which the result has with reduction "none".
    See also: CrossEntropyLoss

    Example:
        >>> flambeau.nn.MultiMarginLoss()(flambeau.tensor([[1.0, 0.5, 0.0]]), flambeau.tensor([0]))
        tensor(0.1667)
    """

    function, options = "multi_margin_loss", {"p": 1, "margin": 1.0, "weight": None, **_OLDER}


class MultiLabelMarginLoss(_Loss):
    """Loss of scores of other classes that come within 1 of the score of a label.

    Each row of the target lists the labels of a sample, ended by the first -1.

    Shape: ``(N, C)`` or ``(C)``, and int64 of the same shape; the result is ``(N)`` or ``()`` with reduction
        "none", else ``()``.
    See also: MultiLabelSoftMarginLoss

    Example:
        >>> target = flambeau.tensor([[1, -1, 0]])
        >>> flambeau.nn.MultiLabelMarginLoss()(flambeau.tensor([[0.5, 1.0, 0.0]]), target)
        tensor(0.1667)
    """

    function, options = "multilabel_margin_loss", _OLDER


class MultiLabelSoftMarginLoss(_Loss):
    """Binary cross entropy of scores of several labels, averaged over the classes.

    Args:
        weight: the factor of each class, ``(C)``; a buffer. None means 1.
    Shape: ``(*, C)`` twice; the result is ``(*)`` with reduction "none", else ``()``.
    See also: BCEWithLogitsLoss

    Example:
        >>> flambeau.nn.MultiLabelSoftMarginLoss()(flambeau.zeros(1, 2), flambeau.tensor([[0.0, 1.0]]))
        tensor(0.6931)
    """

    function, options = "multilabel_soft_margin_loss", {"weight": None, **_OLDER}


class TripletMarginLoss(_Loss):
    """Loss of triplets whose positive is not nearer to the anchor than the negative by a margin.

    Shape: ``(N, D)`` or ``(D)`` three times; the result is ``(N)`` or ``()`` with reduction "none", else
        ``()``.
    See also: TripletMarginWithDistanceLoss, PairwiseDistance

    Example:
        >>> anchor, positive = flambeau.zeros(1, 2), flambeau.tensor([[0.0, 1.0]])
        >>> flambeau.nn.TripletMarginLoss()(anchor, positive, flambeau.tensor([[0.5, 0.0]]))
        tensor(1.5000)
    """

    function = "triplet_margin_loss"
    options = {"margin": 1.0, "p": 2.0, "eps": 1e-6, "swap": False, **_OLDER}

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(anchor, positive, negative)
        return out


class TripletMarginWithDistanceLoss(_Loss):
    """Loss of triplets with a distance of one's own.

    Args:
        distance_function: a function of two tensors. None means `PairwiseDistance`.
    Shape: ``(N, *)`` three times; the result has the shape of the distances with reduction "none", else
        ``()``.
    Raises: ValueError if `margin` is not positive.
    See also: TripletMarginLoss

    Example:
        >>> loss = flambeau.nn.TripletMarginWithDistanceLoss(distance_function=flambeau.nn.CosineSimilarity())
        >>> loss(flambeau.ones(1, 2), flambeau.ones(1, 2), -flambeau.ones(1, 2))
        tensor(3.)
    """

    function = "triplet_margin_with_distance_loss"
    options = {"distance_function": None, "margin": 1.0, "swap": False, **_MEAN}
    keyword_only = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if getattr(self, "distance_function") is None:  # noqa: B009 - made from `options`
            self.distance_function = PairwiseDistance()
        if self.margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: expected margin > 0, got {self.margin}")

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(anchor, positive, negative)
        return out


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts with Poisson distributions.

    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    See also: GaussianNLLLoss

    Example:
        >>> flambeau.nn.PoissonNLLLoss()(flambeau.tensor([0.0, 1.0]), flambeau.tensor([1.0, 3.0]))
        tensor(0.3591)
    """

    function = "poisson_nll_loss"
    options = {
        "log_input": True, "full": False, "size_average": None, "eps": 1e-8, "reduce": None, **_MEAN,
    }  # fmt: skip

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(log_input, target)
        return out


class GaussianNLLLoss(_Loss):
    """Negative log likelihood of values with normal distributions.

    The arguments of a call are the means, the values and the variances.

    Shape: ``(N, *)`` twice, and variances of the same shape, without its last size, or with 1 in its place;
        the result has the same shape with reduction "none", else ``()``.
    See also: MSELoss, PoissonNLLLoss

    Example:
        >>> mean, value = flambeau.tensor([0.0, 1.0]), flambeau.tensor([0.0, 2.0])
        >>> flambeau.nn.GaussianNLLLoss()(mean, value, flambeau.ones(2))
        tensor(0.2500)
    """

    function, options = "gaussian_nll_loss", {"full": False, "eps": 1e-6, **_MEAN}
    keyword_only = True

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(input, target, var)
        return out


class CTCLoss(_Loss):
    """Connectionist temporal classification: loss of label sequences whose alignment with the inputs is
    unknown.

    The arguments of a call are log probabilities, targets, and the lengths of both.

    Args:
        reduction: "mean" (each loss is first divided by the length of its target), "sum" or "none".
    Shape: ``(T, N, C)`` or ``(T, C)``, ``(N, S)`` or all labels in one vector, ``(N)`` twice; the result is
        ``(N)`` with reduction "none", else ``()``.
    See also: NLLLoss

    Example:
        >>> probs, one = flambeau.full((3, 1, 2), 0.5), flambeau.tensor([1])
        >>> flambeau.nn.CTCLoss()(probs.log(), one.reshape(1, 1), 3 * one, one)
        tensor(0.2877)
    """

    function, options = "ctc_loss", {"blank": 0, **_MEAN, "zero_infinity": False}

    def forward(  # type: ignore[override]
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """Return the loss."""
        out: Tensor = self._apply_function(log_probs, targets, input_lengths, target_lengths)
        return out
