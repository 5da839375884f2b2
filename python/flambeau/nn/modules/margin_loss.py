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
    """Distances where target is 1, max(0, margin - distance) where it is -1."""

    function, options = "hinge_embedding_loss", {"margin": 1.0, **_OLDER}


class MarginRankingLoss(_Loss):
    """max(0, margin - target (input1 - input2)), with targets 1 and -1."""

    function, options = "margin_ranking_loss", {"margin": 0.0, **_OLDER}

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(input1, input2, target)
        return out


class CosineEmbeddingLoss(_Loss):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""

    function, options = "cosine_embedding_loss", {"margin": 0.0, **_OLDER}

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(input1, input2, target)
        return out


class SoftMarginLoss(_Loss):
    """ln(1 + e^(-target input)) for targets 1 and -1."""

    function, options = "soft_margin_loss", _OLDER


class MultiMarginLoss(_Loss):
    """Mean over the classes of max(0, margin - score of the target + score of another)^p."""

    function, options = "multi_margin_loss", {"p": 1, "margin": 1.0, "weight": None, **_OLDER}


class MultiLabelMarginLoss(_Loss):
    """max(0, 1 - (score of a label - score of another class)), summed over pairs and divided by classes."""

    function, options = "multilabel_margin_loss", _OLDER


class MultiLabelSoftMarginLoss(_Loss):
    """Binary cross entropy of sigmoid(input), averaged over the classes."""

    function, options = "multilabel_soft_margin_loss", {"weight": None, **_OLDER}


class TripletMarginLoss(_Loss):
    """max(0, margin + |anchor - positive|_p - |anchor - negative|_p)."""

    function = "triplet_margin_loss"
    options = {"margin": 1.0, "p": 2.0, "eps": 1e-6, "swap": False, **_OLDER}

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(anchor, positive, negative)
        return out


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a distance of one's own."""

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
    """Negative log likelihood of counts: e^input - target input, input the logarithm of the rate."""

    function = "poisson_nll_loss"
    options = {
        "log_input": True, "full": False, "size_average": None, "eps": 1e-8, "reduce": None, **_MEAN,
    }  # fmt: skip

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(log_input, target)
        return out


class GaussianNLLLoss(_Loss):
    """Negative log likelihood of a normal distribution: (ln var + (input - target)^2 / var) / 2."""

    function, options = "gaussian_nll_loss", {"full": False, "eps": 1e-6, **_MEAN}
    keyword_only = True

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:  # type: ignore[override]
        """Return the loss."""
        out: Tensor = self._apply_function(input, target, var)
        return out


class CTCLoss(_Loss):
    """Connectionist temporal classification. Source: Graves et al. 2006."""

    function, options = "ctc_loss", {"blank": 0, **_MEAN, "zero_infinity": False}

    def forward(  # type: ignore[override]
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """Return the loss."""
        out: Tensor = self._apply_function(log_probs, targets, input_lengths, target_lengths)
        return out
