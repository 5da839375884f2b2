"""Lists of tensors grouped for operators that take lists, as optimizers of libraries group them."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, device
from flambeau._loading.lazy import attributes

_Groups = dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]


def _group_tensors_by_device_and_dtype(tensorlistlist: list[Any], with_indices: bool = False) -> _Groups:
    """Group the columns of a table of tensors by device and dtype of the tensors in its first row.

    Args:
        tensorlistlist: rows of equal length; empty rows stay empty. Entries behind the first row may be None.
        with_indices: whether to return the numbers of the columns.
    Returns: (device, dtype) -> rows of the group, numbers of its columns (empty unless `with_indices`).
    Raises: RuntimeError if rows have different lengths.
    """
    first = tensorlistlist[0]
    if any(len(row) not in (0, len(first)) for row in tensorlistlist):
        raise RuntimeError(
            f"_group_tensors_by_device_and_dtype: expected rows of {len(first)} tensors, got "
            f"{[len(r) for r in tensorlistlist]}"
        )
    groups: _Groups = {}
    for column, tensor in enumerate(first):
        empty: tuple[list[list[Any]], list[int]] = ([[] for _ in tensorlistlist], [])
        rows, numbers = groups.setdefault((tensor.device, tensor.dtype), empty)
        for kept, row in zip(rows, tensorlistlist, strict=True):
            kept.extend(row[column : column + 1])
        numbers.extend([column] * with_indices)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the kinds of accelerators whose operators on lists are kernels."""
    return ["cuda", "xpu", "mtia", _C._get_privateuse1_backend_name()]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Return the kinds of devices with fused optimizers."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", _C._get_privateuse1_backend_name()]


def _device_has_foreach_support(device: device) -> bool:
    """Whether operators take lists on a device."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Any], device: device) -> bool:
    """Whether operators take a list of these tensors."""
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)


__getattr__, __dir__ = attributes(__name__)
