"""Cross entropy of a linear map's scores, whole or in chunks of the batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._loading.documentation import described_by
from flambeau.nn.functional._loss import cross_entropy

__all__ = ["LinearCrossEntropyOptions", "linear_cross_entropy"]

_POLICIES = ("accurate", "balanced", "compact", "auto")
_RATIO = "aspect_ratio:"
_Given = tuple[Tensor, Tensor | None, Tensor | None, int, float]


@dataclass
class LinearCrossEntropyOptions:
    """Choices of `linear_cross_entropy` about how the batch is shared out in chunks.

    Formula: rows = ceil(k * N * in_features / C), k of `chunking_method`
    Args:
        allow_retain_graph: whether backward may run twice; it always may, so this has no effect.
        batch_chunk_size: the rows of a chunk, above 0. None follows `chunking_method`.
        chunking_method: "aspect_ratio:k" makes the scores of a chunk k times as large as the input, "auto"
            means k = 2, None means no chunks.
        acc_policy: "accurate", "balanced", "compact" or "auto". Sums over chunks have the dtype of the scores
            with each of them.
        acc_dtype: a floating dtype or None; it has no effect.
    Raises: ValueError for values that are not among the choices.

    Example:
        >>> flambeau.nn.functional.LinearCrossEntropyOptions(batch_chunk_size=64).batch_chunk_size
        64
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        size, method = self.batch_chunk_size, self.chunking_method
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"LinearCrossEntropyOptions: expected batch_chunk_size > 0 or None, got {size}")
        if method not in (None, "auto") and not (
            method.startswith(_RATIO) and method[len(_RATIO) :].isdigit()
        ):
            raise ValueError(
                f"LinearCrossEntropyOptions: invalid chunking_method: expected None, 'auto' or "
                f"{_RATIO!r} with a number, got {method!r}"
            )
        if self.acc_policy not in _POLICIES:
            raise ValueError(
                f"LinearCrossEntropyOptions: invalid acc_policy: expected one of {sorted(_POLICIES)}, got "
                f"{self.acc_policy!r}"
            )
        if self.acc_dtype is not None and not self.acc_dtype.is_floating_point:
            raise ValueError(
                "linear_cross_entropy: expected acc_dtype to be None or a floating dtype, got "
                f"{self.acc_dtype}"
            )


def _rows(options: Any, batch: int, features: int, classes: int) -> int:
    """The number of rows of a chunk, of `batch` rows in all; any object with the options' fields will do."""
    if options.batch_chunk_size is not None:
        return int(options.batch_chunk_size)
    method = options.chunking_method
    if method is None or classes == 0:
        return batch
    ratio = 2 if method == "auto" else int(method[len(_RATIO) :])
    return max(1, math.ceil(ratio * batch * features / classes))


@described_by(cross_entropy)
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """Compute the cross entropy of the scores that a linear map of the input gives.

    With `options` the batch is taken in chunks, whose scores are computed again in backward instead of being
    kept: the
    scores of all classes are then never in memory at once.

    Formula: result = cross_entropy(input @ linear_weight^T + linear_bias, target)

    Args:
        input: the features, (N, in) or (in).
        linear_weight: the matrix, (C, in), or (C, d_1, ..., d_K, in) for scores (N, C, d_1, ..., d_K).
        target: the classes or probabilities, as for `cross_entropy`.
        linear_bias: the bias, of the shape of `linear_weight` without its last dimension, or (C).
        weight: the factor of each class, (C). None means 1.
        ignore_index: a target class that adds nothing. None means -100.
        options: how to share out the work. None takes the batch as a whole. With options, classes as targets
            and a `linear_weight` of two dimensions, the result has the dtype of `input`, also under autocast.
    Shape: the result has the shape of the classes with reduction "none", else ().
    See also: nn.LinearCrossEntropyLoss, cross_entropy

    Example:
        >>> x, w = flambeau.tensor([[1.0, 0.0]]), flambeau.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> flambeau.nn.functional.linear_cross_entropy(x, w, flambeau.tensor([0]))
        tensor(0.3133)
    """
    _check_linear(input, linear_weight, target, linear_bias, ignore_index)
    ignored = -100 if ignore_index is None else ignore_index
    given = (linear_weight, linear_bias, weight, ignored, label_smoothing)
    if options is None:
        return _loss_of(input, target, *given, reduction)
    loss = _shared_out(input, target, given, reduction, options)
    is_plain = linear_weight.dim() == 2 and not target.is_floating_point()
    return loss.to(input.dtype) if is_plain else loss


