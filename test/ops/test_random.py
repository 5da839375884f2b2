"""Random operators: equal draws after equal seeds, NaN and borders of parameters, layouts, errors.

All samplers against recorded draws, and their gradients, are in test/random.
"""

from __future__ import annotations

import pytest
from side_by_side import refuse_alike, same

DRAWS = {
    "uniform_": lambda m, x: x.uniform_(-2, 3),
    "normal_": lambda m, x: x.normal_(1, 2),
    "random_": lambda m, x: x.random_(7, 99),
    "bernoulli_": lambda m, x: x.bernoulli_(0.3),
    "exponential_": lambda m, x: x.exponential_(2.0),
    "geometric_": lambda m, x: x.geometric_(0.2),
}


@pytest.mark.parametrize("name", DRAWS)
def test_strided_and_empty_places(name):
    """A tensor of any layout is filled in row-major order; an empty one draws nothing."""

    def program(m):
        m.manual_seed(5)
        x = m.zeros(6, 4, dtype=m.float64)
        DRAWS[name](m, x.t()[::2])
        DRAWS[name](m, m.empty(0, 3))
        return [x, m.rand(3)]

    same(program, rtol=1e-14)


def test_borders_of_parameters():
    def program(m):
        m.manual_seed(1)
        x = m.empty(4, dtype=m.float64)
        inf = float("inf")
        rate = m.tensor([0.0, 1e6, 3.0], dtype=m.float64)
        return [
            x.clone().uniform_(2, 2),
            x.clone().normal_(float("nan"), 1.0),
            x.clone().normal_(3.0, 0.0),
            x.clone().bernoulli_(0.0),
            x.clone().bernoulli_(1.0),
            x.clone().exponential_(inf),
            m.poisson(rate),
            m.randperm(0),
            m.randperm(1),
            m.multinomial(m.tensor([0.0, 5.0, 0.0]), 3, True),
        ]

    same(program, rtol=1e-14)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.zeros(2).uniform_(3, 2),
        lambda m: m.zeros(2).uniform_(float("nan"), 2),
        lambda m: m.zeros(2).normal_(0, -1),
        lambda m: m.zeros(2).exponential_(0),
        lambda m: m.zeros(2).bernoulli_(1.5),
        lambda m: m.zeros(2).geometric_(0),
        lambda m: m.poisson(m.tensor([-1.0])),
        lambda m: m.poisson(m.tensor([float("nan")])),
        lambda m: m.randperm(-1),
        lambda m: m.randint(5, 5, (2,)),
        lambda m: m.multinomial(m.tensor([0.0, 0.0]), 1),
        lambda m: m.multinomial(m.tensor([1.0, float("nan")]), 1),
        lambda m: m.multinomial(m.tensor([1.0, 2.0]), 3),
        lambda m: m.zeros(2, dtype=m.int64).normal_(),
    ],
)
def test_wrong_parameters(call):
    refuse_alike(call)


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_geometric_numbers_beyond_the_dtype(dtype):
    def program(m):
        m.manual_seed(0)
        return [m.empty(300, dtype=getattr(m, dtype)).geometric_(p) for p in (1e-3, 1e-9, 1e-18, 1e-300)]

    same(program)
