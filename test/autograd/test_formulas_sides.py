"""Formulas with several statements: gradients of both orders, forward mode and vmap, as in PyTorch."""

from __future__ import annotations

import math
import warnings

import flambeau
import numpy as np
import pytest
from oracle import pytorch
from side_by_side import agree, assert_close, numbers, plain, refuse_alike


def attention(t, q, k, v):
    """PyTorch's fused attention has no forward mode, so that side is written out."""
    if t is flambeau:
        return t.nn.functional.scaled_dot_product_attention(q, k, v)
    return t.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v


def strictly_lower(t, m):
    return m.tril(-1) + t.eye(m.shape[-1], dtype=m.dtype) * 2


def table(t, weight, **options):
    indices = t.tensor([[0, 2], [2, 1], [0, 0]])
    return t.nn.functional.embedding(indices, weight, **options)


def picked(t, x, **options):
    return t.gather(x, 1, t.tensor([[0, 1], [2, 2], [1, 0]]), **options)


def normalized(t, x, weight, bias):
    return t.nn.functional.layer_norm(x, (4,), weight, bias)


def reduced(how):
    index = [[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 1]]

    def call(t, x, src):
        return t.scatter_reduce(x, 1, t.tensor(index), src, how, include_self=True)

    return call


def squares(z):
    return z.abs() ** 2


def pads(mode, pad):
    return lambda t, x: t.nn.functional.pad(x, pad, mode)


M = (3, 3)
CASES = {
    "attention": (attention, [(2, 3, 4), (2, 5, 4), (2, 5, 2)]),
    "conv2d": (
        lambda t, x, w, b: t.nn.functional.conv2d(x, w, b, 2, 1, 1, 2),
        [(2, 4, 5, 5), (6, 2, 3, 3), (6,)],
    ),
    "conv2d without bias": (lambda t, x, w: t.nn.functional.conv2d(x, w), [(1, 2, 4, 4), (3, 2, 2, 2)]),
    "conv_transpose2d": (
        lambda t, x, w, b: t.nn.functional.conv_transpose2d(x, w, b, 2, 1, 1),
        [(2, 3, 3, 3), (3, 2, 3, 3), (2,)],
    ),
    "embedding": (table, [(4, 3)]),
    "embedding with padding": (lambda t, w: table(t, w, padding_idx=2), [(4, 3)]),
    "embedding by frequency": (lambda t, w: table(t, w, scale_grad_by_freq=True), [(4, 3)]),
    "irfft, even": (lambda t, a, b: t.fft.irfft(t.complex(a, b), n=6), [(2, 4), (2, 4)]),
    "irfft, odd": (lambda t, a, b: t.fft.irfft(t.complex(a, b), n=5, dim=0), [(3, 2), (3, 2)]),
    "gather": (picked, [(3, 3)]),
    "cholesky_solve, lower": (lambda t, b, m: t.cholesky_solve(b, strictly_lower(t, m)), [(3, 2), M]),
    "cholesky_solve, upper": (
        lambda t, b, m: t.cholesky_solve(b, strictly_lower(t, m).mT, upper=True),
        [(3, 2), M],
    ),
    "det": (lambda t, m: t.linalg.det(m), [(2, 3, 3)]),
    "det, complex": (lambda t, a, b: squares(t.linalg.det(t.complex(a, b))), [M, M]),
    "slogdet": (lambda t, m: t.linalg.slogdet(m)[1], [(2, 3, 3)]),
    "slogdet, complex": (lambda t, a, b: t.view_as_real(t.linalg.slogdet(t.complex(a, b))[0]), [M, M]),
    "eig, eigenvalues": (lambda t, m: t.linalg.eig(m)[0].abs().sum(-1), [(2, 3, 3)]),
    "eig, eigenvectors": (lambda t, m: squares(t.linalg.eig(m)[1]), [M]),
    "eigh, eigenvalues": (lambda t, m: t.linalg.eigh(m + m.mT)[0], [(2, 3, 3)]),
    "eigh, eigenvectors": (lambda t, m: t.linalg.eigh(m + m.mT)[1] ** 2, [M]),
    "lu, square": (lambda t, m: t.linalg.lu_factor(m)[0], [(2, 3, 3)]),
    "lu, wide": (lambda t, m: t.linalg.lu_factor(m)[0], [(3, 5)]),
    "lu, tall": (lambda t, m: t.linalg.lu_factor(m)[0], [(5, 3)]),
    "qr, square": (lambda t, m: t.cat(list(t.linalg.qr(m))), [M]),
    "qr, tall": (lambda t, m: t.cat(list(t.linalg.qr(m))), [(5, 3)]),
    "qr, wide": (lambda t, m: t.cat(list(t.linalg.qr(m)), -1), [(3, 5)]),
    "qr, wide, R alone": (lambda t, m: t.linalg.qr(m, mode="complete")[1], [(3, 5)]),
    "qr, Q alone": (lambda t, m: t.linalg.qr(m)[0], [(4, 3)]),
    "solve_triangular, left": (
        lambda t, m, b: t.linalg.solve_triangular(strictly_lower(t, m), b, upper=False),
        [M, (3, 2)],
    ),
    "solve_triangular, right": (
        lambda t, m, b: t.linalg.solve_triangular(
            strictly_lower(t, m).mT, b, upper=True, left=False, unitriangular=True
        ),
        [M, (2, 3)],
    ),
    "svd, singular values": (lambda t, m: t.linalg.svd(m)[1], [(4, 3)]),
    "svd, U": (lambda t, m: t.linalg.svd(m, full_matrices=False)[0] ** 2, [(4, 3)]),
    "svd, Vh": (lambda t, m: t.linalg.svd(m, full_matrices=False)[2] ** 2, [(3, 4)]),
    "svd, complex": (
        lambda t, a, b: squares(t.linalg.svd(t.complex(a, b), full_matrices=False)[0]),
        [(4, 3)] * 2,
    ),
    "layer_norm": (normalized, [(3, 4), (4,), (4,)]),
    "layer_norm without weight": (lambda t, x: t.nn.functional.layer_norm(x, (2, 4)), [(3, 2, 4)]),
    "group_norm": (lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b), [(2, 4, 3), (4,), (4,)]),
    "batch_norm": (
        lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, True),
        [(4, 3, 2), (3,), (3,)],
    ),
    "pad, constant": (pads("constant", (1, -1, 0, 2)), [(2, 3, 4)]),
    "pad, reflect": (pads("reflect", (1, 2, 2, 0)), [(2, 3, 4)]),
    "pad, replicate": (pads("replicate", (1, 2, 0, 3)), [(2, 3, 4)]),
    "logcumsumexp": (lambda t, x: t.logcumsumexp(x, -1), [(2, 5)]),
    "logcumsumexp, complex": (
        lambda t, a, b: t.view_as_real(t.logcumsumexp(t.complex(a, b), 0)),
        [(4, 2), (4, 2)],
    ),
    **{f"scatter_reduce, {how}": (reduced(how), [(3, 4), (3, 4)]) for how in ("amin", "amax", "mean")},
}


