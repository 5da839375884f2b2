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


def cell_arguments(m, name, **changed):
    """The arguments of a cell for two samples, some replaced."""
    rows = CELLS[name] * HIDDEN
    h = m.ones(2, HIDDEN)
    given = {
        "input": m.ones(2, SIZE),
        "hx": [h, h] if name == "lstm_cell" else h,
        "w_ih": m.ones(rows, SIZE) * 0.1,
        "w_hh": m.ones(rows, HIDDEN) * 0.2,
        "b_ih": m.ones(rows),
        "b_hh": None,
    }
    return {**given, **{key: change(m) for key, change in changed.items()}}


WRONG = {
    "input of one row": {"input": lambda m: m.ones(1, SIZE)},
    "input without batch": {"input": lambda m: m.ones(SIZE)},
    "input of 3 dimensions": {"input": lambda m: m.ones(1, 2, SIZE)},
    "input of integers": {"input": lambda m: m.ones(2, SIZE, dtype=m.int64)},
    "weight of fewer gates": {"w_ih": lambda m: m.ones(1, SIZE)},
    "weight of the state of fewer gates": {"w_hh": lambda m: m.ones(1, HIDDEN)},
    "weight of another size": {"w_hh": lambda m: m.ones(HIDDEN, HIDDEN + 1)},
    "weight of another dtype": {"w_ih": lambda m: m.ones(HIDDEN, SIZE, dtype=m.float64)},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", CELLS)
def test_arguments_that_do_not_fit(name, wrong):
    refuse_alike(lambda m: getattr(m, name)(**cell_arguments(m, name, **WRONG[wrong])))


@pytest.mark.parametrize("name", CELLS)
def test_states_that_do_not_fit(name):
    for sizes in [(1, HIDDEN), (2, 1), (HIDDEN,)]:
        lone = {"hx": lambda m, s=sizes: m.ones(s)}
        pairs = [
            {"hx": lambda m, s=sizes: [m.ones(s), m.ones(2, HIDDEN)]},
            {"hx": lambda m, s=sizes: [m.ones(2, HIDDEN), m.ones(s)]},
        ]
        for wrong in pairs if name == "lstm_cell" else [lone]:
            refuse_alike(lambda m, w=wrong: getattr(m, name)(**cell_arguments(m, name, **w)))


def test_number_of_states():
    for count in (0, 1, 3):
        states = {"hx": lambda m, n=count: [m.ones(2, HIDDEN)] * n}
        refuse_alike(lambda m, s=states: m.lstm_cell(**cell_arguments(m, "lstm_cell", **s)))


@pytest.mark.parametrize("name", CELLS)
def test_biases_are_optional(name):
    x, h, w_ih, w_hh, b_ih, b_hh = arrays(CELLS[name])
    same(lambda m, *t: step(m, name, *t), x, h, w_ih, w_hh, rtol=1e-12)
    same(lambda m, *t: step(m, name, *t), x, h, w_ih, w_hh, b_ih, rtol=1e-12)
    same(lambda m, *t: step(m, name, *t[:4], None, t[4]), x, h, w_ih, w_hh, b_hh, rtol=1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_batches_of_cells(name):
    """vmap over samples with one weight."""

    def program(m, x, h, *weights):
        def one(x, h):
            return step(m, name, x, h, *weights)

        if m.__name__ == "torch":
            rows = [one(*row) for row in zip(x, h, strict=True)]
            return [m.stack(column) for column in zip(*rows, strict=True)]
        return list(m.vmap(lambda x, h: tuple(one(x, h)))(x, h))

    x, h, *weights = arrays(CELLS[name])
    same(program, np.stack([x, x * 2]), np.stack([h, h - 1]), *weights, rtol=1e-12)
