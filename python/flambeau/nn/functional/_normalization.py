"""Normalisation of batches, layers, groups, instances and neighbourhoods."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import described_by

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
            f"batch_norm: expected more than 1 value per channel when training, got input size {size}"
        )


def _check_both(name: str, running_mean: Tensor | None, running_var: Tensor | None) -> None:
    if (running_mean is None) != (running_var is None):
        raise ValueError(f"{name}: expected both running_mean and running_var, or neither, got one of them")


@described_by(flambeau.batch_norm)
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
    """Normalize each channel by the batch's statistics or the running ones, then scale and shift it.

    Args:
        running_mean: the running mean of each channel, (C). In training it is updated in place. None means
            that there is none.
        running_var: the running variance of each channel, (C); as `running_mean`.
        weight: the factor of each channel, (C). None means 1.
        bias: what is added to each channel, (C). None means 0.
        training: whether to use the batch's mean and biased variance, and to update the running ones.
        momentum: the weight of the batch in the update: running = (1 - momentum) running + momentum batch,
            with the unbiased variance.
        eps: added to the variance, so that constant channels give 0; positive in training.
    Raises: ValueError for a bad `eps`, one running tensor without the other, or 1 value per channel in
        training; RuntimeError without running tensors outside training.
    See also: nn.BatchNorm2d, instance_norm, group_norm

    Example:
        >>> x = flambeau.tensor([[1.0], [3.0]])
        >>> flambeau.nn.functional.batch_norm(x, None, None, training=True)
        tensor([[-1.0000],
                [ 1.0000]])
    """
    if eps < 0.0 or (training and eps == 0.0):
        wanted = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm: eps must be {wanted}: expected such a value, but got {eps}")
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError("batch_norm: running_mean and running_var must be defined in evaluation mode")
    _check_both("batch_norm", running_mean, running_var)
    if training:
        _check_values_per_channel(input.size())
    return flambeau.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@described_by(flambeau.instance_norm)
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
    """Normalize each channel of each sample by its own statistics or the running ones, then scale and shift
    it.

    Args:
        running_mean: the running mean of each channel, (C), updated in place with `use_input_stats`. None
            means that there is none.
        running_var: the running variance of each channel, (C); as `running_mean`.
        weight: the factor of each channel, (C). None means 1.
        bias: what is added to each channel, (C). None means 0.
        use_input_stats: whether to use each sample's mean and biased variance instead of the running ones.
        momentum: the weight of the batch's mean statistics in the update of the running ones.
        eps: added to the variance.
    Raises: ValueError for one running tensor without the other, or 1 spatial element with `use_input_stats`.
    See also: nn.InstanceNorm2d, batch_norm, group_norm

    Example:
        >>> flambeau.nn.functional.instance_norm(flambeau.tensor([[[1.0, 3.0], [5.0, 9.0]]]))
        tensor([[[-1.0000,  1.0000],
                 [-1.0000,  1.0000]]])
    """
    _check_both("instance_norm", running_mean, running_var)
    if use_input_stats:
        spatial = 1
        for n in input.size()[2:]:
            spatial *= n
        if spatial == 1:
            raise ValueError(
                "instance_norm: expected more than 1 spatial element when training, got input of size "
                f"{input.size()}"
            )
    return flambeau.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


@described_by(flambeau.layer_norm)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize the trailing dimensions to mean 0 and variance 1, then scale and shift them.

    Args:
        weight: the factors, of shape `normalized_shape`. None means 1.
        bias: what is added, of shape `normalized_shape`. None means 0.
        eps: added to the biased variance.
    See also: nn.LayerNorm, rms_norm, group_norm

    Example:
        >>> flambeau.nn.functional.layer_norm(flambeau.tensor([[1.0, 3.0], [4.0, 4.0]]), (2,))
        tensor([[-1.0000,  1.0000],
                [ 0.0000,  0.0000]])
    """
    return flambeau.layer_norm(input, normalized_shape, weight, bias, eps)


@described_by(flambeau.rms_norm)
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide the trailing dimensions by their root mean square, then scale them.

    Args:
        weight: the factors, of shape `normalized_shape`. None means 1.
        eps: added to the mean square. None means the epsilon of the dtype.
    See also: nn.RMSNorm, layer_norm

    Example:
        >>> flambeau.nn.functional.rms_norm(flambeau.tensor([[3.0, 4.0]]), (2,))
        tensor([[0.8485, 1.1314]])
    """
    return flambeau.rms_norm(input, normalized_shape, weight, eps)


@described_by(flambeau.group_norm)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize groups of channels of each sample, then scale and shift each channel.

    Args:
        num_groups: the number of groups, a divisor of C.
        weight: the factor of each channel, (C). None means 1.
        bias: what is added to each channel, (C). None means 0.
        eps: added to the biased variance.
    Raises: RuntimeError for fewer than 2 dimensions, ValueError for 1 value per group.
    See also: nn.GroupNorm, layer_norm, instance_norm

    Example:
        >>> flambeau.nn.functional.group_norm(flambeau.tensor([[1.0, 3.0, 5.0, 5.0]]), 2)
        tensor([[-1.0000,  1.0000,  0.0000,  0.0000]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"group_norm: expected input of at least 2 dimensions, got {input.dim()}")
    size = input.size()
    _check_values_per_channel([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return flambeau.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide each element by a power of the mean square over neighbouring channels.

    Formula: result = input / (k + alpha * mean over `size` neighbouring channels of input^2)^beta
    Args:
        input: (N, C, *), of 3 or more dimensions.
        size: the number of neighbouring channels, above 0; channels outside count as 0.
        alpha: the factor of the mean square.
        beta: the exponent.
        k: what is added to the mean square.
    Shape: The result has the shape of `input`.
    Raises: ValueError for fewer than 3 dimensions, RuntimeError if `size` is not positive.
    Source: Krizhevsky, Sutskever & Hinton 2012, "ImageNet Classification with Deep Convolutional Neural
        Networks", section 3.3.
    See also: nn.LocalResponseNorm

    Example:
        >>> flambeau.nn.functional.local_response_norm(flambeau.ones(1, 3, 1), size=3, alpha=3.0, beta=1.0)
        tensor([[[0.3333],
                 [0.2500],
                 [0.3333]]])
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
    """Divide vectors along a dimension by their norms.

    Formula: result = input / max(|input|_p, eps), the norm along dim
    Args:
        input: the vectors.
        p: the order of the norm.
        dim: the dimension of the vectors.
        eps: the least norm, so that a zero vector stays 0.
        out: where the result is written. None makes a new tensor.
    Shape: The result has the shape of `input`.
    See also: rms_norm, flambeau.linalg.vector_norm

    Example:
        >>> flambeau.nn.functional.normalize(flambeau.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else flambeau.div(input, norm, out=out)
