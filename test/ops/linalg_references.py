"""Linear algebra of the references: LAPACK through SciPy, matrix by matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg


def _per_matrix(function: Any, *arrays: np.ndarray, ranks: tuple[int, ...]) -> Any:
    """`function` of the matrices (or vectors: rank 1) of batches of one shape, stacked."""
    batch = np.broadcast_shapes(*(a.shape[: a.ndim - r] for a, r in zip(arrays, ranks, strict=True)))
    wide = [
        np.broadcast_to(a, batch + a.shape[a.ndim - r :]).reshape(-1, *a.shape[a.ndim - r :])
        for a, r in zip(arrays, ranks, strict=True)
    ]
    rows = [function(*parts) for parts in zip(*wide, strict=True)]
    if not isinstance(rows[0], tuple):
        return np.stack(rows).reshape(batch + rows[0].shape)
    return tuple(np.stack(column).reshape(batch + column[0].shape) for column in zip(*rows, strict=True))


def lu_factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Packed LU factors, and row exchanges from 1."""
    packed, pivots = _per_matrix(scipy.linalg.lu_factor, a, ranks=(2,))
    return packed, (pivots + 1).astype(np.int32)


def lu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, L and U."""
    return _per_matrix(scipy.linalg.lu, a, ranks=(2,))


def lu_unpack(packed: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, L and U of one packed matrix."""
    rows, columns = packed.shape
    size = min(rows, columns)
    order = list(range(rows))
    for i, other in enumerate(pivots):
        order[i], order[other - 1] = order[other - 1], order[i]
    permutation = np.eye(rows, dtype=packed.dtype)[:, np.argsort(order)].T
    lower = np.tril(packed[:, :size], -1) + np.eye(rows, size, dtype=packed.dtype)
    return permutation.T, lower, np.triu(packed[:size])


def lu_solve(packed: np.ndarray, pivots: np.ndarray, b: np.ndarray) -> np.ndarray:
    """X with P L U X = b."""
    return _per_matrix(
        lambda f, p, x: scipy.linalg.lu_solve((f, p - 1), x), packed, pivots, b, ranks=(2, 1, 2)
    )


def ldl_factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Packed factors of sytrf, lower triangle, and its pivots."""

    def factor(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sytrf = scipy.linalg.lapack.get_lapack_funcs("sytrf", (matrix,))
        packed, pivots, _ = sytrf(matrix, lower=1)
        return np.tril(packed), pivots.astype(np.int32)

    return _per_matrix(factor, a, ranks=(2,))


def ldl_solve(packed: np.ndarray, b: np.ndarray) -> np.ndarray:
    """X with L D L^T X = b, without exchanges and blocks of two."""
    lower = np.tril(packed, -1) + np.eye(packed.shape[-1])
    return np.linalg.solve(lower @ np.diag(np.diag(packed)) @ lower.T, b)


def householder_product(vectors: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The first columns of a product of reflectors."""
    return _per_matrix(lambda v, t: _reflected(v, t)[:, : v.shape[1]], vectors, tau, ranks=(2, 1))


def _reflected(vectors: np.ndarray, tau: np.ndarray) -> np.ndarray:
    rows = vectors.shape[0]
    product = np.eye(rows, dtype=vectors.dtype)
    for i, scale in enumerate(tau):
        v = np.concatenate([np.zeros(i), [1], vectors[i + 1 :, i]])
        product = product @ (np.eye(rows) - scale * np.outer(v, v.conj()))
    return product


def ormqr(vectors: np.ndarray, tau: np.ndarray, c: np.ndarray, left: bool, transpose: bool) -> np.ndarray:
    """Q C, Q^H C, C Q or C Q^H."""
    q = _reflected(vectors, tau)
    q = q.conj().T if transpose else q
    return q @ c if left else c @ q


def matrix_exp(a: np.ndarray) -> np.ndarray:
    """exp(a) of square matrices."""
    return _per_matrix(scipy.linalg.expm, a, ranks=(2,))


def lstsq(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Least squares by NumPy."""
    return _per_matrix(lambda x, y: np.linalg.lstsq(x, y, rcond=None)[0], a, b, ranks=(2, 2))


def solve(a: np.ndarray, b: np.ndarray, left: bool) -> np.ndarray:
    """X with A X = B, or X A = B."""
    if left:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
