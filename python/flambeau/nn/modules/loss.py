"""Losses as layers. `reduction` is mean, sum or none; see the functions of the same name."""

from __future__ import annotations

import math
from typing import Any

from flambeau import Tensor
from flambeau._loading.documentation import described_by
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


@described_by("mse_loss")
class MSELoss(_Loss):
    """Mean squared difference of input and target.

    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    Raises: ValueError for another reduction.
    See also: L1Loss, HuberLoss

    Example:
        >>> flambeau.nn.MSELoss()(flambeau.tensor([1.0, 2.0]), flambeau.tensor([0.0, 4.0]))
        tensor(2.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


@described_by("l1_loss")
class L1Loss(_Loss):
    """Mean absolute difference of input and target.

    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    Raises: ValueError for another reduction.
    See also: MSELoss, SmoothL1Loss

    Example:
        >>> flambeau.nn.L1Loss()(flambeau.tensor([1.0, 2.0]), flambeau.tensor([0.0, 4.0]))
        tensor(1.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


@described_by("smooth_l1_loss")
class SmoothL1Loss(_Loss):
    """Loss that is quadratic for differences below `beta`, and linear for others.

    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    Raises: ValueError for another reduction.
    See also: HuberLoss, L1Loss

    Example:
        >>> flambeau.nn.SmoothL1Loss()(flambeau.tensor([0.5, 3.0]), flambeau.zeros(2))
        tensor(1.3125)
    """

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


@described_by("huber_loss")
class HuberLoss(_Loss):
    """Loss that is quadratic for differences up to `delta`, and linear with slope `delta` for others.

    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    Raises: TypeError if `delta` is not a number, ValueError for another reduction.
    See also: SmoothL1Loss, MSELoss

    Example:
        >>> flambeau.nn.HuberLoss(delta=2.0)(flambeau.tensor([0.5, 3.0]), flambeau.zeros(2))
        tensor(2.0625)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, float | int):
            raise TypeError(f"HuberLoss: expected delta to be a number, got {type(delta)}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


@described_by("nll_loss")
class NLLLoss(_WeightedLoss):
    """Negative log probability of the target classes.

    The input holds logarithms of probabilities, as `LogSoftmax` gives them.

    Args:
        weight: the factor of each class, ``(C)``; a buffer. None means 1.
    Shape: ``(N, C, *)`` or ``(C)``, and int64 ``(N, *)`` or ``()``, which the result has with reduction
        "none".
    Raises: ValueError for another reduction.
    See also: CrossEntropyLoss, LogSoftmax

    Example:
        >>> logs = flambeau.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
        >>> flambeau.nn.NLLLoss()(logs, flambeau.tensor([0, 1]))
        tensor(0.4904)
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
    """Deprecated alias of `NLLLoss`, which takes images, too."""


@described_by("cross_entropy")
class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of scores (logits) and target classes or probabilities.

    Args:
        weight: the factor of each class, ``(C)``; a buffer. None means 1.
    Shape: ``(N, C, *)`` or ``(C)``, and int64 ``(N, *)`` or ``()`` or probabilities of the shape of the
        scores; the result has the shape of the classes with reduction "none", else ``()``.
    Raises: ValueError for another reduction.
    See also: NLLLoss, BCEWithLogitsLoss

    Example:
        >>> scores = flambeau.tensor([[2.0, 0.0], [0.0, 0.0]])
        >>> flambeau.nn.CrossEntropyLoss()(scores, flambeau.tensor([0, 1]))
        tensor(0.4100)
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


@described_by("binary_cross_entropy")
class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities and targets in [0, 1].

    Args:
        weight: the factor of each term, which broadcasts to the target; a buffer. None means 1.
    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    Raises: ValueError for another reduction.
    See also: BCEWithLogitsLoss

    Example:
        >>> flambeau.nn.BCELoss()(flambeau.tensor([0.5, 0.8]), flambeau.tensor([0.0, 1.0]))
        tensor(0.4581)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


@described_by("binary_cross_entropy_with_logits")
class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of the logistic function of scores (logits), without overflow.

    Args:
        weight: the factor of each term, which broadcasts to the scores; a buffer. None means 1.
        pos_weight: the factor of terms with positive target, which broadcasts to the scores; a buffer. None
            means 1.
    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    Raises: ValueError for another reduction.
    See also: BCELoss, CrossEntropyLoss

    Example:
        >>> flambeau.nn.BCEWithLogitsLoss()(flambeau.tensor([0.0, 100.0]), flambeau.tensor([0.0, 1.0]))
        tensor(0.3466)
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


@described_by("kl_div")
class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of a distribution from a target distribution.

    The input holds logarithms of probabilities.

    Args:
        reduction: "batchmean" (the sum divided by the first size: the divergence itself), "mean" (over all
            elements, with a warning), "sum" or "none".
        log_target: whether the target holds logarithms, too.
    Shape: ``(*)`` twice; the result has the same shape with reduction "none", else ``()``.
    See also: CrossEntropyLoss

    Example:
        >>> p, q = flambeau.tensor([[0.5, 0.5]]), flambeau.tensor([[0.25, 0.75]])
        >>> flambeau.nn.KLDivLoss(reduction="batchmean")(q.log(), p)
        tensor(0.1438)
    """

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


@described_by("linear_cross_entropy")
class LinearCrossEntropyLoss(Module):
    """Cross entropy of the scores that a linear layer of the loss itself gives.

    Args:
        in_features: the size of the input's last dimension.
        num_classes: the number of classes C.
        out_features: further sizes (d_1, ..., d_K) of the scores.
        bias: whether the linear layer learns a bias.
        weight: the factor of each class, ``(C)``; a buffer. None means 1.
        options: how the batch is shared out in chunks. None takes it as a whole.
    Shape: ``(N, in_features)`` or ``(in_features)``, and int64 ``(N, *out_features)`` or probabilities ``(N,
        C, *out_features)``.
    See also: CrossEntropyLoss

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.LinearCrossEntropyLoss(2, 3)(flambeau.ones(1, 2), flambeau.tensor([0])).shape
        flambeau.Size([])
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
