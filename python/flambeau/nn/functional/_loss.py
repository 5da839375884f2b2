"""Losses of classes, values and likelihoods; those of margins and ranks are in `_margin_loss`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._arguments.checks import require_tensors
from flambeau._C import _nn
from flambeau._loading.documentation import described_by
from flambeau.nn.functional._reduction import named, number_of

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]


def _warn_of_sizes(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size {tuple(target.size())} for an input of {tuple(input.size())}: "
            "they broadcast, which is seldom meant",
            stacklevel=3,
        )


def _difference_loss(
    loss: Callable[..., Tensor],
    input: Tensor,
    target: Tensor,
    reduction: str,
    weight: Tensor | None,
    *options: float,
) -> Tensor:
    """Apply an elementwise `loss`; the mean of a weighted one is by weight."""
    input, target = flambeau.broadcast_tensors(input, target)
    if weight is None:
        return loss(input, target, number_of(reduction), *options)
    if weight.size() != input.size():
        raise ValueError(
            f"{loss.__name__}: expected weight of the input's size, {tuple(input.size())}, "
            f"got {tuple(weight.size())}"
        )
    each = loss(input, target, 0, *options) * weight
    if reduction == "mean":
        return each.sum() / weight.sum()
    return each.sum() if number_of(reduction) == 2 else each


@described_by(_nn.mse_loss)
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Compute the mean squared difference of input and target.

    Args:
        target: the values to reach, of the shape of `input`; shapes that broadcast give a warning.
        weight: the factor of each element, of the shape of `input`; the mean divides by its sum. None means
            1.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    Raises: ValueError for another reduction, or a `weight` of another shape.
    See also: nn.MSELoss, l1_loss, huber_loss

    Example:
        >>> flambeau.nn.functional.mse_loss(flambeau.tensor([1.0, 2.0]), flambeau.tensor([0.0, 4.0]))
        tensor(2.5000)
    """
    _warn_of_sizes(input, target)
    return _difference_loss(_nn.mse_loss, input, target, named(size_average, reduce, reduction), weight)


