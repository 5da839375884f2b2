"""Dropout: rates 0 and 1, scaling, which elements share a draw, NaN behind a dropped element, errors."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from side_by_side import refuse_alike, same

F = fb.nn.functional
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "name", "dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d dropout3d".split()
)
def test_rates_zero_and_one_and_evaluation(name):
    x = np.array([NAN, INF, -0.0, 1.0, 2.0, 3.0]).reshape(1, 2, 3, 1, 1)
    x = x[..., 0] if name == "dropout2d" else x[..., 0, 0] if name == "dropout1d" else x
    same(lambda m, a: getattr(m.nn.functional, name)(a, 0.0, True), x, rtol=0)
    same(lambda m, a: getattr(m.nn.functional, name)(a, 0.7, False), x, rtol=0)
    finite = np.nan_to_num(x, posinf=4.0)
    same(lambda m, a: getattr(m.nn.functional, name)(a, 1.0, True), finite, rtol=1e-14)
    for p in (-0.1, 1.1, NAN):
        refuse_alike(lambda m, a, p=p: getattr(m.nn.functional, name)(a, p, True), x)


def test_same_seed_same_elements():
    """Draws are PyTorch's, number for number, in every layout."""

    def program(m, a):
        m.manual_seed(3)
        return [m.nn.functional.dropout(a, 0.4), m.dropout(a, 0.4, True)]

    same(program, np.ones((37, 5)), rtol=1e-15)


def test_kept_elements_are_scaled_and_the_share_is_right():
    fb.manual_seed(0)
    n, p = 200_000, 0.3
    y = F.dropout(fb.ones(n, dtype=fb.float64), p)
    kept = int((y != 0).sum())
    np.testing.assert_allclose(y[y != 0].numpy(), 1 / (1 - p), rtol=1e-15)
    assert abs(kept - n * (1 - p)) < 6 * (n * p * (1 - p)) ** 0.5  # six standard deviations


def test_features_fall_as_wholes():
    fb.manual_seed(0)
    y = F.dropout2d(fb.ones(50, 4, 3, 3), 0.5).reshape(200, 9)
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert bool((y == y[:, :1]).all())


def test_gradient_follows_the_mask():
    fb.manual_seed(0)
    x = fb.randn(100, requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.where(y.detach().numpy() != 0, 2, 0))


def test_native_dropout_gives_its_mask():
    y, mask = fb.native_dropout(fb.ones(64), 0.5, True)
    assert mask.dtype == fb.bool
    np.testing.assert_array_equal(y.numpy(), mask.numpy() * 2.0)
    same(lambda m, a: list(m.native_dropout(a, 0.5, False)), np.ones(3))
    same(lambda m, a: m.nn.functional.dropout(a, 0.5), np.ones((0, 3)))
