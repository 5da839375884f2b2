"""Extreme eigenpairs of large symmetric problems by LOBPCG.

In Python because it iterates until the residuals, which are data, are small. Calls `linalg_eigh`,
`linalg_cholesky`, `linalg_solve_triangular` and `linalg_vector_norm`.
"""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._types.limits import finfo

__all__ = ["lobpcg"]

_STEPS = 1000


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """Return `k` extreme eigenvalues of A x = E B x, and their eigenvectors as columns.

    Locally optimal block preconditioned conjugate gradients: each step solves the problem within the span of
    the iterates, the preconditioned residuals and the previous step. Where A requires a gradient the dense
    problem is solved instead, whose eigenvectors have one.

    Args:
        A: symmetric matrices (*, m, m).
        k: how many eigenpairs; None: as many as X has columns, or 1.
        B: symmetric positive-definite matrices; None: the identity.
        X: first guess (*, m, n); None: random.
        n: how many columns to iterate, at least `k`.
        iK: preconditioner, about the inverse of A.
        niter: most steps, 1000 by default; negative: until converged.
        tol: bound of the residuals relative to |A| + |E| |B|; None: the root of the dtype's epsilon.
        largest: False for the smallest eigenvalues.
        method: accepted and ignored, as all that follow.
        tracker: ignored.
        ortho_iparams: ignored.
        ortho_fparams: ignored.
        ortho_bparams: ignored.
    Raises: ValueError if m is smaller than three times `n`.
    Source: Knyazev 2001, "Toward the Optimal Preconditioned Eigensolver"; Duersch et al. 2018.

    >>> from flambeau import arange, diag
    >>> round(lobpcg(diag(arange(1.0, 10.0)), k=1)[0].item(), 3)
    9.0
    """
    size = A.shape[-1]
    count = k if k is not None else X.shape[-1] if X is not None else 1
    width = max(count, n if n is not None else X.shape[-1] if X is not None else count)
    if size < 3 * width:
        raise ValueError(f"lobpcg: expected {3 * width} rows or more for {width} eigenpairs, got {size}")
    top = largest is None or largest
    if A.requires_grad or (B is not None and B.requires_grad):
        return _dense(A, B, count, top)
    bound = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    steps = _STEPS if niter is None else niter if niter >= 0 else 10**9
    start = X if X is not None else _C._functions.randn(*A.shape[:-1], width, dtype=A.dtype, device=A.device)
    if A.dim() == 2:
        return _iterate(A, B, start, iK, count, steps, bound, top)
    flat = [None if t is None else t.reshape(-1, *t.shape[-2:]) for t in (A, B, start, iK)]
    found = []
    for i in range(A.shape[:-2].numel()):
        one: Any = (None if t is None else t[i] for t in flat)
        a, b, x, inverse = one
        found.append(_iterate(a, b, x, inverse, count, steps, bound, top))
    values, vectors = (_C._functions.stack([pair[i] for pair in found]) for i in (0, 1))
    return values.reshape(*A.shape[:-2], count), vectors.reshape(*A.shape[:-1], count)


def _chosen(values: Tensor, vectors: Tensor, count: int, top: bool) -> tuple[Tensor, Tensor]:
    """The extreme ones of ascending eigenvalues, the most extreme first."""
    if top:
        return values[..., -count:].flip(-1), vectors[..., -count:].flip(-1)
    return values[..., :count], vectors[..., :count]


def _dense(A: Tensor, B: Tensor | None, count: int, top: bool) -> tuple[Tensor, Tensor]:
    """Compute all eigenpairs of L^-1 A L^-H for B = L L^H, and return some of them."""
    if B is None:
        values, vectors = _C._linalg.linalg_eigh(A)
        return _chosen(values, vectors, count, top)
    L = _C._linalg.linalg_cholesky(B)
    half = _C._linalg.linalg_solve_triangular(L, A, upper=False)
    values, vectors = _C._linalg.linalg_eigh(
        _C._linalg.linalg_solve_triangular(L.mH, half, upper=True, left=False)
    )
    return _chosen(values, _C._linalg.linalg_solve_triangular(L.mH, vectors, upper=True), count, top)


def _orthonormal(S: Tensor, B: Tensor | None) -> Tensor:
    """A basis of the columns' span with S^H B S = 1; directions that are lost in rounding are left out."""
    scale = _C._linalg.linalg_vector_norm(S, 2, 0, True)
    S = S / scale.clamp_min(1e-300 if S.dtype == _C.float64 else 1e-37)
    values, vectors = _C._linalg.linalg_eigh(S.mH @ (S if B is None else B @ S))
    kept = values > values[-1] * (S.shape[-1] * (1e-15 if S.dtype == _C.float64 else 1e-6))
    return S @ (vectors[:, kept] / values[kept].sqrt())


def _iterate(
    A: Tensor,
    B: Tensor | None,
    X: Tensor,
    iK: Tensor | None,
    count: int,
    steps: int,
    bound: float,
    top: bool,
) -> tuple[Tensor, Tensor]:
    norm = _C._linalg.linalg_vector_norm
    size_a, size_b = norm(A), 1.0 if B is None else norm(B)
    width = X.shape[-1]
    directions: list[Tensor] = []
    basis = _orthonormal(X, B)
    values = X.new_empty(0)
    for _ in range(max(steps, 1)):
        values, within = _C._linalg.linalg_eigh(basis.mH @ (A @ basis))
        values, within = _chosen(values, within, width, top)
        previous, X = X, basis @ within
        residual = A @ X - (X if B is None else B @ X) * values
        error = norm(residual, 2, 0) / (norm(X, 2, 0) * (size_a + values.abs() * size_b))
        if bool((error[:count] < bound).all()):
            break
        if previous.shape == X.shape:
            overlap = X.mH @ (previous if B is None else B @ previous)
            directions = [previous - X @ overlap]
        basis = _orthonormal(
            _C._functions.cat([X, residual if iK is None else iK @ residual, *directions], 1), B
        )
    return values[:count], X[:, :count]
