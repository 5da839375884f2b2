"""Making one batch of a list of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flambeau
from flambeau import Tensor


def default_convert(data: Any) -> Any:
    """Turn arrays and numbers of NumPy into tensors, within mappings, tuples and lists too; keep all else."""
    if isinstance(data, Tensor | str | bytes):
        return data
    if type(data).__module__ == "numpy":
        return flambeau.as_tensor(data) if data.dtype.kind in "biufc" else data
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, Sequence):
        return [default_convert(value) for value in data]
    return data


def default_collate(batch: list[Any]) -> Any:
    """Stack tensors and arrays along a new first dimension, turn numbers into a tensor, keep strings;
    mappings, named tuples, tuples and lists are collated entry by entry.

    Raises: TypeError for anything else, RuntimeError if samples differ in shape or length.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return flambeau.stack(batch, 0)
    if type(first).__module__ == "numpy":
        return default_collate([flambeau.as_tensor(sample) for sample in batch])
    if isinstance(first, bool | int):
        return flambeau.tensor(batch)
    if isinstance(first, float):
        return flambeau.tensor(batch, dtype=flambeau.float64)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("default_collate: expected samples of equal size")
        columns = [default_collate(list(column)) for column in zip(*batch, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*columns)
        return columns
    raise TypeError(
        f"default_collate: expected tensors, arrays, numbers, dicts or lists, got {type(first).__name__}"
    )
