"""Tensors for operators of two arguments."""

from __future__ import annotations

import flambeau
from flambeau.utils.benchmark.op_fuzzers import _sizes
from flambeau.utils.benchmark.utils.fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias

__all__ = ["BinaryOpFuzzer"]


class BinaryOpFuzzer(Fuzzer):
    """Generator of tensors `x` and `y`; `y` is broadcast along one in five dimensions.

    Args:
        seed: the seed of the cases. None means a random one.
        dtype: the dtype.
        cuda: whether the tensors are on a CUDA device.

    Example:
        >>> from flambeau.utils.benchmark.op_fuzzers.binary import BinaryOpFuzzer
        >>> [(x["x"] + x["y"]).shape == x["x"].shape for x, _, _ in BinaryOpFuzzer(seed=11).take(1)]
        [True]
    """

    def __init__(
        self, seed: int | None, dtype: flambeau.dtype = flambeau.float32, cuda: bool = False
    ) -> None:
        def tensor(name: str, size: tuple[str, ...], fewest: int | None, most: int | None) -> FuzzedTensor:
            return FuzzedTensor(
                name,
                size=size,
                steps=("x_step_0", "x_step_1", "x_step_2"),
                probability_contiguous=0.75,
                min_elements=fewest,
                max_elements=most,
                max_allocation_bytes=_sizes.MOST_BYTES,
                dim_parameter="dim",
                dtype=dtype,
                cuda=cuda,
            )

        shared = [
            FuzzedParameter(f"y_{name}", distribution={ParameterAlias(name): 0.8, 1: 0.2}, strict=True)
            for name in _sizes.NAMES
        ]
        of_x, of_y = _sizes.steps("x_step"), _sizes.steps("y_step")
        steps = [one for pair in zip(of_x, of_y, strict=True) for one in pair]
        dim = FuzzedParameter("dim", distribution=_sizes.DIMS, strict=True)
        super().__init__(
            [dim, *_sizes.mixed_sizes(), *shared, *steps, _sizes.random_value()],
            [
                tensor("x", _sizes.NAMES, _sizes.FEWEST_ELEMENTS, _sizes.MOST_ELEMENTS),
                tensor("y", ("y_k0", "y_k1", "y_k2"), None, None),
            ],
            seed=seed,
        )
