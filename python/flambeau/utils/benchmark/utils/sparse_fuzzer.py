"""Random sparse tensors for benchmarks and tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau.utils.benchmark.utils.fuzzer import FuzzedTensor

__all__ = ["FuzzedSparseTensor"]


class FuzzedSparseTensor(FuzzedTensor):
    """Random tensor of layout sparse_coo whose sizes and density are parameters of a `Fuzzer`.

    Args:
        name: the name by which a case has the tensor.
        size: the sizes; a string is the name of a parameter.
        min_elements: cases whose tensor is smaller are drawn again; zeros count.
        max_elements: cases whose tensor is larger are drawn again.
        dim_parameter: the parameter that gives the number of dimensions; later ones are left out.
        sparse_dim: the parameter that gives the number of sparse dimensions.
        nnz: accepted; `density` gives the number of entries.
        density: the parameter that gives the share of entries.
        coalesced: the parameter that tells whether the entries are unique and in order.
        dtype: the dtype.
        cuda: whether the tensor is on a CUDA device.
    Raises: ValueError if a name is no parameter.

    Example:
        >>> from flambeau.utils.benchmark import FuzzedParameter, FuzzedSparseTensor, Fuzzer
        >>> choices = {"share": {0.1: 1}, "d": {1: 1}, "c": {True: 1}}
        >>> drawn = [FuzzedParameter(name, distribution=choice) for name, choice in choices.items()]
        >>> x = FuzzedSparseTensor("x", (30, 4), sparse_dim="d", density="share", coalesced="c")
        >>> [tensors["x"].is_coalesced() for tensors, _, _ in Fuzzer(drawn, [x], seed=0).take(2)]
        [True, True]
    """

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        min_elements: int | None = None,
        max_elements: int | None = None,
        dim_parameter: str | None = None,
        sparse_dim: str | None = None,
        nnz: str | None = None,
        density: str | None = None,
        coalesced: str | None = None,
        dtype: flambeau.dtype = flambeau.float32,
        cuda: bool = False,
    ) -> None:
        super().__init__(
            name,
            size,
            min_elements=min_elements,
            max_elements=max_elements,
            dim_parameter=dim_parameter,
            dtype=dtype,
            cuda=cuda,
        )
        self._density, self._coalesced, self._sparse_dim = density, coalesced, sparse_dim

    @staticmethod
    def sparse_tensor_constructor(
        size: Sequence[int], dtype: flambeau.dtype, sparse_dim: int, nnz: int, is_coalesced: bool
    ) -> Any:
        """Make a tensor with `nnz` entries; those of a tensor that is not coalesced repeat their indices.

        Coalesced tensors have fewer entries where indices were drawn twice.
        """
        sizes = flambeau.tensor(list(size[:sparse_dim]), dtype=flambeau.float64)
        places = (flambeau.rand(sparse_dim, nnz, dtype=flambeau.float64) * sizes[:, None]).to(flambeau.int64)
        values = FuzzedTensor.default_tensor_constructor((nnz, *size[sparse_dim:]), dtype)
        if not is_coalesced:
            places, values = flambeau.cat([places, places], 1), flambeau.cat([values, values])
        made = flambeau.sparse_coo_tensor(places, values, tuple(size), check_invariants=False)
        return made.coalesce() if is_coalesced else made

    def _make_tensor(self, params: dict[str, Any], state: Any) -> tuple[Any, dict[str, Any]]:
        size, _, _, dtype = self._size_steps_allocated(params)
        sparse_dim = min(self._value(params, self._sparse_dim, 1), len(size))
        density = self._value(params, self._density, 0.01)
        is_coalesced = bool(self._value(params, self._coalesced, True))
        nnz = math.ceil(math.prod(size[:sparse_dim]) * density)
        tensor = self.sparse_tensor_constructor(size, dtype, sparse_dim, nnz, is_coalesced)
        if self._cuda:
            tensor = tensor.cuda()
        dense_dim = len(size) - sparse_dim
        facts = {
            "numel": int(tensor.numel()),
            "shape": tensor.shape,
            "is_coalesced": tensor.is_coalesced(),
            "density": density,
            "sparsity": 1.0 - density,
            "sparse_dim": sparse_dim,
            "dense_dim": dense_dim,
            "is_hybrid": dense_dim > 0,
            "dtype": str(dtype),
        }
        return tensor, facts

    def _value(self, params: dict[str, Any], name: str | None, default: Any) -> Any:
        if name is None:
            return default
        if name not in params:
            raise ValueError(
                f"FuzzedSparseTensor: expected a parameter of the Fuzzer for {self._name!r}, got {name!r}"
            )
        return params[name]
