"""Jacobians, Hessians and products with them."""

import flambeau as fb
import pytest
from flambeau.autograd import functional as F


def value(*values):
    return fb.tensor(list(values), dtype=fb.float64)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian(strategy):
    x = value(1, 2)
    assert F.jacobian(lambda t: t * t, x, strategy=strategy).tolist() == [[2, 0], [0, 4]]
    j = F.jacobian(lambda a, b: (a * b, a.sum()), (x, value(3, 4)), strategy=strategy)
    assert [[m.tolist() for m in row] for row in j] == [
        [[[3, 0], [0, 4]], [[1, 0], [0, 2]]],
        [[1, 1], [0, 0]],
    ]


def test_jacobian_shapes():
    x = fb.zeros(2, 3, dtype=fb.float64)
    assert F.jacobian(lambda t: t.sum(0), x).shape == (3, 2, 3)
    assert F.jacobian(lambda t: t.sum(), x).shape == (2, 3)


def test_jacobian_can_be_differentiated():
    x = value(1, 2).requires_grad_()
    j = F.jacobian(lambda t: t * t * t, x, create_graph=True)
    j.sum().backward()
    assert x.grad.tolist() == [6, 12]
    assert not F.jacobian(lambda t: t * t, x).requires_grad


def test_strict():
    with pytest.raises(RuntimeError, match="utput 0 .*is independent of input 1"):
        F.jacobian(lambda a, b: a * 2, (value(1), value(1)), strict=True)
    with pytest.raises(RuntimeError, match="utput 0 .*does not require gradients"):
        F.jacobian(lambda a: fb.ones(1), value(1), strict=True)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_hessian(strategy):
    h = F.hessian(lambda t: (t * t * t).sum(), value(1, 2), outer_jacobian_strategy=strategy)
    assert h.tolist() == [[6, 0], [0, 12]]
    h = F.hessian(lambda a, b: (a * b).sum(), (value(1), value(2)), outer_jacobian_strategy=strategy)
    assert [[m.item() for m in row] for row in h] == [[0, 1], [1, 0]]


def test_hessian_needs_a_scalar_function():
    with pytest.raises(RuntimeError, match="a single element"):
        F.hessian(lambda t: t * 2, value(1, 2))


def test_products():
    x, v = value(1, 2), value(10, 100)
    out, product = F.vjp(lambda t: t * t, x, v)
    assert (out.tolist(), product.tolist()) == ([1, 4], [20, 400])
    out, product = F.jvp(lambda t: t * t, x, v)
    assert (out.tolist(), product.tolist()) == ([1, 4], [20, 400])
    out, product = F.vhp(lambda t: (t * t * t).sum(), x, v)
    assert (out.item(), product.tolist()) == (9, [60, 1200])
    out, product = F.hvp(lambda t: (t * t * t).sum(), x, v)
    assert (out.item(), product.tolist()) == (9, [60, 1200])


def test_products_of_tuples():
    a, b = value(1, 2), value(3, 4)
    out, products = F.vjp(lambda p, q: (p * q).sum(), (a, b))
    assert out.item() == 11
    assert [p.tolist() for p in products] == [[3, 4], [1, 2]]


def test_vectors_are_checked():
    with pytest.raises(RuntimeError, match="v "):
        F.vjp(lambda t: t * 2, value(1, 2))
    with pytest.raises(RuntimeError, match="v has invalid size"):
        F.vjp(lambda t: t * 2, value(1, 2), value(1))
    with pytest.raises(RuntimeError, match="v"):
        F.jvp(lambda t: t * 2, value(1, 2), (value(1, 2), value(1, 2)))
    with pytest.raises(TypeError, match="expected a Tensor or several in a tuple"):
        F.jacobian(lambda t: t * 2, 3)
