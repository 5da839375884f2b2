"""Sparse tensors for operators of two arguments."""

from __future__ import annotations

import flambeau
from flambeau.utils.benchmark.op_fuzzers import _sizes, _sparse
from flambeau.utils.benchmark.utils.fuzzer import FuzzedParameter, Fuzzer, ParameterAlias

__all__ = ["BinaryOpSparseFuzzer"]


class BinaryOpSparseFuzzer(Fuzzer):
    """Generator of tensors `x` and `y` of layout sparse_coo with equal sizes.

    Args:
        seed: the seed of the cases. None means a random one.
        dtype: the dtype.
        cuda: whether the tensors are on a CUDA device.

    Example:
        >>> from flambeau.utils.benchmark.op_fuzzers.sparse_binary import BinaryOpSparseFuzzer
        >>> [case["x"].shape == case["y"].shape for case, _, _ in BinaryOpSparseFuzzer(seed=1).take(1)]
        [True]
    """

    def __init__(
        self, seed: int | None, dtype: flambeau.dtype = flambeau.float32, cuda: bool = False
    ) -> None:
        shared = [
            FuzzedParameter(f"y_{name}", distribution={ParameterAlias(name): 1.0}, strict=True)
            for name in _sizes.NAMES
        ]
        tensors = [
            _sparse.tensor("x", _sizes.NAMES, dtype, cuda),
            _sparse.tensor("y", ("y_k0", "y_k1", "y_k2"), dtype, cuda),
        ]
        super().__init__(_sparse.parameters(shared), tensors, seed=seed)
