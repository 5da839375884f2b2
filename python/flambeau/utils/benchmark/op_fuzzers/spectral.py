"""Tensors for Fourier transforms."""

from __future__ import annotations

import flambeau
from flambeau.utils.benchmark.op_fuzzers import _sizes
from flambeau.utils.benchmark.utils.fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer

__all__ = ["SpectralOpFuzzer"]

MIN_DIM_SIZE = _sizes.MIN_SIZE
MAX_DIM_SIZE = 16 * 1024


def _regular_sizes() -> list[int]:
    """Return the sizes whose prime factors are 2, 3 and 5, for which transforms are fast."""
    found = (2**i * 3**j * 5**k for i in range(15) for j in range(9) for k in range(7))
    return sorted(n for n in found if MIN_DIM_SIZE < n <= MAX_DIM_SIZE)


REGULAR_SIZES = _regular_sizes()


class SpectralOpFuzzer(Fuzzer):
    """Generator of a tensor `x` with 1 to 3 dimensions, of regular sizes (prime factors 2, 3, 5) or any.

    Args:
        seed: the seed of the cases.
        dtype: the dtype.
        cuda: whether the tensor is on a CUDA device.
        probability_regular: the probability that the prime factors of a size are 2, 3 and 5.

    Example:
        >>> from flambeau.utils.benchmark.op_fuzzers.spectral import SpectralOpFuzzer
        >>> [tensors["x"].dtype for tensors, _, _ in SpectralOpFuzzer(seed=1).take(1)]
        [flambeau.float64]
    """

    def __init__(
        self,
        *,
        seed: int | None,
        dtype: flambeau.dtype = flambeau.float64,
        cuda: bool = False,
        probability_regular: float = 1.0,
    ) -> None:
        x = FuzzedTensor(
            "x",
            size=_sizes.NAMES,
            steps=("step_0", "step_1", "step_2"),
            probability_contiguous=0.75,
            min_elements=_sizes.FEWEST_ELEMENTS,
            max_elements=_sizes.MOST_ELEMENTS,
            max_allocation_bytes=_sizes.MOST_BYTES,
            dim_parameter="ndim",
            dtype=dtype,
            cuda=cuda,
        )
        sizes = [*_sizes.any_sizes(MAX_DIM_SIZE), *_sizes.chosen_sizes("regular", REGULAR_SIZES)]
        sizes += _sizes.either("k_regular", probability_regular, "k_any")
        dim = FuzzedParameter("ndim", distribution=_sizes.DIMS, strict=True)
        super().__init__([dim, *sizes, *_sizes.steps("step")], [x], seed=seed)
