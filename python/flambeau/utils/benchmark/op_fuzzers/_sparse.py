"""Parameters and tensors of the sparse fuzzers."""

from __future__ import annotations

import flambeau
from flambeau.utils.benchmark.op_fuzzers import _sizes
from flambeau.utils.benchmark.utils.fuzzer import FuzzedParameter
from flambeau.utils.benchmark.utils.sparse_fuzzer import FuzzedSparseTensor


def parameters(extra: list[FuzzedParameter]) -> list[FuzzedParameter]:
    """Return dimensions, sizes, densities; `extra` follows the sizes."""
    return [
        FuzzedParameter("dim_parameter", distribution=_sizes.DIMS, strict=True),
        FuzzedParameter("sparse_dim", distribution={1: 0.4, 2: 0.4, 3: 0.2}, strict=True),
        *_sizes.mixed_sizes(),
        *extra,
        FuzzedParameter("density", distribution={0.1: 0.4, 0.05: 0.3, 0.01: 0.3}),
        FuzzedParameter("coalesced", distribution={True: 0.5, False: 0.5}),
        _sizes.random_value(),
    ]


def tensor(name: str, size: tuple[str, ...], dtype: flambeau.dtype | None, cuda: bool) -> FuzzedSparseTensor:
    """Return the tensor of these parameters."""
    return FuzzedSparseTensor(
        name,
        size=size,
        min_elements=_sizes.FEWEST_ELEMENTS,
        max_elements=_sizes.MOST_ELEMENTS,
        dim_parameter="dim_parameter",
        sparse_dim="sparse_dim",
        density="density",
        coalesced="coalesced",
        dtype=flambeau.float32 if dtype is None else dtype,
        cuda=cuda,
    )
