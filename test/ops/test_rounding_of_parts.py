"""What the tests of composites allow for: enough for parts that round, too little for a wrong formula."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import numpy as np
import pytest
from numerics import ROUNDING, rounding_of_parts
from op_cases import generator, to_array


def standardized(x: Any) -> Any:
    return (x - x.mean(-1, True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()


def standardized_reference(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def scaled_sign(x: Any) -> Any:
    for factor in (0.3, 1.7, 2.3, 0.9, 1.1, 3.7, 0.7, 1.3):
        x = x * factor if factor != 0.3 else fb.sign(x) * factor
    return x


def scaled_sign_reference(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * 0.3 * 1.7 * 2.3 * 0.9 * 1.1 * 3.7 * 0.7 * 1.3


# Function, reference, the length of its longest chain of parts.
COMPOSITES = {
    "near numbers are subtracted": (standardized, standardized_reference, 5),
    "results that follow no operand": (scaled_sign, scaled_sign_reference, 9),
}


def measured(name: str, dtype: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The error of one call, what is allowed for, and the exact result."""
    function, reference, parts = COMPOSITES[name]
    x = fb.from_numpy(generator(f"{name}/{seed}").uniform(3, 5, (4, 6))).to(getattr(fb, dtype))
    operand = to_array(x.double())
    exact = reference(operand)
    (allowed,) = rounding_of_parts(lambda moved: [reference(moved["x"])], {"x": operand}, parts, dtype)
    return np.abs(to_array(function(x).double()) - exact), allowed, exact


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", COMPOSITES)
def test_parts_that_round_are_allowed_for(name: str, dtype: str):
    for seed in range(20):
        error, allowed, exact = measured(name, dtype, seed)
        assert (error <= allowed + 2 * ROUNDING[dtype] * np.abs(exact)).all(), seed


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_wrong_factor_is_not_allowed_for(dtype: str):
    """One part of nine left out."""
    error, allowed, exact = measured("results that follow no operand", dtype, 0)
    wrong = np.abs(exact / 1.1 - exact)
    assert (wrong > allowed).all()


def test_exact_results_are_not_allowed_to_differ():
    arguments = {"x": np.arange(6.0)}
    (allowed,) = rounding_of_parts(lambda moved: [moved["x"] > 2], arguments, 5, "bfloat16")
    assert not allowed.any()
