"""The functions behind the layers: operators of the `nn` namespace, and the few that take options first.

Every operator whose record says ``namespace: nn`` is here under its own name; those of the top
level that belong with the layers are repeated. The functions defined below translate arguments
(``reduction="mean"``, ``inplace=True``, ``training``) and leave the computing to operators.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._C import _nn

conv1d = flambeau.conv1d
conv2d = flambeau.conv2d
conv3d = flambeau.conv3d
sigmoid = flambeau.sigmoid
tanh = flambeau.tanh
prelu = flambeau.prelu
hardshrink = flambeau.hardshrink

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(name: str) -> int:
    if name not in _REDUCTIONS:
        raise ValueError(f"{name} is not a valid value for reduction")
    return _REDUCTIONS[name]


def _with_inplace(operator: Callable[..., Tensor], inplace: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `operator` with a last option ``inplace`` that chooses the in-place form."""

    @functools.wraps(operator, assigned=("__name__", "__doc__"))
    def function(input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        return (in_place_form if inplace else operator)(input, *args, **kwargs)

    in_place_form = inplace
    return function


def _publish_operators() -> None:
    """Offer every operator of the namespace; pair those that have an in-place form."""
    for name in dir(_nn):
        if name.startswith("_") or name in globals():
            continue
        if name.endswith("_") and hasattr(_nn, name[:-1]):
            globals()[name] = getattr(_nn, name)
        elif hasattr(_nn, f"{name}_"):
            globals()[name] = _with_inplace(getattr(_nn, name), getattr(_nn, f"{name}_"))
        else:
            globals()[name] = getattr(_nn, name)
    for name in ("relu", "selu", "celu", "threshold"):
        globals()[name] = _with_inplace(getattr(flambeau, name), getattr(flambeau, f"{name}_"))


_publish_operators()


def logsigmoid(input: Tensor) -> Tensor:
    """Logarithm of the logistic function: -ln(1 + e^-x)."""
    return _nn.log_sigmoid(input)


def _dim_of(input: Tensor, dim: int | None, name: str) -> int:
    """Return `dim`, or PyTorch's old default with its warning."""
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if input.dim() in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax along `dim`: e^x / sum e^x; `dtype` casts first."""
    return flambeau.softmax(input, _dim_of(input, dim, "softmax"), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax of -x along `dim`."""
    return flambeau.softmax(-input, _dim_of(input, dim, "softmin"), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Logarithm of softmax along `dim`, without overflow."""
    return flambeau.log_softmax(input, _dim_of(input, dim, "log_softmax"), dtype=dtype)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training set elements to 0 with probability `p` and scale the others by 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return flambeau.dropout_(input, p, training) if inplace else flambeau.dropout(input, p, training)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Look up rows of `weight`; rows longer than `max_norm` are first shortened in place."""
    if padding_idx is None:
        padding_idx = -1
    elif not -weight.size(0) <= padding_idx < weight.size(0):
        raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        padding_idx += weight.size(0)
    if max_norm is not None:
        with flambeau.no_grad():
            rows = input.reshape(-1).unique()
            norms = weight[rows].norm(norm_type, 1, True)
            weight[rows] = weight[rows] * (max_norm / (norms + 1e-7)).clamp(max=1.0)
    return flambeau.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Integers (*) to rows (*, num_classes) with a single 1; -1: the largest integer + 1 classes."""
    return _nn.one_hot(tensor, num_classes)


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
    if training and input.numel() == input.size(1):
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.size()}"
        )
    return flambeau.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise the trailing dimensions to mean 0 and variance 1, scale and shift."""
    return flambeau.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise groups of channels of each sample, scale and shift each channel."""
    return flambeau.group_norm(input, num_groups, weight, bias, eps)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divide by the norm of order `p` along `dim`, at least `eps`."""
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1^T W_k x2 + b_k for each output k; weight (out, in1, in2)."""
    result = flambeau.einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias


def _max_pool(dims: int) -> Callable[..., Any]:
    plain = getattr(flambeau, f"max_pool{dims}d")
    with_indices = getattr(flambeau, f"max_pool{dims}d_with_indices", None) or getattr(
        _nn, f"max_pool{dims}d_with_indices"
    )

    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        stride = () if stride is None else stride
        chosen = with_indices if return_indices else plain
        return chosen(input, kernel_size, stride, padding, dilation, ceil_mode)

    pool.__name__ = f"max_pool{dims}d"
    pool.__doc__ = f"Largest element of each window over the last {dims} dimensions; see nn.MaxPool{dims}d."
    return pool


max_pool1d = _max_pool(1)
max_pool2d = _max_pool(2)
max_pool3d = _max_pool(3)


# --- losses -----------------------------------------------------------------------------------


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Squared difference, reduced; `weight` scales each element (the mean is then by weight)."""
    return _difference_loss(_nn.mse_loss, input, target, reduction, weight)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Absolute difference, reduced; `weight` scales each element (the mean is then by weight)."""
    return _difference_loss(_nn.l1_loss, input, target, reduction, weight)


def _difference_loss(
    loss: Callable[..., Tensor],
    input: Tensor,
    target: Tensor,
    reduction: str,
    weight: Tensor | None,
) -> Tensor:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
            "This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
    if weight is None:
        return loss(*flambeau.broadcast_tensors(input, target), _reduction(reduction))
    each = loss(*flambeau.broadcast_tensors(input, target), 0) * weight
    if reduction == "mean":
        return each.sum() / weight.expand_as(each).sum()
    return each.sum() if _reduction(reduction) == 2 else each


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Squared difference / (2 beta) below `beta`, absolute difference - beta / 2 above."""
    return _nn.smooth_l1_loss(input, target, _reduction(reduction), beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half the squared difference below `delta`, linear above."""
    return _nn.huber_loss(input, target, _reduction(reduction), delta)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Negative log probability (N, C, *) of the target class (N, *)."""
    return _nn.nll_loss_nd(input, target, weight, _reduction(reduction), ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of scores (N, C, *) and class indices (N, *) or probabilities (N, C, *)."""
    return _nn.cross_entropy_loss(input, target, weight, _reduction(reduction), ignore_index, label_smoothing)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-(t ln p + (1 - t) ln(1 - p)); logarithms are limited to at least -100."""
    return _nn.binary_cross_entropy(input, target, weight, _reduction(reduction))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of sigmoid(input), without overflow."""
    return flambeau.binary_cross_entropy_with_logits(input, target, weight, pos_weight, _reduction(reduction))


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Divergence of log probabilities `input` from `target`; batchmean divides the sum by the batch size."""
    if reduction == "batchmean":
        return flambeau.kl_div(input, target, 2, log_target=log_target) / input.size(0)
    return flambeau.kl_div(input, target, _reduction(reduction), log_target=log_target)
