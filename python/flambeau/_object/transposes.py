"""Errors and warnings of the attributes T, mT, H and mH."""

from __future__ import annotations

import warnings

from flambeau._C import Tensor


def warn_of_transpose(name: str, dim: int) -> None:
    """Say that a transposed view of something else than matrices is deprecated."""
    means = {
        ("T", True): "permute(*range(x.ndim - 1, -1, -1)) reverses the dimensions",
        ("T", False): "it is the tensor itself",
        ("mT", False): "it is the tensor itself",
    }.get((name, dim > 0), "use x.conj()")
    warnings.warn(
        f"Tensor.{name} is deprecated on tensors of {dim} dimensions; {means}",
        UserWarning,
        stacklevel=4 if dim == 0 and name != "T" else 3,
    )


def alone(name: str, tensor: Tensor) -> Tensor:
    """A tensor without dimensions, whose transpose is deprecated."""
    warn_of_transpose(name, 0)
    return tensor


def matrices(name: str, tensor: Tensor) -> Tensor:
    """The tensor, if it holds matrices."""
    if tensor.dim() == 1:
        raise RuntimeError(
            f"Tensor.{name}: tensor.{name} is only supported on matrices: expected 2 dimensions or "
            "more, got 1"
        )
    return tensor
