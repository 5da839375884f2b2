"""The state of autocast by device, under names from before it took the device as an argument."""

from __future__ import annotations

import warnings

from flambeau import _C
from flambeau._C import dtype


def _deprecate(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated: write {instead}", DeprecationWarning, stacklevel=3)


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is enabled for the CPU; `is_autocast_enabled("cpu")`."""
    _deprecate("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return _C.is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Enable autocast for the CPU; `set_autocast_enabled("cpu", enabled)`."""
    _deprecate("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    _C.set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtype:
    """Return the lower precision on the CPU; `get_autocast_dtype("cpu")`."""
    _deprecate("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return _C.get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """Set the lower precision on the CPU; `set_autocast_dtype("cpu", dtype)`."""
    _deprecate("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    _C.set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtype:
    """Return the lower precision on CUDA; `get_autocast_dtype("cuda")`."""
    _deprecate("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return _C.get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """Set the lower precision on CUDA; `set_autocast_dtype("cuda", dtype)`."""
    _deprecate("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    _C.set_autocast_dtype("cuda", dtype)