def inputs(name, batch=()):
    return [numbers(*batch, *s, seed=i + 1, dtype=np.float64) for i, s in enumerate(CASES[name][1])]


def number_of(t, name):
    """The case as a function to one number, by which no elements of the result cancel."""
    function = CASES[name][0]

    def scalar(*args):
        out = function(t, *args)
        weights = t.arange(1, out.numel() + 1, dtype=out.dtype).reshape(out.shape).cos()
        return (out * weights).sum()

    return scalar


def first_and_second(t, name, *arrays):
    leaves = [t.tensor(a).requires_grad_() for a in arrays]
    first = t.autograd.grad(number_of(t, name)(*leaves), leaves, create_graph=True)
    total = sum((g * t.arange(g.numel(), dtype=g.dtype).reshape(g.shape).sin()).sum() for g in first)
    second = (
        t.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else [None] * len(leaves)
    )
    zeros = [t.zeros_like(x) if g is None else g for g, x in zip(second, leaves, strict=True)]
    return [g.resolve_neg() for g in (*first, *zeros)]


def forward(t, name, *arrays):
    primals = tuple(map(t.tensor, arrays))
    tangents = tuple(p.flip(0) * 0.5 for p in primals)
    return list(t.func.jvp(lambda *args: CASES[name][0](t, *args), primals, tangents))


def over_batches(t, name, *arrays):
    """PyTorch has no batching rule for some of these gradients, so that side is a loop."""
    gradients = t.func.grad(number_of(t, name), argnums=tuple(range(len(arrays))))
    tensors = [t.tensor(a) for a in arrays]
    if t is flambeau:
        return list(t.func.vmap(gradients)(*tensors))
    rows = [gradients(*row) for row in zip(*tensors, strict=True)]
    return [t.stack(column).resolve_neg() for column in zip(*rows, strict=True)]


def alike(program, name, batch=()):
    arrays = inputs(name, batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = plain(program(pytorch(), name, *arrays))
        assert_close(plain(program(flambeau, name, *arrays)), theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_both_orders(name):
    alike(first_and_second, name)


@pytest.mark.parametrize("name", CASES)
def test_forward_mode(name):
    alike(forward, name)


@pytest.mark.parametrize("name", CASES)
def test_gradients_under_vmap(name):
    alike(over_batches, name, (3,))


def sparse_table(t, weight, **options):
    found = t.nn.functional.embedding(t.tensor([[0, 2], [2, 1]]), weight, sparse=True, **options)
    return (found * t.arange(12, dtype=t.float64).reshape(2, 2, 3)).sum()


def sparse_gradient(function):
    def program(t, x):
        x.requires_grad_()
        function(t, x).backward()
        grad = x.grad
        return [grad.is_sparse, grad.coalesce().indices(), grad.coalesce().values(), grad.to_dense()]

    return program


def test_sparse_gradients():
    x = numbers(4, 3, dtype=np.float64)
    agree(sparse_gradient(sparse_table), x)
    agree(sparse_gradient(lambda t, w: sparse_table(t, w, padding_idx=2)), x)
    agree(sparse_gradient(lambda t, x: (picked(t, x, sparse_grad=True) ** 2).sum()), x)


def test_gradients_that_do_not_exist():
    def gradient(function):
        return lambda t, x: function(t, x.requires_grad_()).sum().backward()

    x = numbers(4, 3, dtype=np.float64)
    refuse_alike(gradient(lambda t, w: sparse_table(t, w, scale_grad_by_freq=True)), x)
    refuse_alike(gradient(lambda t, m: t.linalg.qr(m, mode="r")[1]), x)
    refuse_alike(gradient(lambda t, m: t.linalg.qr(m, mode="complete")[1]), x)


def test_tangent_of_a_view_by_strides():
    def program(t, x):
        ranges = [((2, 3), (3, 1), 0), ((3, 2), (1, 2), 1), ((4,), (0,), 5)]
        made = [t.func.jvp(lambda x, r=r: t.as_strided(x, *r), (x,), (x.cos(),)) for r in ranges]
        made.append(t.func.jvp(lambda x: t.as_strided(x.t(), (2, 3), (1, 2)), (x,), (x.cos(),)))
        return [part for pair in made for part in pair]

    agree(program, numbers(4, 3, dtype=np.float64))