@described_by(_nn.l1_loss)
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Compute the mean absolute difference of input and target.

    Args:
        target: the values to reach, of the shape of `input`; shapes that broadcast give a warning.
        weight: the factor of each element, of the shape of `input`; the mean divides by its sum. None means
            1.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    Gradient: the sign of input - target; 0 where they are equal.
    Raises: ValueError for another reduction, or a `weight` of another shape.
    See also: nn.L1Loss, mse_loss, smooth_l1_loss

    Example:
        >>> flambeau.nn.functional.l1_loss(flambeau.tensor([1.0, 2.0]), flambeau.tensor([0.0, 4.0]))
        tensor(1.5000)
    """
    _warn_of_sizes(input, target)
    return _difference_loss(_nn.l1_loss, input, target, named(size_average, reduce, reduction), weight)


@described_by(_nn.smooth_l1_loss)
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Compute a loss that is quadratic for small differences and linear for others.

    Args:
        target: the values to reach, of the shape of `input`; shapes that broadcast give a warning.
        beta: the difference, 0 or more, at which the loss becomes linear; 0 gives `l1_loss`. Default: 1.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    Raises: RuntimeError if `beta` is negative.
    See also: nn.SmoothL1Loss, huber_loss

    Example:
        >>> flambeau.nn.functional.smooth_l1_loss(flambeau.tensor([0.5, 3.0]), flambeau.zeros(2))
        tensor(1.3125)
    """
    _warn_of_sizes(input, target)
    reduction = named(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: expected beta >= 0, got {beta}")
    if beta == 0.0:
        return _difference_loss(_nn.l1_loss, input, target, reduction, None)
    return _difference_loss(_nn.smooth_l1_loss, input, target, reduction, None, beta)


@described_by(_nn.huber_loss)
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Compute a loss that is quadratic for small differences and linear, with slope `delta`, for others.

    Args:
        target: the values to reach, of the shape of `input`; shapes that broadcast give a warning.
        delta: the difference, above 0, at which the loss becomes linear. Default: 1.
        weight: the factor of each element, of the shape of `input`; the mean divides by its sum. None means
            1.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    Raises: RuntimeError if `delta` is not positive.
    See also: nn.HuberLoss, smooth_l1_loss

    Example:
        >>> flambeau.nn.functional.huber_loss(flambeau.tensor([0.5, 3.0]), flambeau.zeros(2), delta=2.0)
        tensor(2.0625)
    """
    _warn_of_sizes(input, target)
    if not delta > 0:
        raise RuntimeError(f"huber_loss: expected delta > 0, got {delta}")
    return _difference_loss(_nn.huber_loss, input, target, reduction, weight, delta)


def _said_of_classes(error: RuntimeError, input: Tensor, target: Tensor, ignored: int) -> Exception:
    """Return what to raise for a failed look-up: only then are the targets read once more."""
    if "out of bounds" not in str(error):
        return error
    classes = input.shape[min(1, input.dim() - 1)]
    wrong = target[(target != ignored) & ((target < 0) | (target >= classes))]
    if not wrong.numel():
        return error
    return IndexError(f"Target {wrong[0].item()} is out of bounds: there are {classes} classes")


@described_by(_nn.nll_loss_nd)
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the negative log probability of the target classes.

    Args:
        input: the logarithms of probabilities, such as `log_softmax` gives; classes along dimension 1.
        target: the classes, int64 in [0, C).
        weight: the factor of each class, (C). None means 1.
        ignore_index: a target that adds nothing to the sum and does not count in the mean.
    Shape: `input` (N, C, *) or (C), `target` (N, *) or (); the result has the shape of `target` with
        reduction "none", else ().
    Raises: IndexError for a target that is not a class, ValueError for shapes that do not fit.
    """
    reduction = named(size_average, reduce, reduction)
    try:
        return _nn.nll_loss_nd(input, target, weight, number_of(reduction), ignore_index)
    except RuntimeError as error:
        raise _said_of_classes(error, input, target, ignore_index) from None


@described_by(_nn.cross_entropy_loss)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Compute the cross entropy of scores and target classes or probabilities.

    It is `nll_loss` of `log_softmax` of the scores, in one step.

    Args:
        input: the scores (logits), any real numbers; classes along dimension 1.
        target: the classes, int64 in [0, C), or their probabilities, in the shape of `input`.
        weight: the factor of each class, (C). None means 1. The mean divides by the sum of the targets'
            weights.
        ignore_index: a target class that adds nothing to the sum and does not count in the mean.
        label_smoothing: the share of the target's probability that is spread evenly over all classes, in [0,
            1].
    Shape: `input` (N, C, *) or (C); `target` (N, *) or () of classes, or probabilities in the shape of
        `input`; the result has the shape of the classes with reduction "none", else ().
    Raises: IndexError for a target that is not a class, RuntimeError for shapes that do not fit.
    See also: nn.CrossEntropyLoss, nll_loss, linear_cross_entropy
    """
    reduction = named(size_average, reduce, reduction)
    try:
        return _nn.cross_entropy_loss(
            input, target, weight, number_of(reduction), ignore_index, label_smoothing
        )
    except RuntimeError as error:
        raise _said_of_classes(error, input, target, ignore_index) from None


@described_by(_nn.binary_cross_entropy)
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the binary cross entropy of probabilities.

    Args:
        input: the probabilities, in [0, 1].
        target: the probabilities to reach, in [0, 1], of the shape of `input`.
        weight: the factor of each term, which broadcasts to `target`. None means 1.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    Raises: ValueError if the shapes differ.
    See also: nn.BCELoss, binary_cross_entropy_with_logits

    Example:
        >>> p, target = flambeau.tensor([0.5, 0.8]), flambeau.tensor([0.0, 1.0])
        >>> flambeau.nn.functional.binary_cross_entropy(p, target)
        tensor(0.4581)
    """
    reduction = named(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            "binary_cross_entropy: expected target of the input's size, "
            f"{tuple(input.size())}, got {tuple(target.size())}"
        )
    if weight is not None:
        weight = weight.expand(flambeau.broadcast_shapes(target.size(), weight.size()))
    return _nn.binary_cross_entropy(input, target, weight, number_of(reduction))


@described_by(flambeau.binary_cross_entropy_with_logits)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Compute the binary cross entropy of the logistic function of scores, without overflow.

    Args:
        input: the scores (logits), any real numbers.
        target: the probabilities to reach, in [0, 1], of the shape of `input`.
        weight: the factor of each term, which broadcasts to `input`. None means 1.
        pos_weight: the factor of the terms with positive target, which broadcasts to `input`; a value above 1
            raises recall.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    Raises: ValueError if the shapes differ.
    See also: nn.BCEWithLogitsLoss, binary_cross_entropy

    Example:
        >>> scores, target = flambeau.tensor([0.0, 100.0]), flambeau.tensor([0.0, 1.0])
        >>> flambeau.nn.functional.binary_cross_entropy_with_logits(scores, target)
        tensor(0.3466)
    """
    reduction = named(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            "binary_cross_entropy_with_logits: expected target of the input's size, "
            f"{tuple(input.size())}, got {tuple(target.size())}"
        )
    return flambeau.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number_of(reduction))


@described_by(flambeau.kl_div)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Compute the Kullback-Leibler divergence of a distribution from a target distribution.

    Args:
        input: the logarithms of the distribution's probabilities.
        target: the target's probabilities, or their logarithms with `log_target`.
        reduction: "batchmean" (the sum divided by the first size: the divergence itself), "mean" (over all
            elements, with a warning), "sum" or "none".
        log_target: whether `target` holds logarithms.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    See also: nn.KLDivLoss, cross_entropy

    Example:
        >>> p, q = flambeau.tensor([[0.5, 0.5]]), flambeau.tensor([[0.25, 0.75]])
        >>> flambeau.nn.functional.kl_div(q.log(), p, reduction="batchmean")
        tensor(0.1438)
    """
    reduction = named(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "kl_div: reduction 'mean' divides by the number of elements; the divergence of each sample, "
            "averaged, is reduction 'batchmean'",
            stacklevel=2,
        )
    if reduction != "batchmean":
        return flambeau.kl_div(input, target, number_of(reduction), log_target=log_target)
    total = flambeau.kl_div(input, target, 2, log_target=log_target)
    return total / input.size(0) if input.dim() else total


