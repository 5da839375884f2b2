"""Cells of recurrent networks at saturation and special values, with their gradients, as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from side_by_side import numbers, refuse_alike, same

CELLS = {"lstm_cell": 4, "gru_cell": 3, "rnn_tanh_cell": 1, "rnn_relu_cell": 1}
SIZE, HIDDEN = 3, 2


def arrays(gates):
    shapes = [(5, SIZE), (5, HIDDEN), (gates * HIDDEN, SIZE), (gates * HIDDEN, HIDDEN)]
    shapes += [(gates * HIDDEN,)] * 2
    return [numbers(*s, seed=i, dtype=np.float64) for i, s in enumerate(shapes)]


def step(m, name, x, h, *weights):
    state = (h, h * 0.5) if name == "lstm_cell" else h
    out = getattr(m, name)(x, state, *weights)
    return list(out) if isinstance(out, tuple) else [out]


@pytest.mark.parametrize("name", CELLS)
def test_values_and_gradients(name):
    """Bound: 1e-13 relative in float64."""

    def program(m, *tensors):
        leaves = [t.requires_grad_() for t in tensors]
        out = step(m, name, *leaves)
        return [*out, *m.autograd.grad(sum((o * o).sum() for o in out), leaves)]

    same(program, *arrays(CELLS[name]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", CELLS)
def test_saturation_and_nan(name):
    x, *rest = arrays(CELLS[name])
    x[0], x[1], x[2, 0] = 1e300, -1e4, np.nan
    same(lambda m, *t: step(m, name, *t), x, *rest, rtol=1e-13)


@pytest.mark.parametrize("name", CELLS)
def test_no_samples_and_wrong_sizes(name):
    x, h, *weights = arrays(CELLS[name])
    same(lambda m, *t: step(m, name, *t), x[:0], h[:0], *weights)
    refuse_alike(lambda m, *t: step(m, name, *t), x[:, :2].copy(), h, *weights)
    refuse_alike(lambda m, *t: step(m, name, *t), x, h[:, :1].copy(), *weights)
