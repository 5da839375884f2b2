"""Autocast and loss scaling by device, under names from before they took the device as an argument."""

from __future__ import annotations

import threading
import warnings
from typing import ClassVar

from flambeau import _C
from flambeau._C import dtype
from flambeau.amp.autocast_mode import autocast
from flambeau.amp.grad_scaler import GradScaler

__all__ = [
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cpu_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_gpu_dtype",
]


def _deprecate_class(device: str, name: str) -> None:
    """Warn the caller of the class's __init__."""
    text = f"{device}.amp.{name} is deprecated: write amp.{name}({device!r}, ...)"
    warnings.warn(text, FutureWarning, stacklevel=3)


class DeviceAutocast(autocast):
    """`amp.autocast` for the device of the subclass; deprecated."""

    _device_type: ClassVar[str]
    _lower: ClassVar[dtype]

    def __init__(self, enabled: bool = True, dtype: dtype | None = None, cache_enabled: bool = True) -> None:
        _deprecate_class(self._device_type, "autocast")
        super().__init__(self._device_type, dtype or self._lower, enabled, cache_enabled)


class DeviceGradScaler(GradScaler):
    """`amp.GradScaler` for the device of the subclass; deprecated."""

    _device_type: ClassVar[str]

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _deprecate_class(self._device_type, "GradScaler")
        super().__init__(
            self._device_type, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def _deprecate(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated: write {instead}", DeprecationWarning, stacklevel=3)


def is_autocast_cpu_enabled() -> bool:
    """Return whether autocast is enabled for the CPU. Deprecated: use ``is_autocast_enabled("cpu")``.

    Returns: whether it is, in this thread.

    Example:
        >>> flambeau.is_autocast_cpu_enabled()
        False
    """
    _deprecate("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return _C.is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Set whether autocast is enabled for the CPU. Deprecated: use ``set_autocast_enabled("cpu", enabled)``.

    Args:
        enabled: whether it is enabled in this thread.
    Returns: nothing.

    Example:
        >>> flambeau.set_autocast_cpu_enabled(True)
        >>> flambeau.is_autocast_cpu_enabled()
        True
        >>> flambeau.set_autocast_cpu_enabled(False)
    """
    _deprecate("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    _C.set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtype:
    """Return the lower precision on the CPU. Deprecated: use ``get_autocast_dtype("cpu")``.

    Returns: the dtype that operators of lower precision cast to.

    Example:
        >>> flambeau.get_autocast_cpu_dtype() == flambeau.bfloat16
        True
    """
    _deprecate("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return _C.get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """Set the lower precision on the CPU. Deprecated: use ``set_autocast_dtype("cpu", dtype)``.

    Args:
        dtype: the dtype that operators of lower precision cast to, in this thread.
    Returns: nothing.

    Example:
        >>> before = flambeau.get_autocast_cpu_dtype()
        >>> flambeau.set_autocast_cpu_dtype(flambeau.float16)
        >>> flambeau.get_autocast_cpu_dtype() == flambeau.float16
        True
        >>> flambeau.set_autocast_cpu_dtype(before)
    """
    _deprecate("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    _C.set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtype:
    """Return the lower precision on CUDA. Deprecated: use ``get_autocast_dtype("cuda")``.

    Returns: the dtype that operators of lower precision cast to.

    Example:
        >>> flambeau.get_autocast_gpu_dtype() == flambeau.float16
        True
    """
    _deprecate("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return _C.get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """Set the lower precision on CUDA. Deprecated: use ``set_autocast_dtype("cuda", dtype)``.

    Args:
        dtype: the dtype that operators of lower precision cast to, in this thread.
    Returns: nothing.

    Example:
        >>> before = flambeau.get_autocast_gpu_dtype()
        >>> flambeau.set_autocast_gpu_dtype(flambeau.float16)
        >>> flambeau.get_autocast_gpu_dtype() == flambeau.float16
        True
        >>> flambeau.set_autocast_gpu_dtype(before)
    """
    _deprecate("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    _C.set_autocast_dtype("cuda", dtype)


class _Unbuilt(threading.local):
    """What a thread has set for kinds of devices that flambeau does not know; nothing runs there."""

    def __init__(self) -> None:
        self.enabled = {"ipu": False, "xla": False}
        self.dtypes = {"ipu": _C.float16, "xla": _C.bfloat16}


_unbuilt = _Unbuilt()


def is_autocast_ipu_enabled() -> bool:
    """Whether autocast was enabled for IPUs, which flambeau does not support."""
    _deprecate("is_autocast_ipu_enabled()", "is_autocast_enabled('ipu')")
    return _unbuilt.enabled["ipu"]


def set_autocast_ipu_enabled(enabled: bool) -> None:
    """Enable autocast for IPUs, which flambeau does not support."""
    _deprecate("set_autocast_ipu_enabled(enabled)", "set_autocast_enabled('ipu', enabled)")
    _unbuilt.enabled["ipu"] = enabled


def get_autocast_ipu_dtype() -> dtype:
    """Return the lower precision on IPUs, which flambeau does not support."""
    _deprecate("get_autocast_ipu_dtype()", "get_autocast_dtype('ipu')")
    return _unbuilt.dtypes["ipu"]


def set_autocast_ipu_dtype(dtype: dtype) -> None:
    """Set the lower precision on IPUs, which flambeau does not support."""
    _deprecate("set_autocast_ipu_dtype(dtype)", "set_autocast_dtype('ipu', dtype)")
    _unbuilt.dtypes["ipu"] = dtype


def is_autocast_xla_enabled() -> bool:
    """Whether autocast was enabled for XLA devices, which flambeau does not support."""
    _deprecate("is_autocast_xla_enabled()", "is_autocast_enabled('xla')")
    return _unbuilt.enabled["xla"]


def set_autocast_xla_enabled(enabled: bool) -> None:
    """Enable autocast for XLA devices, which flambeau does not support."""
    _deprecate("set_autocast_xla_enabled(enabled)", "set_autocast_enabled('xla', enabled)")
    _unbuilt.enabled["xla"] = enabled


def get_autocast_xla_dtype() -> dtype:
    """Return the lower precision on XLA devices, which flambeau does not support."""
    _deprecate("get_autocast_xla_dtype()", "get_autocast_dtype('xla')")
    return _unbuilt.dtypes["xla"]


def set_autocast_xla_dtype(dtype: dtype) -> None:
    """Set the lower precision on XLA devices, which flambeau does not support."""
    _deprecate("set_autocast_xla_dtype(dtype)", "set_autocast_dtype('xla', dtype)")
    _unbuilt.dtypes["xla"] = dtype