def _shared_out(input: Tensor, target: Tensor, given: _Given, reduction: str, options: Any) -> Tensor:
    linear_weight, _, weight, ignored, _ = given
    classes = linear_weight.shape[:-1].numel()
    batch = input.shape[0] if input.dim() == 2 else 1
    # Under function transforms nothing is computed again in backward, and chunks would save nothing.
    whole = _C._transform_depth() > 0
    rows = batch if whole else _rows(options, batch, input.shape[-1], classes)
    if rows >= batch or reduction not in ("mean", "sum", "none"):
        return _loss_of(input, target, *given, reduction)
    parts = list(_chunks(input, target, rows, given, "none" if reduction == "none" else "sum"))
    if reduction == "none":
        return flambeau.cat(parts)
    total = flambeau.stack(parts).sum()
    return total if reduction == "sum" else total / _divisor(target, weight, ignored, linear_weight.shape)


def _chunks(input: Tensor, target: Tensor, rows: int, given: Any, reduction: str) -> Iterator[Tensor]:
    from flambeau.utils.checkpoint import checkpoint  # it needs networks

    for x, y in zip(input.split(rows), target.split(rows), strict=True):
        yield checkpoint(_loss_of, x, y, *given, reduction, use_reentrant=False)


def _loss_of(
    input: Tensor,
    target: Tensor,
    linear_weight: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    ignored: int,
    label_smoothing: float,
    reduction: str,
) -> Tensor:
    out = linear_weight.shape[:-1]
    scores = input @ linear_weight.reshape(-1, linear_weight.shape[-1]).t()
    scores = scores.reshape(*input.shape[:-1], *out)
    if linear_bias is not None:
        shape = [*linear_bias.shape] + [1] * (len(out) - linear_bias.dim())
        scores = scores + linear_bias.reshape(shape)
    smooth: dict[str, Any] = {"label_smoothing": label_smoothing}
    return cross_entropy(scores, target, weight, ignore_index=ignored, reduction=reduction, **smooth)


def _divisor(target: Tensor, weight: Tensor | None, ignored: int, shape: Any) -> Any:
    """What the mean divides by: the weights of what counts, or the number of rows of probabilities."""
    if target.is_floating_point():
        return target.numel() // shape[0]
    counted = target != ignored
    if weight is None:
        return counted.sum()
    return (weight[target.masked_fill(~counted, 0)] * counted).sum()


def _check_linear(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    ignore_index: int | None,
) -> None:
    out = linear_weight.shape[:-1]
    if input.dim() not in (1, 2):
        raise RuntimeError(f"linear_cross_entropy: expected input of 1 or 2 dimensions, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            "linear_cross_entropy: expected linear_weight of at least 2 dimensions, got "
            f"{linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        shapes = f"{tuple(input.shape)} and {tuple(linear_weight.shape)}"
        raise RuntimeError(f"linear_cross_entropy: expected equal in_features, got shapes {shapes}")
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError(
            f"linear_cross_entropy: expected None as ignore_index for probabilities, got {ignore_index}"
        )
    if len(out) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"linear_cross_entropy: expected input of shape (N, {linear_weight.shape[-1]}) for a "
            f"linear_weight of shape {tuple(linear_weight.shape)}, got no batch"
        )
    if linear_bias is not None and tuple(linear_bias.shape) not in (tuple(out), tuple(out[:1])):
        raise RuntimeError(
            f"linear_cross_entropy: expected linear_bias shape {tuple(out)}, got {tuple(linear_bias.shape)}"
        )
    _check_target(input, target, tuple(out))


def _check_target(input: Tensor, target: Tensor, out: tuple[int, ...]) -> None:
    if input.dim() == 2 and target.dim() > 0 and target.shape[0] != input.shape[0]:
        raise ValueError(
            "linear_cross_entropy: expected one target per row of input (equal batch_size), got "
            f"{target.shape[0]} for {input.shape[0]}"
        )
    classes = out if input.dim() == 1 else (input.shape[0], *out)
    indices = out[1:] if input.dim() == 1 else (input.shape[0], *out[1:])
    if tuple(target.shape) != tuple(classes if target.is_floating_point() else indices):
        raise RuntimeError(
            f"linear_cross_entropy: expected target of shape {tuple(indices)} of classes, or "
            f"{tuple(classes)} of probabilities, got {tuple(target.shape)}"
        )
