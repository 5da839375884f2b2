"""Linear algebra that is written in Python over the operators.

In Python because norm and cdist take a number or a name in one argument, lu returns two results or three,
chain_matmul takes any number of arguments, lu and chain_matmul warn, and pca_lowrank and svd_lowrank are
algorithms with a default that depends on other arguments. Calls `linalg_vector_norm`, `linalg_matrix_norm`,
`linalg_lu_factor_ex`, `linalg_qr`, `linalg_svd`, `cdist` and `chain_matmul`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor

__all__ = [
    "cdist",
    "chain_matmul",
    "lu",
    "norm",
    "pca_lowrank",
    "svd_lowrank",
]


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Tensor:
    """Return the norm of order `p` of the elements along `dim` (None: all of them).

    Args:
        input: floating point or complex.
        p: the order; 'fro' and None: 2; 'nuc': the sum of a matrix's singular values.
        dim: one or several dimensions, two for 'nuc'.
        keepdim: whether reduced dimensions stay, with size 1.
        out: where the result goes.
        dtype: what to compute in.
    Raises: RuntimeError for another string.

    >>> from flambeau import tensor
    >>> norm(tensor([3.0, 4.0]))
    tensor(5.)
    """
    dims = [dim] if isinstance(dim, int) else dim
    more: dict[str, Any] = {"dtype": dtype} | ({} if out is None else {"out": out})
    if p == "nuc":
        return _C._linalg.linalg_matrix_norm(
            input, "nuc", (-2, -1) if dims is None else dims, keepdim, **more
        )
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: expected 'fro' or 'nuc' as p, the only valid string values, got {p!r}")
    order = 2 if p is None or p == "fro" else p
    return _C._linalg.linalg_vector_norm(input, order, dims, keepdim, **more)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """Return LU factors packed in one matrix, the pivots and, if asked for, where U has a first zero.

    >>> from flambeau import eye
    >>> lu(eye(2))[1]
    tensor([1, 2], dtype=flambeau.int32)
    """
    warnings.warn("lu is deprecated; call linalg.lu_factor or linalg.lu_factor_ex", UserWarning, stacklevel=2)
    if out is None:
        factors = _C._linalg.linalg_lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    else:
        given = out if get_infos else (*out, A.new_empty(0, dtype=_C.int32))
        factors = _C._linalg.linalg_lu_factor_ex(A, pivot=pivot, check_errors=not get_infos, out=tuple(given))
    return tuple(factors) if get_infos else tuple(factors)[:2]


_DISTANCE_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = _DISTANCE_MODES[0]) -> Tensor:
    """Return the distances of order `p` between the rows of two batches of matrices.

    Args:
        x1: points (*, P, M).
        x2: points (*, R, M).
        p: the order, 0 to infinity.
        compute_mode: one of PyTorch's names; all of them subtract before they square.
    Shape: (*, P, R).
    Raises: ValueError for another mode.

    >>> from flambeau import tensor
    >>> cdist(tensor([[0.0, 0.0]]), tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    if compute_mode not in _DISTANCE_MODES:
        raise ValueError(
            f"cdist: expected compute_mode to be a known mode, got unknown compute_mode {compute_mode!r}"
        )
    return _C._functions.cdist(x1, x2, p, None)


def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """Return the product of matrices, multiplied in the order that costs least.

    >>> from flambeau import ones
    >>> chain_matmul(ones(2, 3), ones(3, 1), ones(1, 2)).shape
    flambeau.Size([2, 2])
    """
    warnings.warn("chain_matmul is deprecated; call linalg.multi_dot", UserWarning, stacklevel=2)
    only = matrices[0] if len(matrices) == 1 else matrices
    given = list(only) if isinstance(only, list | tuple) else [only]
    return _C._functions.chain_matmul(given) if out is None else _C._functions.chain_matmul(given, out=out)


def _basis(A: Tensor, q: int, steps: int) -> Tensor:
    """Orthonormal columns that nearly span the range of A: random products, orthonormalised at each step."""
    start = _C._functions.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = _C._linalg.linalg_qr(A @ start)[0]
    for _ in range(steps):
        Q = _C._linalg.linalg_qr(A.mH @ Q)[0]
        Q = _C._linalg.linalg_qr(A @ Q)[0]
    return Q


def get_approximate_basis(A: Tensor, q: int, niter: int | None = 2, M: Tensor | None = None) -> Tensor:
    """Return orthonormal columns (*, m, q) that nearly span the range of A, or of A - M.

    Args:
        A: matrices (*, m, n).
        q: how many columns.
        niter: steps of subspace iteration.
        M: subtracted first, with broadcasting.
    Source: Halko, Martinsson & Tropp 2011, "Finding structure with randomness", algorithm 4.4.
    """
    return _basis(A if M is None else A - M, q, 2 if niter is None else niter)


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return about the first `q` singular triplets (U, S, V) of A, or of A - M.

    Args:
        A: matrices (*, m, n).
        q: how many triplets; a few more than the rank that is looked for.
        niter: steps of subspace iteration.
        M: subtracted first, with broadcasting.
    Source: Halko, Martinsson & Tropp 2011, "Finding structure with randomness", algorithms 4.4 and 5.1.

    >>> from flambeau import eye
    >>> svd_lowrank(eye(4), q=2)[1].shape
    flambeau.Size([2])
    """
    given = A if M is None else A - M
    wide = given.shape[-2] < given.shape[-1]
    tall = given.mH if wide else given
    Q = _basis(tall, 6 if q is None else q, 2 if niter is None else niter)
    U, S, Vh = _C._linalg.linalg_svd(Q.mH @ tall, full_matrices=False)
    left, right = Q @ U, Vh.mH
    return (right, S, left) if wide else (left, S, right)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Return about the first `q` principal components of the rows of A, as svd_lowrank does.

    Args:
        A: observations by variables (*, m, n).
        q: how many components; None: min(6, m, n).
        center: whether the columns' means are subtracted first.
        niter: steps of subspace iteration.
    Raises: ValueError if q is not between 0 and min(m, n), or niter negative.

    >>> from flambeau import eye
    >>> pca_lowrank(eye(4), q=2)[0].shape
    flambeau.Size([4, 2])
    """
    least = min(A.shape[-2:])
    count = min(6, least) if q is None else q
    if not 0 <= count <= least:
        raise ValueError(f"pca_lowrank: expected q from 0 to {least}, got {count}")
    if niter < 0:
        raise ValueError(f"pca_lowrank: expected niter >= 0, got {niter}")
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, count, niter)
