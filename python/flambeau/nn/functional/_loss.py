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


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Squared difference; `weight` scales each element."""
    _warn_of_sizes(input, target)
    return _difference_loss(_nn.mse_loss, input, target, named(size_average, reduce, reduction), weight)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Absolute difference; `weight` scales each element."""
    _warn_of_sizes(input, target)
    return _difference_loss(_nn.l1_loss, input, target, named(size_average, reduce, reduction), weight)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Squared difference / (2 beta) below `beta`, absolute difference - beta / 2 above."""
    _warn_of_sizes(input, target)
    reduction = named(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss: expected beta >= 0")
    if beta == 0.0:
        return _difference_loss(_nn.l1_loss, input, target, reduction, None)
    return _difference_loss(_nn.smooth_l1_loss, input, target, reduction, None, beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Half the squared difference below `delta`, linear above; `weight` scales each element."""
    _warn_of_sizes(input, target)
    if not delta > 0:
        raise RuntimeError("huber_loss: expected delta > 0")
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


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log probability (N, C, *) of the target class (N, *)."""
    reduction = named(size_average, reduce, reduction)
    try:
        return _nn.nll_loss_nd(input, target, weight, number_of(reduction), ignore_index)
    except RuntimeError as error:
        raise _said_of_classes(error, input, target, ignore_index) from None


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
    """Cross entropy of scores (N, C, *) and class indices (N, *) or probabilities (N, C, *).

    Args:
        input: unnormalised scores.
        target: the classes, or their probabilities.
        weight: scale of each class.
        size_average: PyTorch's older switch, as `reduce`, for `reduction`.
        ignore_index: this class index counts nothing.
        reduce: see `size_average`.
        reduction: mean, sum or none.
        label_smoothing: share of the target that is spread over all classes, in [0, 1].
    """
    reduction = named(size_average, reduce, reduction)
    try:
        return _nn.cross_entropy_loss(
            input, target, weight, number_of(reduction), ignore_index, label_smoothing
        )
    except RuntimeError as error:
        raise _said_of_classes(error, input, target, ignore_index) from None


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t ln p + (1 - t) ln(1 - p)); logarithms are limited to at least -100."""
    reduction = named(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            "binary_cross_entropy: expected target of the input's size, "
            f"{tuple(input.size())}, got {tuple(target.size())}"
        )
    if weight is not None:
        weight = weight.expand(flambeau.broadcast_shapes(target.size(), weight.size()))
    return _nn.binary_cross_entropy(input, target, weight, number_of(reduction))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of sigmoid(input), without overflow."""
    reduction = named(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            "binary_cross_entropy_with_logits: expected target of the input's size, "
            f"{tuple(input.size())}, got {tuple(target.size())}"
        )
    return flambeau.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number_of(reduction))


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Divergence of log probabilities `input` from `target`; batchmean divides the sum by the batch size."""
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
    """Negative log likelihood of counts whose rate is `input`, or e^input; `full` adds Stirling's term."""
    reduction = named(size_average, reduce, reduction)
    return flambeau.poisson_nll_loss(input, target, log_input, full, eps, number_of(reduction))


def _variances(var: Tensor | float, input: Tensor) -> Tensor:
    """Return `var` as a tensor that broadcasts against `input`."""
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("gaussian_nll_loss: var has negative entry/entries")
        return flambeau.full_like(input, var)
    if bool((var < 0).any()):
        raise ValueError("gaussian_nll_loss: var has negative entry/entries")
    if var.size() == input.size():
        return var
    if input.size()[:-1] == var.size():
        return var.unsqueeze(-1)
    one_per_row = input.size()[:-1] == var.size()[:-1] and var.size(-1) == 1
    squeezable = var.dim() == input.dim() and all(
        v in (1, n) for v, n in zip(var.shape, input.shape, strict=True)
    )
    if not (one_per_row or squeezable):
        raise ValueError("gaussian_nll_loss: var is of incorrect size")
    return var


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of `target` under normal distributions.

    Args:
        input: the means.
        target: the values.
        var: the variances, one number, or a tensor of input's shape or without its last size.
        full: add the constant ln(2 pi) / 2.
        eps: least variance.
        reduction: mean, sum or none.
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


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification (Graves et al. 2006).

    Args:
        log_probs: (T, N, C), or (T, C) without batch.
        targets: (N, S), or all targets in a vector.
        input_lengths: number of times of each sequence, tensor or list.
        target_lengths: length of each target.
        blank: the class that stands for nothing.
        reduction: mean (each loss divided by its target's length first), sum or none.
        zero_infinity: targets that do not fit count 0.
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
