"""Shared code of the families: broadcast parameters, probabilities and log-odds, cached properties.

PyTorch names this module, and libraries import from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.functional import binary_cross_entropy_with_logits, softmax

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def _tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__torch_function__")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Expand numbers and tensors to tensors of one shape.

    Args:
        *values: the numbers, which take the dtype of the first tensor, and the tensors.
    Returns: the tensors.
    Raises: ValueError for a value that is neither a number nor a tensor.

    Example:
        >>> both = flambeau.distributions.utils.broadcast_all(1.0, flambeau.zeros(2))
        >>> [x.tolist() for x in both]
        [[1.0, 1.0], [0.0, 0.0]]
    """
    if not all(_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError(
            "broadcast_all: Input arguments must all be numbers or tensors: expected these, got "
            f"{[type(v).__name__ for v in values]}"
        )
    if not all(_tensor_like(v) for v in values):
        like = next((v for v in values if _tensor_like(v)), None)
        options: dict[str, Any] = {"dtype": flambeau.get_default_dtype()}
        if like is not None:
            options = {"dtype": like.dtype, "device": like.device}
        values = tuple(v if _tensor_like(v) else flambeau.tensor(v, **options) for v in values)
    return tuple(flambeau.broadcast_tensors(*values))


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    """Independent numbers of mean 0 and variance 1."""
    return flambeau.empty(tuple(shape), dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Sum over the last `dim` dimensions."""
    return value.flatten(value.dim() - dim).sum(-1) if dim else value


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Convert scores to probabilities.

    Args:
        logits: the log-odds of single events, or unnormalised logarithms of probabilities.
        is_binary: True computes the sigmoid of log-odds, False softmax over the last dimension.
    Returns: the probabilities, of the shape of `logits`.

    Example:
        >>> flambeau.distributions.utils.logits_to_probs(flambeau.zeros(2))
        tensor([0.5000, 0.5000])
    """
    return flambeau.sigmoid(logits) if is_binary else softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Limit probabilities to [eps, 1 - eps], with the epsilon of the dtype.

    Args:
        probs: the probabilities.
    Returns: the limited probabilities.

    Example:
        >>> bool(flambeau.distributions.utils.clamp_probs(flambeau.tensor(0.0)) > 0)
        True
    """
    eps = flambeau.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Convert probabilities to scores that are finite at 0 and 1.

    Args:
        probs: the probabilities.
        is_binary: True computes log-odds, False logarithms.
    Returns: the scores, of the shape of `probs`.

    Example:
        >>> flambeau.distributions.utils.probs_to_logits(flambeau.tensor(0.5), is_binary=True)
        tensor(0.)
    """
    clamped = clamp_probs(probs)
    return clamped.log() - flambeau.log1p(-clamped) if is_binary else clamped.log()


def _binary_entropy(logits: Tensor, probs: Tensor) -> Tensor:
    """-p log p - (1 - p) log(1 - p)."""
    return binary_cross_entropy_with_logits(logits, probs, reduction="none")


class lazy_property:
    """Property that is computed on first use, with its graph even if gradients are disabled.

    Args:
        wrapped: the method that computes it.

    Example:
        >>> class Square:
        ...     @flambeau.distributions.utils.lazy_property
        ...     def area(self):
        ...         print("computed")
        ...         return 4
        >>> square = Square()
        >>> square.area + square.area
        computed
        8
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with flambeau.enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.__name__] = value
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Collect the elements on and below a diagonal of matrices, row by row.

    Args:
        mat: the matrices, of shape (..., n, n).
        diag: the highest diagonal whose elements are collected.
    Returns: vectors of the elements.
    Raises: ValueError for a diagonal that the matrix does not have.

    Example:
        >>> flambeau.distributions.utils.tril_matrix_to_vec(flambeau.tensor([[1, 0], [2, 3]]))
        tensor([1, 2, 3])
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(
            f"tril_matrix_to_vec: diag ({diag}) provided is outside [{-n}, {n - 1}]: expected a "
            f"diagonal within, got {diag}"
        )
    rows, columns = flambeau.tril_indices(n, n, offset=diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Create lower triangular matrices from vectors of their elements.

    Args:
        vec: the elements on and below the diagonal, row by row.
        diag: the highest diagonal that has elements.
    Returns: the matrices, 0 elsewhere.
    Raises: ValueError for a number of elements that no matrix has.

    Example:
        >>> flambeau.distributions.utils.vec_to_tril_matrix(flambeau.tensor([1.0, 2.0, 3.0]))
        tensor([[1., 0.],
                [2., 3.]])
    """
    count = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if abs(round(n) - n) > flambeau.finfo(vec.dtype).eps:
        raise ValueError(
            f"vec_to_tril_matrix: expected as many elements as some lower triangle has at diag={diag}, "
            f"got {count}"
        )
    size = round(n)
    matrix = vec.new_zeros((*vec.shape[:-1], size, size))
    rows, columns = flambeau.tril_indices(size, size, offset=diag)
    matrix[..., rows, columns] = vec
    return matrix
