"""Distances: every order, equal and infinite points, empty sides, gradients at zero distance."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
import scipy.spatial.distance as sd
from side_by_side import numbers, refuse_alike, same

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, INF])
def test_cdist_against_the_definition(p):
    """Bound: (64 + k / 64) eps relative, that of the kernel."""
    for k in (1, 7, 300):
        x, y = numbers(5, k, dtype=np.float64), numbers(6, k, seed=1, dtype=np.float64)
        y[2] = x[1]
        gaps = np.abs(x[:, None] - y[None])
        want = (gaps != 0).sum(-1) if p == 0 else gaps.max(-1) if p == INF else (gaps**p).sum(-1) ** (1 / p)
        found = fb.cdist(fb.from_numpy(x), fb.from_numpy(y), p).numpy()
        np.testing.assert_allclose(found, want, rtol=(64 + k / 64) * 2.0**-52)


def test_pdist_against_scipy():
    x = numbers(9, 4, dtype=np.float64)
    for p in (1.0, 2.0, 3.5):
        np.testing.assert_allclose(
            fb.pdist(fb.from_numpy(x), p).numpy(), sd.pdist(x, "minkowski", p=p), rtol=1e-14
        )


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, INF])
def test_special_points_and_gradients(p):
    points = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, -1.0], [3.0, 3.0]])

    def program(m, a):
        a.requires_grad_()
        out = m.cdist(a, a.detach(), p, compute_mode="donot_use_mm_for_euclid_dist")
        return [out, m.autograd.grad(out.sum(), a)[0]]

    same(program, points, rtol=1e-13)
    if p in (0.0, INF):
        return  # PyTorch drops NaN from the largest, and does not count it as a difference
    special = np.array([[NAN, 1.0], [INF, 0.0], [-INF, 0.0], [1.0, 1.0]])
    same(lambda m, a: m.cdist(a, a, p, compute_mode="donot_use_mm_for_euclid_dist"), special, rtol=1e-14)


def test_empty_sides_batches_and_strides():
    x = numbers(2, 3, 4, dtype=np.float64)
    same(
        lambda m, a: [m.cdist(a[:, :0], a), m.cdist(a[..., :0], a[..., :0]), m.cdist(a[:1], a)], x, rtol=1e-13
    )
    same(lambda m, a: m.cdist(a.transpose(1, 2), a.transpose(1, 2)[:, ::2]), x, rtol=1e-12, atol=1e-12)
    same(lambda m, a: [m.pdist(a[0, :1]), m.pdist(a[0, :0])], x)
    refuse_alike(lambda m, a: m.cdist(a, a[..., :2]), x)
    refuse_alike(lambda m, a: m.cdist(a, a, -1.0), x)


def test_similarities_at_zero_and_in_the_extreme():
    zero = np.array([[0.0, 0.0], [1e-200, 0.0], [1e200, 1e200], [NAN, 1.0], [3.0, 4.0]])
    same(lambda m, a: m.nn.functional.cosine_similarity(a[:1], a[4:], dim=1), zero)
    same(lambda m, a: m.cosine_similarity(a[3:], a[4:], dim=-1), zero, rtol=1e-14)
    same(
        lambda m, a: m.nn.functional.pairwise_distance(a, a.flip(0), keepdim=True),
        zero[3:].copy(),
        rtol=1e-13,
    )
