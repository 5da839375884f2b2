"""Functions of tensors of layout sparse_coo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._C import _functions
from flambeau._defaults import sparse_types
from flambeau._lazy import attributes

__all__ = ["addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "softmax", "sum"]


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    r"""Product of a sparse matrix with a strided or a sparse one.

    .. math:: y_{ij} = \sum_p a_{ip} b_{pj}

    The gradient of `input` is sparse with the entries of `input`; that of a strided `mat2` is strided.

    Args:
        input: sparse matrix (n, k).
        mat2: matrix (k, m).
    """
    if input.is_sparse and not mat2.is_sparse and mat2.is_floating_point():
        return _functions._sparse_mm(input, mat2)
    return _functions.mm(input, mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Return ``beta * mat + alpha * (mat1 @ mat2)`` with a sparse `mat1`.

    Args:
        mat: strided matrix (n, m), or what broadcasts to it.
        mat1: sparse matrix (n, k).
        mat2: strided matrix (k, m).
        beta: scale of `mat`; 0 ignores it.
        alpha: scale of the product.
    """
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return (mat if beta == 1 else mat * beta) + product


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """Sum of elements, along `dim` or of all.

    Args:
        input: sparse tensor.
        dim: dimensions to sum; None: all, and the result is strided.
        dtype: of the result; None: that of `input`.
    Returns: a sparse tensor of the sparse dimensions that are left, a strided one if there is none.
    """
    if dtype is not None:
        input = input.to(dtype)
    dtype = input.dtype
    if dim is None:
        return input.coalesce().values().sum(dtype=dtype)
    lead = input.sparse_dim()
    dims = {_wrapped(d, input.dim()) for d in ([dim] if isinstance(dim, int) else dim)}
    dense = [d - lead + 1 for d in dims if d >= lead]
    entries = input.coalesce()
    values = entries.values()
    if dense:
        values = values.sum(dense, dtype=dtype)
    kept = [d for d in range(lead) if d not in dims]
    if not kept:
        return values.sum(0, dtype=dtype)
    sizes = [n for d, n in enumerate(input.shape) if d not in dims]
    indices = entries.indices()[flambeau.tensor(kept)]
    return flambeau.sparse_coo_tensor(indices, values, sizes).coalesce()


def _wrapped(dim: int, ndim: int) -> int:
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range: expected [{-ndim}, {ndim - 1}], got {dim}")
    return dim % ndim


def _groups(entries: Tensor, dim: int) -> tuple[Tensor, int]:
    """For each entry the number of its fiber along `dim`, and how many fibers there are."""
    others = [d for d in range(entries.sparse_dim()) if d != dim]
    indices = entries.indices()
    if not others:
        return flambeau.zeros(indices.shape[1], dtype=flambeau.int64), 1
    found, group = flambeau.unique(indices[flambeau.tensor(others)], dim=1, return_inverse=True)
    return group, found.shape[1]


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Log-softmax along `dim` over the entries: what is absent counts as minus infinity.

    Args:
        input: sparse tensor of a floating dtype.
        dim: dimension to normalise.
        dtype: cast to this first.
    """
    entries = (input if dtype is None else input.to(dtype)).coalesce()
    dim = _wrapped(dim, entries.dim())
    values = entries.values()
    if dim >= entries.sparse_dim():
        result = values.log_softmax(dim - entries.sparse_dim() + 1)
    else:
        group, count = _groups(entries, dim)
        sizes = (count, *values.shape[1:])
        place = group.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
        low = flambeau.full(sizes, -float("inf"), dtype=values.dtype)
        top = low.scatter_reduce(0, place, values.detach(), "amax").index_select(0, group)
        shifted = values - top.masked_fill(top.isinf(), 0)
        total = flambeau.zeros(sizes, dtype=values.dtype).index_add(0, group, shifted.exp())
        result = shifted - total.log().index_select(0, group)
    return flambeau.sparse_coo_tensor(entries.indices(), result, entries.shape, is_coalesced=True)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along `dim` over the entries: what is absent counts as minus infinity, and stays 0.

    Args:
        input: sparse tensor of a floating dtype.
        dim: dimension to normalise.
        dtype: cast to this first.
    """
    logarithms = log_softmax(input, dim, dtype=dtype)
    values = logarithms.values().exp()
    return flambeau.sparse_coo_tensor(logarithms.indices(), values, logarithms.shape, is_coalesced=True)


class check_sparse_tensor_invariants:
    """Context that PyTorch has for optional checks of indices; they are always made here."""

    def __init__(self, enable: bool = True) -> None:
        self._enabled = enable

    @staticmethod
    def is_enabled() -> bool:
        """Whether indices are checked: always."""
        return True

    @staticmethod
    def enable() -> None:
        """Leave the checks on."""

    @staticmethod
    def disable() -> None:
        """Leave the checks on: an index out of range would reach memory."""

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...

    def __call__(self, function: Any) -> Any:
        """Return the function itself."""
        return function


globals().update(sparse_types())  # FloatTensor and its like

__getattr__, __dir__ = attributes(__name__)
