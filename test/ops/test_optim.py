"""Fused steps of optimizers: special gradients, empty and strided parameters, as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from side_by_side import same

KINDS = {"SGD": {"momentum": 0.9}, "Adam": {}, "AdamW": {}, "Adagrad": {}}
P = np.array([[1.0, -2.0, 0.0], [1e20, 1e-20, 3.0]])
G = np.array([[0.5, 0.0, -0.0], [1e10, -1e-10, np.nan]])


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_steps(kind, maximize):
    """Bound: 4 eps relative to the step, of three steps: 1e-14."""

    def program(m, p, g):
        parts = [p.clone().t(), p[:, :0].clone(), p[0, 0].clone()]
        leaves = [x.requires_grad_() for x in parts]
        make = getattr(m.optim, kind)
        optimizer = make(leaves, lr=0.1, weight_decay=0.01, maximize=maximize, fused=True, **KINDS[kind])
        for _ in range(3):
            for leaf, grad in zip(leaves, (g.t(), g[:, :0], g[0, 0]), strict=True):
                leaf.grad = grad.clone()
            optimizer.step()
        return leaves

    same(program, P, G, rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("founds", [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_scales_that_a_scaler_leaves(kind, founds):
    """Gradients are divided by `grad_scale`; a step whose gradients are infinite is none. Bound: 1e-14."""
    # A first step that is skipped leaves PyTorch's momentum uninitialised.
    options = {} if founds[0] else KINDS[kind]

    def program(m, p, g):
        leaf = p.clone().requires_grad_()
        optimizer = getattr(m.optim, kind)([leaf], lr=0.1, fused=True, **options)
        seen = []
        for found in founds:
            leaf.grad = g * 4
            optimizer.grad_scale = m.tensor(4.0)
            optimizer.found_inf = m.tensor(found)
            optimizer.step()
            seen += [leaf.detach().clone(), optimizer.state[leaf].get("step", m.tensor(0.0)).clone()]
        return [*seen, leaf.grad] if founds == (0.0, 0.0) else seen

    same(program, P, np.nan_to_num(G), rtol=1e-13)
