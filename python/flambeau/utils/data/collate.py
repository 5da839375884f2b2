"""Making one batch of a list of samples."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes

Table = dict[Any, Callable[..., Any]]
default_collate_err_msg_format = (
    "default_collate: a batch must contain tensors, arrays, numbers, texts, dicts or lists, got {}"
)


def _like(model: Any, entries: dict[Any, Any]) -> Any:
    """Return a mapping of the model's class with other values; a dict where the class does not allow it."""
    try:
        if isinstance(model, MutableMapping):
            made = copy.copy(model)
            made.update(entries)
            return made
        return type(model)(entries)
    except TypeError:
        return entries


def default_convert(data: Any) -> Any:
    """Convert arrays and numbers of NumPy to tensors, also inside mappings, tuples and lists.

    Args:
        data: the sample; anything else stays as it is.
    Returns: the sample with tensors.

    Example:
        >>> import numpy
        >>> flambeau.utils.data.default_convert([numpy.zeros(2), "text"])
        [tensor([0., 0.], dtype=flambeau.float64), 'text']
    """
    if isinstance(data, Tensor | str | bytes):
        return data
    if type(data).__module__ == "numpy":
        return flambeau.as_tensor(data) if data.dtype.kind in "biufc" else data
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, Sequence):
        return [default_convert(value) for value in data]
    return data


def collate(batch: list[Any], *, collate_fn_map: Table | None = None) -> Any:
    """Collate samples by a table of functions for classes, entry by entry in containers.

    Args:
        batch: the samples.
        collate_fn_map: class, or tuple of classes -> function of a list of its objects and of the table.

    Raises: TypeError for what is neither in the table nor a container, RuntimeError for unequal lengths.
    """
    first, table = batch[0], collate_fn_map or {}
    if type(first) in table:
        return table[type(first)](batch, collate_fn_map=table)
    for kind, function in table.items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=table)
    if isinstance(first, Mapping):
        columns = {key: collate([sample[key] for sample in batch], collate_fn_map=table) for key in first}
        return _like(first, columns)
    if not isinstance(first, Sequence):
        raise TypeError(default_collate_err_msg_format.format(type(first)))
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError(
            f"default_collate: expected samples of equal size, got {[len(sample) for sample in batch]}"
        )
    found = [collate(list(column), collate_fn_map=table) for column in zip(*batch, strict=True)]
    if hasattr(first, "_fields"):
        return type(first)(*found)
    if isinstance(first, tuple) or not isinstance(first, MutableSequence):
        return found
    made = copy.copy(first)
    made[:] = found
    return made


def collate_tensor_fn(batch: list[Any], *, collate_fn_map: Table | None = None) -> Tensor:
    """Stack tensors along a new first dimension. Raises: RuntimeError for sparse ones, as PyTorch does."""
    if any(sample.is_sparse for sample in batch):
        raise RuntimeError(
            "default_collate: Batches of sparse tensors are not currently supported by the default "
            "collate_fn; pass a collate_fn such as flambeau.stack"
        )
    return flambeau.stack(batch, 0)


def collate_numpy_array_fn(batch: list[Any], *, collate_fn_map: Table | None = None) -> Any:
    """Stack arrays. Raises: TypeError if they hold no numbers."""
    if batch[0].dtype.kind not in "biufc":
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return default_collate([flambeau.as_tensor(sample) for sample in batch])


def collate_numpy_scalar_fn(batch: list[Any], *, collate_fn_map: Table | None = None) -> Tensor:
    """Make a tensor of numbers of NumPy."""
    return flambeau.as_tensor(batch)


def collate_float_fn(batch: list[Any], *, collate_fn_map: Table | None = None) -> Tensor:
    """Make a tensor of numbers, in float64."""
    return flambeau.tensor(batch, dtype=flambeau.float64)


def collate_int_fn(batch: list[Any], *, collate_fn_map: Table | None = None) -> Tensor:
    """Make a tensor of integers."""
    return flambeau.tensor(batch)


def collate_str_fn(batch: list[Any], *, collate_fn_map: Table | None = None) -> list[Any]:
    """Keep the texts."""
    return batch


default_collate_fn_map: Table = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: list[Any]) -> Any:
    """Combine samples into a batch.

    Tensors and arrays are stacked along a new dimension 0, numbers become a tensor, strings a list. Mappings,
    named tuples, tuples and lists are combined entry by entry.

    Args:
        batch: the list of samples, all of one structure.
    Returns: the batch.
    Raises: TypeError for samples of another type, RuntimeError if samples differ in shape or length.

    Example:
        >>> flambeau.utils.data.default_collate([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
        {'x': tensor([1., 2.], dtype=flambeau.float64), 'name': ['a', 'b']}
    """
    np: Any = sys.modules.get("numpy")  # without it no sample can be an array
    if np is not None and np.ndarray not in default_collate_fn_map:
        default_collate_fn_map[np.ndarray] = collate_numpy_array_fn
        default_collate_fn_map[(np.bool_, np.number, np.object_)] = collate_numpy_scalar_fn
    return collate(batch, collate_fn_map=default_collate_fn_map)


__getattr__, __dir__ = attributes(__name__)
