"""Tensors for operators of one argument."""

from __future__ import annotations

import flambeau
from flambeau.utils.benchmark.op_fuzzers import _sizes
from flambeau.utils.benchmark.utils.fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer

__all__ = ["UnaryOpFuzzer"]


class UnaryOpFuzzer(Fuzzer):
    """Generator of a tensor `x` with 1 to 3 dimensions, from 4 Ki to 32 Mi elements and any strides.

    Args:
        seed: the seed of the cases. None means a random one.
        dtype: the dtype.
        cuda: whether the tensor is on a CUDA device.

    Example:
        >>> from flambeau.utils.benchmark.op_fuzzers.unary import UnaryOpFuzzer
        >>> [facts["x"]["numel"] for _, facts, _ in UnaryOpFuzzer(seed=11).take(1)][0] >= 4096
        True
    """

    def __init__(
        self, seed: int | None, dtype: flambeau.dtype = flambeau.float32, cuda: bool = False
    ) -> None:
        x = FuzzedTensor(
            "x",
            size=_sizes.NAMES,
            steps=("x_step_0", "x_step_1", "x_step_2"),
            probability_contiguous=0.75,
            min_elements=_sizes.FEWEST_ELEMENTS,
            max_elements=_sizes.MOST_ELEMENTS,
            max_allocation_bytes=_sizes.MOST_BYTES,
            dim_parameter="dim",
            dtype=dtype,
            cuda=cuda,
        )
        dim = FuzzedParameter("dim", distribution=_sizes.DIMS, strict=True)
        sizes = _sizes.mixed_sizes()
        super().__init__([dim, *sizes, *_sizes.steps("x_step"), _sizes.random_value()], [x], seed=seed)
