"""Random programs, compiled for sizes that differ from call to call, against the plain programs."""

import random

import flambeau as fb
import pytest
from flambeau.compiler.passes import fusion
from random_programs import SIZED, random_program


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)


def inputs(draw, seed):
    """Draw three tensors of one of a few sizes; some require gradients, and some are transposed in memory."""
    rows, columns = draw.choice([(6, 8), (5, 8), (9, 3), (2, 8), (6, 4), (7, 5)])
    x, y = fb.randn(rows, columns), fb.randn(columns, rows).t() if seed % 2 else fb.randn(rows, columns)
    return [v.requires_grad_(seed % 3 != 0) for v in (x, y.detach(), fb.randn(columns))]


def outcome(program, given):
    given = [v.detach().clone().requires_grad_(v.requires_grad) for v in given]
    results = program(*given)
    gradients = []
    if given[0].requires_grad:
        total = sum(r.sum() for r in results if r.requires_grad)
        if isinstance(total, fb.Tensor):
            gradients = fb.autograd.grad(total, given, allow_unused=True)
    return results, gradients


@pytest.mark.parametrize("seed", range(80))
def test_random_programs_of_many_sizes(seed):
    fb.manual_seed(seed)
    draw, program = random.Random(seed), random_program(seed, SIZED)
    compiled = fb.compile(
        program, dynamic=[None, True][seed % 2], backend=["inductor", "eager"][seed % 5 == 0]
    )
    for _ in range(14):
        given = inputs(draw, seed)
        (a, ga), (b, gb) = outcome(compiled, given), outcome(program, given)
        for one, other in zip([*a, *ga], [*b, *gb], strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert one.shape == other.shape and one.dtype == other.dtype
                assert fb.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)
