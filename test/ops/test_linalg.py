"""Linear algebra: what the generated tests cannot know."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest

DTYPES = [fb.float32, fb.float64, fb.complex64, fb.complex128]


def matrix(*shape: int, dtype=fb.float64, seed=0) -> fb.Tensor:
    fb.manual_seed(seed)
    return fb.randn(*shape, dtype=dtype)


def close(a: fb.Tensor, b: fb.Tensor, tolerance: float = 1e-4) -> bool:
    return bool(((a - b).abs() <= tolerance).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 4, 2), (0, 3), (3, 0), (2, 0, 0)])
def test_factors_multiply_to_the_matrix(dtype, shape):
    A = matrix(*shape, dtype=dtype)
    U, S, Vh = fb.linalg.svd(A, full_matrices=False)
    assert close((U * S.to(dtype).unsqueeze(-2)) @ Vh, A)
    Q, R = fb.linalg.qr(A)
    assert close(Q @ R, A)
    P, L, U = fb.linalg.lu(A)
    assert close(P @ L @ U, A)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvectors_solve_the_eigenvalue_problem(dtype):
    A = matrix(2, 5, 5, dtype=dtype)
    values, vectors = fb.linalg.eig(A)
    assert close(A.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2), 1e-3)
    H = A + A.mH
    values, vectors = fb.linalg.eigh(H)
    assert close(H @ vectors, vectors * values.to(dtype).unsqueeze(-2), 1e-3)


def test_lapack_results_lie_by_columns():
    A = matrix(2, 3, 3)
    for result in (fb.linalg.inv(A), fb.linalg.qr(A)[0], fb.linalg.svd(A)[0], fb.linalg.lu_factor(A)[0]):
        assert result.stride() == (9, 1, 3)


@pytest.mark.parametrize("n", [513, 700])
def test_large_systems_use_every_thread_and_agree(n):
    A, b = matrix(n, n) + n * fb.eye(n, dtype=fb.float64), matrix(n, 3, seed=1)
    assert close(A @ fb.linalg.solve(A, b), b, 1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 12, 13, 20])
def test_small_matrices_have_loops_of_their_own(dtype, n):
    A, b = matrix(3, n, n, dtype=dtype), matrix(3, n, 2, dtype=dtype, seed=1)
    definite = A @ A.mH + n * fb.eye(n, dtype=dtype)
    for upper in (False, True):
        factor = fb.linalg.cholesky(definite, upper=upper)
        assert close(factor.mH @ factor if upper else factor @ factor.mH, definite, 1e-3)
        assert close(definite @ fb.cholesky_solve(b, factor, upper), b, 1e-3)
        for triangular in (definite, definite.mT):
            part = triangular.triu() if upper else triangular.tril()
            assert close(part @ fb.linalg.solve_triangular(triangular, b, upper=upper), b, 1e-3)
    factors = fb.linalg.lu_factor(definite)
    assert close(definite @ fb.linalg.inv(definite), fb.eye(n, dtype=dtype).expand(3, n, n), 1e-3)
    for adjoint in (False, True):
        x = fb.linalg.lu_solve(*factors, b, adjoint=adjoint)
        assert close((definite.mH if adjoint else definite) @ x, b, 1e-3)
    P, L, U = fb.linalg.lu(A)
    assert close(P @ L @ U, A) and bool((L.abs() <= 2**0.5 + 1e-6).all())


def test_errors_are_of_their_own_type_and_name_the_matrix():
    assert issubclass(fb.linalg.LinAlgError, RuntimeError)
    batch = fb.stack([fb.eye(2), fb.zeros(2, 2)])
    with pytest.raises(fb.linalg.LinAlgError, match=r"\(Batch element 1\).*singular"):
        fb.linalg.inv(batch)
    with pytest.raises(fb.linalg.LinAlgError, match=r"\(Batch element 1\).*not positive-definite"):
        fb.linalg.cholesky(batch)
    with pytest.raises(fb.linalg.LinAlgError, match="singular"):
        fb.linalg.solve(fb.zeros(2, 2), fb.ones(2))
    with pytest.raises(fb.linalg.LinAlgError, match="non-finite"):
        fb.linalg.svd(fb.full((2, 2), float("nan")))
    info = fb.linalg.inv_ex(batch).info
    assert info.tolist() == [0, 1] and info.dtype == fb.int32


def test_half_precision_and_integers_are_refused():
    for dtype, words in ((fb.float16, "Low precision"), (fb.int64, "float32, float64 or complex")):
        with pytest.raises(RuntimeError, match=words):
            fb.linalg.inv(fb.ones(2, 2, dtype=dtype))


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_gradient_of_the_determinant_of_singular_matrices(rank):
    left, right = matrix(4, rank), matrix(rank, 4, seed=1)
    A = (left @ right).requires_grad_()
    (gradient,) = fb.autograd.grad(fb.linalg.det(A), A, create_graph=True)
    values = A.detach().numpy()
    minors = [[np.linalg.det(np.delete(np.delete(values, i, 0), j, 1)) for j in range(4)] for i in range(4)]
    signs = (-1.0) ** np.add.outer(np.arange(4), np.arange(4))
    np.testing.assert_allclose(gradient.detach().numpy(), signs * minors, atol=1e-9)
    direction = matrix(4, 4, seed=2)
    (second,) = fb.autograd.grad((gradient * direction).sum(), A)
    step = 1e-5

    def along(shift: float) -> np.ndarray:
        moved = (A.detach() + shift * direction).requires_grad_()
        return fb.autograd.grad(fb.linalg.det(moved), moved)[0].numpy()

    np.testing.assert_allclose(second.numpy(), (along(step) - along(-step)) / (2 * step), atol=1e-6)


def test_lstsq_knows_its_drivers_in_every_form():
    for call in (fb._C._functions._lstsq, lambda a, b, rcond, driver: fb.linalg.lstsq(a, b, driver=driver)):
        with pytest.raises(RuntimeError, match="gels, gelsd, gelss or gelsy as driver, got amin"):
            call(fb.eye(2), fb.eye(2), 0.1, "amin")


def test_lstsq_by_every_driver():
    A, b = matrix(6, 3), matrix(6, 2, seed=1)
    expected = np.linalg.lstsq(A.numpy(), b.numpy(), rcond=None)
    for driver in ("gels", "gelsy", "gelsd", "gelss"):
        found = fb.linalg.lstsq(A, b, driver=driver)
        np.testing.assert_allclose(found.solution.numpy(), expected[0], atol=1e-10)
        if driver != "gelsy":
            np.testing.assert_allclose(found.residuals.numpy(), expected[1], atol=1e-10)
        if driver != "gels":
            assert found.rank.item() == 3
    with pytest.raises(RuntimeError, match="expected gels, gelsd, gelss or gelsy as driver, got other"):
        fb.linalg.lstsq(A, b, driver="other")


def test_matrix_exp_of_large_norms_and_nan():
    A = fb.tensor([[0.0, 50.0], [-50.0, 0.0]], dtype=fb.float64)
    expected = [[np.cos(50), np.sin(50)], [-np.sin(50), np.cos(50)]]
    np.testing.assert_allclose(fb.linalg.matrix_exp(A).numpy(), expected, atol=1e-12)
    assert fb.linalg.matrix_exp(fb.full((2, 2), float("nan"))).isnan().all()


def test_qr_says_when_it_has_no_gradient():
    A = matrix(3, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete'"):
        fb.linalg.qr(A, mode="complete").R.sum().backward()
    with pytest.raises(RuntimeError, match="mode='r'"):
        fb.linalg.qr(A, mode="r").R.sum().backward()


def test_norms_by_name():
    A = matrix(3, 4)
    assert fb.norm(A).item() == pytest.approx(np.linalg.norm(A.numpy()))
    assert A.norm("nuc").item() == pytest.approx(np.linalg.norm(A.numpy(), "nuc"))
    with pytest.raises(RuntimeError, match="only valid string values"):
        fb.norm(A, "other")


def test_low_rank_approximations_find_the_largest_singular_values():
    A = matrix(30, 4) @ matrix(4, 20, seed=1)
    U, S, V = fb.svd_lowrank(A, q=6)
    assert close((U * S) @ V.mH, A, 1e-8)
    assert fb.pca_lowrank(A, q=3)[1].shape == (3,)
    with pytest.raises(ValueError, match="expected q from 0 to 20, got 40"):
        fb.pca_lowrank(A, q=40)


def test_broadcasting_batches_of_systems():
    A, b = matrix(3, 1, 4, 4), matrix(2, 4, 2, seed=1)
    x = fb.linalg.solve(A, b)
    assert x.shape == (3, 2, 4, 2) and close(A @ x, b.expand(3, 2, 4, 2), 1e-9)
    y = fb.linalg.solve_triangular(A.triu(), b, upper=True)
    assert close(A.triu() @ y, b.expand(3, 2, 4, 2), 1e-8)
    factors = fb.linalg.lu_factor(A)
    assert close(fb.linalg.lu_solve(*factors, b), x, 1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("n", range(1, 11))
def test_inverses_of_small_matrices(n, dtype):
    rng = np.random.default_rng(n)
    a = (
        rng.normal(size=(50, n, n)) + (1j * rng.normal(size=(50, n, n)) if dtype == np.complex128 else 0)
    ).astype(dtype)
    a[0] = np.eye(n)[::-1]  # every pivot below the diagonal
    for given in (fb.from_numpy(a), fb.from_numpy(a).mT.contiguous().mT):
        got = fb.linalg.inv(given).numpy()
        bound = (
            20
            * n
            * np.finfo(np.float64).eps
            * np.linalg.norm(a, axis=(1, 2))
            * np.linalg.norm(got, axis=(1, 2))
        )
        assert (np.abs(a @ got - np.eye(n)).max((1, 2)) <= bound).all()
    a[3, :, -1] = 0
    assert fb.linalg.inv_ex(fb.from_numpy(a)).info.nonzero().tolist() == [[3]]


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, float("inf")])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (9, 33, 5), (3, 49, 130), (8, 7, 0)])
def test_distances_of_any_number_of_rows(p, m, n, k):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, m, k)), rng.normal(size=(2, n, k))
    pairs = np.abs(a[:, :, None] - b[:, None])
    powers = (pairs != 0) if p == 0 else pairs**p
    want = pairs.max(-1, initial=0) if p == np.inf else powers.sum(-1) ** (1 / p if p else 1)
    np.testing.assert_allclose(fb.cdist(fb.from_numpy(a), fb.from_numpy(b), p).numpy(), want, rtol=1e-14)
    near = fb.from_numpy((a[:, :1] * 1e4).astype(np.float32))
    assert not fb.cdist(near, near, p).any()  # equal points, whatever their size
    if k:
        a[0, 0, 0] = np.nan
        got = fb.cdist(fb.from_numpy(a), fb.from_numpy(b), p)
        assert fb.isnan(got).sum() == n


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances_and_their_gradients(p):
    a, b = matrix(2, 5, 3), matrix(2, 4, 3, seed=1)
    pairs = np.abs(a.numpy()[:, :, None] - b.numpy()[:, None])
    np.testing.assert_allclose(
        fb.cdist(a, b, p).numpy(), np.linalg.norm(pairs, p, axis=-1) if p != 0.5 else (pairs**p).sum(-1) ** 2
    )
    if p:
        assert fb.autograd.gradcheck(lambda x, y: fb.cdist(x, y, p), (a.requires_grad_(), b.requires_grad_()))


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.complex64, fb.complex128], ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("sizes", [(64, 64), (63, 80), (130, 65), (65, 200), (600, 530)], ids=str)
def test_qr_in_blocks_of_reflectors(sizes, mode, dtype):
    fb.manual_seed(0)
    a = fb.randn(*sizes, dtype=dtype)
    q, r = fb.linalg.qr(a, mode)
    # LAPACK's choice of reflectors makes the factors unique.
    want = np.linalg.qr(a.numpy(), mode)
    tolerance = 3e-4 if dtype in (fb.float32, fb.complex64) else 1e-11
    np.testing.assert_allclose(r.numpy(), want if mode == "r" else want[1], atol=tolerance)
    assert fb.equal(r, r.triu())
    if mode != "r":
        np.testing.assert_allclose((q @ r).numpy(), a.numpy(), atol=tolerance)
        np.testing.assert_allclose(q.numpy(), want[0], atol=tolerance)


@pytest.mark.parametrize("differentiated", ["self", "tau", "other"])
def test_ormqr_refuses_the_same_shapes_with_gradients(differentiated):
    """Reflectors that are applied one after the other would take a tau of any shape."""
    given = {"self": fb.ones(5, 30), "tau": fb.ones(5, 30), "other": fb.ones(5, 30)}
    given[differentiated].requires_grad_()
    with pytest.raises(RuntimeError, match="ormqr: expected a side of other as long as tau"):
        fb.ormqr(*given.values())