@described_by(flambeau.poisson_nll_loss)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the negative log likelihood of counts with Poisson distributions.

    Args:
        input: the rates, or their logarithms.
        target: the counts.
        log_input: whether `input` holds logarithms of rates.
        full: whether to add Stirling's approximation of ln(target!) for targets above 1.
        eps: added to the rate before its logarithm is taken, without `log_input`.
    Shape: `input` and `target` of one shape, which the result has with reduction "none"; else ().
    See also: nn.PoissonNLLLoss, gaussian_nll_loss

    Example:
        >>> flambeau.nn.functional.poisson_nll_loss(flambeau.tensor([0.0, 1.0]), flambeau.tensor([1.0, 3.0]))
        tensor(0.3591)
    """
    reduction = named(size_average, reduce, reduction)
    return flambeau.poisson_nll_loss(input, target, log_input, full, eps, number_of(reduction))


def _variances(var: Tensor | float, input: Tensor) -> Tensor:
    """Return `var` as a tensor that broadcasts against `input`."""
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError(
                f"gaussian_nll_loss: var has negative entry/entries: expected var >= 0, got {var}"
            )
        return flambeau.full_like(input, var)
    if bool((var < 0).any()):
        raise ValueError(
            "gaussian_nll_loss: var has negative entry/entries: expected var >= 0, got a minimum of "
            f"{var.min().item()}"
        )
    if var.size() == input.size():
        return var
    if input.size()[:-1] == var.size():
        return var.unsqueeze(-1)
    one_per_row = input.size()[:-1] == var.size()[:-1] and var.size(-1) == 1
    squeezable = var.dim() == input.dim() and all(
        v in (1, n) for v, n in zip(var.shape, input.shape, strict=True)
    )
    if not (one_per_row or squeezable):
        raise ValueError(
            "gaussian_nll_loss: var is of incorrect size: expected one that broadcasts with "
            f"{tuple(input.shape)}, got {tuple(var.shape)}"
        )
    return var


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Compute the negative log likelihood of values with normal distributions.

    Formula: result = (ln(max(var, eps)) + (input - target)^2 / max(var, eps)) / 2, plus ln(2 pi) / 2 with
        full
    Args:
        input: the means.
        target: the values.
        var: the variances, not negative: one number, or a tensor of the shape of `input`, without its last
            size, or with 1 in its place.
        full: whether to add the constant ln(2 pi) / 2.
        eps: the least variance. No gradient flows through this limit.
        reduction: "mean" (over all elements), "sum" or "none" (one loss per element).
    Shape: `input` and `target` (N, *); the result has their shape with reduction "none"; else ().
    Raises: ValueError for a negative variance or one of another shape, or another reduction.
    Source: Nix & Weigend 1994, "Estimating the mean and variance of the target probability distribution".
    See also: nn.GaussianNLLLoss, mse_loss

    Example:
        >>> mean, value = flambeau.tensor([0.0, 1.0]), flambeau.tensor([0.0, 2.0])
        >>> flambeau.nn.functional.gaussian_nll_loss(mean, value, flambeau.ones(2))
        tensor(0.2500)
    """
    var = _variances(var, input)
    chosen = number_of(reduction)
    limited = var.clone()
    with flambeau.no_grad():
        limited.clamp_(min=eps)
    loss = 0.5 * (limited.log() + (input - target) ** 2 / limited)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if chosen == 1 else loss.sum() if chosen == 2 else loss


@described_by(flambeau.ctc_loss)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Compute the negative log probability of target sequences under any alignment with the inputs.

    Args:
        log_probs: the logarithms of probabilities, (T, N, C), or (T, C) without batch.
        targets: the labels, (N, S), or those of all samples in one vector.
        input_lengths: the number of steps of each sample, at most T: a tensor or a list.
        target_lengths: the number of labels of each sample.
        blank: the class that stands for no label.
        reduction: "mean" (each loss is first divided by the length of its target), "sum" or "none".
        zero_infinity: whether the infinite losses of targets that do not fit, and their gradients, become 0.
    Shape: the result is (N), or () without batch or with another reduction than "none".
    See also: nn.CTCLoss

    Example:
        >>> probs = flambeau.full((3, 1, 2), 0.5)
        >>> one = flambeau.tensor([1])
        >>> flambeau.nn.functional.ctc_loss(probs.log(), one.reshape(1, 1), 3 * one, one)
        tensor(0.2877)
    """
    require_tensors("ctc_loss", log_probs=log_probs, targets=targets)
    if log_probs.dim() == 2:
        input_lengths, target_lengths = (
            n if isinstance(n, Tensor) else list(n) if isinstance(n, tuple | list) else [n]
            for n in (input_lengths, target_lengths)
        )
    return flambeau.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, number_of(reduction), zero_infinity
    )
