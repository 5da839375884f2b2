"""Losses as layers. `reduction` is mean, sum or none; see the functions of the same name."""

from __future__ import annotations

import math
from typing import Any

from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.nn import functional as F
from flambeau.nn.functional._reduction import named, number_of
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module


class _Loss(Module):
    """A loss; `size_average` and `reduce` are PyTorch's older words for `reduction`."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        reduction = named(size_average, reduce, reduction)
        number_of(reduction)  # ValueError on other words
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight per class or element."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class MSELoss(_Loss):
    """Squared difference."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute difference."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared difference / (2 beta) below `beta`, absolute difference - beta / 2 above."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared difference below `delta`, linear above."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, float | int):
            raise TypeError(f"delta: expected a number, got {type(delta)}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Negative of the log probability (input) of the target class.

    Args:
        weight: weight of each class.
        ignore_index: targets with this value count nothing.
        reduction: mean (by weight), sum or none.
    Shape: ``(N, C, *)`` and integers ``(N, *)``.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """NLLLoss under its older name for images."""


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy between class scores (logits) and class indices or probabilities.

    Args:
        weight: weight of each class.
        ignore_index: targets with this value count nothing.
        reduction: mean, sum or none.
        label_smoothing: share of the target probability spread evenly over all classes.
    Shape: ``(N, C, *)`` and integers ``(N, *)`` or probabilities ``(N, C, *)``.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of scores (logits), without overflow.

    Args:
        weight: weight of each element, broadcast.
        reduction: mean, sum or none.
        pos_weight: weight of positive targets, broadcast.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        options: dict[str, Any] = {"weight": self.weight, "pos_weight": self.pos_weight}
        return F.binary_cross_entropy_with_logits(input, target, reduction=self.reduction, **options)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of log probabilities (input) from a target distribution."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        Module.__init__(self)
        self.reduction = named(size_average, reduce, reduction)  # "batchmean" too
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class LinearCrossEntropyLoss(Module):
    """Cross entropy of the scores that a linear layer of its own gives.

    Args:
        in_features: size of the input's last dimension.
        num_classes: number of classes C.
        out_features: further dimensions (d_1, ..., d_K) of the scores.
        bias: whether the linear layer adds a bias.
        reduction: mean, sum or none.
        weight: scale of each class.
        ignore_index: class index that counts nothing; None: -100.
        label_smoothing: share of the target probability spread evenly over all classes.
        options: whether the batch is taken in chunks; None: as a whole.
    Shape: ``(N, in_features)`` or ``(in_features)``, and integers ``(N, *out_features)`` or probabilities
        ``(N, C, *out_features)``.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: F.LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias, device, dtype)
        self.register_buffer("weight", weight)
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        names = ("reduction", "ignore_index", "label_smoothing", "options")
        kept = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        sizes = f"in_features={self.in_features}, num_classes={self.num_classes}"
        return f"{sizes}, out_features={self.out_features}, bias={self.linear.bias is not None}, {kept}"


__getattr__, __dir__ = attributes(__name__)
