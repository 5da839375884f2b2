"""Equal seeds give PyTorch's numbers: draws bit for bit, training runs within rounding.

recorded.json holds PyTorch's numbers (written by record.py); PyTorch is not needed here.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import flambeau as fb
import flambeau.utils.data
import numpy as np
import pytest
import seeded_cases

RECORD = json.loads(Path(__file__).with_name("recorded.json").read_text())


@cache
def drawn() -> dict[str, list[int]]:
    return seeded_cases.draws(fb)


@pytest.mark.parametrize("name", RECORD["draws"])
def test_draws_equal_pytorch(name: str):
    assert drawn()[name] == RECORD["draws"][name]


@pytest.mark.parametrize("name", RECORD["samples"])
def test_samples_equal_pytorch(name: str):
    assert seeded_cases.samples(fb)[name] == RECORD["samples"][name]


@pytest.mark.parametrize("name", RECORD["orders"])
def test_samplers_visit_in_pytorchs_order(name: str):
    assert seeded_cases.orders(fb)[name] == RECORD["orders"][name]


@pytest.mark.parametrize("name", RECORD["training"])
def test_training_equals_pytorch(name: str):
    found = seeded_cases.trained(fb, *name.split(", "))
    expected = RECORD["training"][name]
    assert found["parameters"] == expected["parameters"]
    # Sums are added up in another order; ten steps amplify that little.
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=2e-5)


def test_state_returns_to_the_same_place():
    fb.manual_seed(3)
    fb.randn(5)  # an odd number of normals: one is kept for the next call
    state = fb.get_rng_state()
    first = fb.randn(7), fb.rand(700), fb.randperm(9)
    fb.set_rng_state(state)
    for a, b in zip(first, (fb.randn(7), fb.rand(700), fb.randperm(9)), strict=True):
        assert fb.equal(a, b)


def test_own_generator_leaves_the_default_one_alone():
    fb.manual_seed(1)
    expected = fb.rand(4)
    fb.manual_seed(1)
    own = fb.Generator().manual_seed(1)
    assert fb.equal(fb.rand(4, generator=own), expected)
    assert fb.equal(fb.rand(4), expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.uniform_(1, 0), "expected from <= to, got from=1.0 and to=0.0"),
        (lambda t: t.uniform_(0, 1e39), r"expected to within the range of Float, got 1e\+39"),
        (lambda t: t.normal_(0, -1), "expected std >= 0.0, got -1.0"),
        (lambda t: t.exponential_(0), "expected lambda > 0.0, got lambda=0.0"),
        (lambda t: t.bernoulli_(1.5), r"expected p in \[0, 1\], got p=1.5"),
        (lambda t: t.random_(3, 3), "expected from < to, got from=3 and to=3"),
        (lambda t: t.to(fb.uint8).random_(0, 300), "to - 1 is out of bounds"),
        (lambda t: fb.bernoulli(t + 1), r"expected p in \[0, 1\], got 2.0"),
        (lambda t: fb.randperm(-1), "expected n of 0 or more, got -1"),
        (lambda t: fb.randperm(3000, dtype=fb.float16), "expected n of at most 2049.* Half .*, got 3000"),
        (lambda t: fb.multinomial(t, 4), "expected at most 3 samples .*, got num_samples=4"),
        (lambda t: fb.multinomial(t, 0), "expected num_samples >= 1, got 0"),
        (lambda t: fb.multinomial(t * 0, 1), "expected a positive weight in each row, got none in row 0"),
        (lambda t: fb.multinomial(-t, 1), r"expected finite weights of 0 or more, got -1.0 at \[0, 0\]"),
    ],
)
def test_errors(call: Any, words: str):
    with pytest.raises(RuntimeError, match=words):
        call(fb.ones(3))


def test_integers_have_no_uniform_numbers():
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        fb.zeros(3, dtype=fb.int32).uniform_()
