"""Sparse tensors for operators of one argument."""

from __future__ import annotations

import flambeau
from flambeau.utils.benchmark.op_fuzzers import _sizes, _sparse
from flambeau.utils.benchmark.utils.fuzzer import Fuzzer

__all__ = ["UnaryOpSparseFuzzer"]


class UnaryOpSparseFuzzer(Fuzzer):
    """Generator of a tensor `x` of layout sparse_coo with 1 to 3 dimensions.

    Args:
        seed: the seed of the cases. None means a random one.
        dtype: the dtype. None means float32.
        cuda: whether the tensor is on a CUDA device.

    Example:
        >>> from flambeau.utils.benchmark.op_fuzzers.sparse_unary import UnaryOpSparseFuzzer
        >>> [tensors["x"].is_sparse for tensors, _, _ in UnaryOpSparseFuzzer(seed=1).take(1)]
        [True]
    """

    def __init__(self, seed: int | None, dtype: flambeau.dtype | None = None, cuda: bool = False) -> None:
        super().__init__(_sparse.parameters([]), [_sparse.tensor("x", _sizes.NAMES, dtype, cuda)], seed=seed)
