"""Parameters that the fuzzers share: numbers of dimensions, sizes, steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau.utils.benchmark.utils.fuzzer import FuzzedParameter, ParameterAlias

MIN_SIZE = 16
MAX_SIZE = 16 * 1024**2
POWERS_OF_TWO = tuple(2**i for i in range(4, 25))
FEWEST_ELEMENTS, MOST_ELEMENTS, MOST_BYTES = 4 * 1024, 32 * 1024**2, 2 * 1024**3
DIMS = {1: 0.3, 2: 0.4, 3: 0.3}
STEPS = {1: 0.8, 2: 0.06, 4: 0.06, 8: 0.04, 16: 0.04}
NAMES = ("k0", "k1", "k2")


def equally(values: Iterable[Any]) -> dict[Any, float]:
    """Return a distribution in which all values have the same probability."""
    values = tuple(values)
    return {value: 1.0 / len(values) for value in values}


def any_sizes(largest: int = MAX_SIZE) -> list[FuzzedParameter]:
    """Return sizes that may be any number."""
    return [FuzzedParameter(f"k_any_{i}", MIN_SIZE, largest, "loguniform") for i in range(3)]


def chosen_sizes(kind: str, sizes: Iterable[int]) -> list[FuzzedParameter]:
    """Return sizes out of a list."""
    sizes = tuple(sizes)
    return [FuzzedParameter(f"k_{kind}_{i}", distribution=equally(sizes)) for i in range(3)]


def either(first: str, share: float, second: str) -> list[FuzzedParameter]:
    """Return sizes k0, k1 and k2 that are those of the first kind with the given probability."""
    return [
        FuzzedParameter(
            name,
            distribution={ParameterAlias(f"{first}_{i}"): share, ParameterAlias(f"{second}_{i}"): 1 - share},
            strict=True,
        )
        for i, name in enumerate(NAMES)
    ]


def mixed_sizes() -> list[FuzzedParameter]:
    """Return sizes that are any number with probability 0.8, else powers of two."""
    return [*any_sizes(), *chosen_sizes("pow2", POWERS_OF_TWO), *either("k_any", 0.8, "k_pow2")]


def steps(prefix: str) -> list[FuzzedParameter]:
    """Return the steps of three dimensions."""
    return [FuzzedParameter(f"{prefix}_{i}", distribution=STEPS) for i in range(3)]


def random_value() -> FuzzedParameter:
    """Return a number of 32 bits, which programs may use as a seed."""
    return FuzzedParameter("random_value", 0, 2**32 - 1, "uniform")
