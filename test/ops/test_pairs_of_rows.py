"""pdist: every order and number of rows, special numbers, layouts, derivatives of every kind."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from side_by_side import numbers, same

NAN, INF = float("nan"), float("inf")
ORDERS = [0.0, 0.5, 1.0, 2.0, 3.0, INF]


def by_definition(x, p):
    """In double precision, in the order of pairs i < j."""
    x = x.astype(np.float64)
    i, j = np.triu_indices(len(x), 1)
    gaps = np.abs(x[i] - x[j])
    if p == 0:
        return (gaps != 0).sum(-1).astype(np.float64)
    if x.shape[1] == 0:
        return np.zeros(len(i))
    return gaps.max(-1) if p == INF else (gaps**p).sum(-1) ** (1 / p)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_number_of_rows(p, dtype):
    """Bound: (64 + k / 64) eps relative, that of the kernel; powers and roots add a few eps."""
    for n, k in [(n, 5) for n in range(70)] + [(97, 1), (50, 64), (33, 65), (18, 300), (5, 0), (131, 3)]:
        x = numbers(n, k, dtype=dtype) if n * k else np.zeros((n, k), dtype)
        if n > 2 and k:
            x[n - 1] = x[0]
        found = fb.pdist(fb.from_numpy(x), p)
        assert found.shape == (n * (n - 1) // 2,) and found.dtype == fb.from_numpy(x).dtype
        np.testing.assert_allclose(found, by_definition(x, p), rtol=(64 + k / 64) * np.finfo(dtype).eps)


@pytest.mark.parametrize("p", ORDERS)
def test_pairs_are_those_of_the_matrix(p):
    """Rows that two threads share, and the same bits as cdist where tiles have the same sums."""
    for n, k in ((2, 3), (301, 40), (302, 7)):
        x = fb.from_numpy(numbers(n, k))
        i, j = fb.triu_indices(n, n, 1)
        for threads in (1, 2):
            before = fb.get_num_threads()
            fb.set_num_threads(threads)
            try:
                found, matrix = fb.pdist(x, p), fb.cdist(x, x, p)
            finally:
                fb.set_num_threads(before)
            assert found.equal(matrix[i, j])


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64], ids=str)
def test_nan_infinite_and_huge_numbers(p, dtype):
    huge = fb.finfo(dtype).max
    x = fb.tensor([[NAN, 1.0], [INF, 0.0], [-INF, 0.0], [1.0, 1.0], [huge, -0.0], [1.0, 1.0]], dtype=dtype)
    found = fb.pdist(x, p)
    assert found[:5].isnan().all() and not found[5:].isnan().any()
    inf_apart, equal_rows = found[5], found[13]
    assert inf_apart == (1 if p == 0 else INF) and equal_rows == 0
    assert fb.pdist(fb.stack([x[1], x[1]]), p).isnan().all()  # the difference of infinities


def test_largest_difference_of_either_sign():
    x = fb.tensor([[0.0, 0.0, -0.0], [3.0, -5.0, 0.0], [-7.0, 2.0, 1e-45]])
    assert fb.pdist(x, INF).tolist() == [5.0, 7.0, 10.0]
    assert fb.cdist(x, x, INF)[0].tolist() == [0.0, 5.0, 7.0]


def test_layouts_and_half_types():
    x = numbers(9, 12)
    for cut in (lambda t: t.t(), lambda t: t[::2, 1::3], lambda t: t[:1].expand(9, 12)):
        same(lambda m, t, cut=cut: [m.pdist(cut(t), p) for p in (1.0, 2.0, INF)], x, rtol=1e-5, atol=1e-6)
    half = fb.from_numpy(x).bfloat16()
    found = fb.pdist(half)
    assert found.dtype == fb.bfloat16
    np.testing.assert_allclose(found.float(), by_definition(half.float().numpy(), 2.0), rtol=2.0**-8)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, INF])
def test_gradients_as_in_pytorch(p):
    points = np.concatenate([numbers(7, 3, dtype=np.float64), np.zeros((2, 3))])

    def program(m, a):
        a.requires_grad_()
        out = m.pdist(a, p)
        weights = m.arange(1, out.numel() + 1, dtype=m.float64)
        return [out, m.autograd.grad((out * weights).sum(), a)[0]]

    same(program, points, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_derivatives_of_every_kind(p):
    def pairs(t):
        return fb.pdist(t, p)

    x = fb.from_numpy(numbers(5, 3, dtype=np.float64))
    leaf = x.clone().requires_grad_()
    assert fb.autograd.gradcheck(pairs, (leaf,), check_forward_ad=True)
    assert fb.autograd.gradgradcheck(pairs, (leaf,))
    batch = fb.stack([x, x.sin()])
    each = fb.stack([pairs(t) for t in batch])
    assert fb.allclose(fb.func.vmap(pairs)(batch), each)
    gradient = fb.func.grad(lambda t: (pairs(t) ** 2).sum())
    assert fb.allclose(fb.func.vmap(gradient)(batch), fb.stack([gradient(t) for t in batch]))
    jacobian = fb.func.jacrev(pairs)(x)
    assert jacobian.shape == (10, 5, 3) and fb.allclose(jacobian, fb.func.jacfwd(pairs)(x))


def test_gradient_of_no_pairs():
    x = fb.ones(1, 3, requires_grad=True)
    fb.pdist(x).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0, 0.0]]
    empty = fb.ones(0, 3, requires_grad=True)
    fb.pdist(empty).sum().backward()
    assert empty.grad.shape == (0, 3)


def test_more_pairs_than_numbers_count_are_refused():
    for device in ("cpu", "meta"):
        rows = fb.ones(1, 0, device=device).expand(2**32 + 1, 0)
        with pytest.raises(RuntimeError, match="integer overflow in 4294967297"):
            fb.nn.functional.pdist(rows)
