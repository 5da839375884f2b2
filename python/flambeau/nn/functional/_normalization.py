"""Normalisation of batches, layers, groups, instances and neighbourhoods."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau
from flambeau import Tensor

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]


def _check_values_per_channel(size: Sequence[int]) -> None:
    count = size[0]
    for n in size[2:]:
        count *= n
    if count == 1:
        raise ValueError(
            f"batch_norm: training needs more than 1 value per channel, got an input of size {size}"
        )


def _check_both(name: str, running_mean: Tensor | None, running_var: Tensor | None) -> None:
    if (running_mean is None) != (running_var is None):
        raise ValueError(f"{name}: expected both running_mean and running_var, or neither")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel by the batch's (training) or the running statistics, scale and shift."""
    if eps < 0.0 or (training and eps == 0.0):
        wanted = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm: eps must be {wanted}, but got {eps}")
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError("batch_norm: running_mean and running_var must be defined in evaluation mode")
    _check_both("batch_norm", running_mean, running_var)
    if training:
        _check_values_per_channel(input.size())
    return flambeau.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample by its own or the running statistics, scale and shift."""
    _check_both("instance_norm", running_mean, running_var)
    if use_input_stats:
        spatial = 1
        for n in input.size()[2:]:
            spatial *= n
        if spatial == 1:
            raise ValueError(
                f"instance_norm: training needs several spatial elements, got input of size {input.size()}"
            )
    return flambeau.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise the trailing dimensions to mean 0 and variance 1, scale and shift."""
    return flambeau.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide the trailing dimensions by their root mean square, scale."""
    return flambeau.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise groups of channels of each sample, scale and shift each channel."""
    if input.dim() < 2:
        raise RuntimeError(f"group_norm: expected input of at least 2 dimensions, got {input.dim()}")
    size = input.size()
    _check_values_per_channel([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return flambeau.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide by (k + alpha * mean of squares over `size` neighbouring channels)^beta.

    Source: Krizhevsky et al. 2012.
    """
    if input.dim() < 3:
        raise ValueError(f"local_response_norm: expected input of at least 3 dimensions, got {input.dim()}")
    if input.numel() == 0:
        return input
    if size <= 0:
        raise RuntimeError(f"local_response_norm: expected a size greater than zero, got {size}")
    around = [0, 0] * (input.dim() - 2) + [size // 2, (size - 1) // 2]
    windows = flambeau.constant_pad_nd(input * input, around).unfold(1, size, 1)
    whole = None if input.is_floating_point() else "trunc"
    mean = flambeau.div(windows.sum(-1), size, rounding_mode=whole)
    return input / (mean * alpha + k).pow(beta)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divide by the norm of order `p` along `dim`, at least `eps`."""
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else flambeau.div(input, norm, out=out)
