"""Settings of a worker."""

from __future__ import annotations

import enum
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.distributed.rpc.constants import (
    DEFAULT_INIT_METHOD,
    DEFAULT_NUM_WORKER_THREADS,
    DEFAULT_RPC_TIMEOUT_SEC,
)

__all__ = ["BackendType", "RpcBackendOptions", "TensorPipeRpcBackendOptions"]


class BackendType(enum.Enum):
    """How workers communicate. There is one way, whatever its name.

    Example:
        >>> flambeau.distributed.rpc.BackendType.TENSORPIPE
        BackendType.TENSORPIPE
    """

    TENSORPIPE = "TENSORPIPE"

    def __repr__(self) -> str:
        return f"BackendType.{self.name}"


def checked_timeout(name: str, timeout: Any) -> float:
    """Return a time-out. Raises: TypeError, ValueError for what is none."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"{name}: expected a number of seconds as timeout, got {type(timeout).__name__}")
    if not timeout >= 0:
        raise ValueError(f"{name}: expected a timeout of 0 (none) or more seconds, got {timeout}")
    return float(timeout)


class RpcBackendOptions:
    """What every backend needs to know.

    Args:
        rpc_timeout: the default time-out of calls in seconds; 0: none.
        init_method: how the workers find each other, as in `init_process_group`.
    Raises: ValueError for a negative time-out; TypeError for another type.

    Example:
        >>> flambeau.distributed.rpc.RpcBackendOptions(rpc_timeout=5).rpc_timeout
        5.0
    """

    def __init__(
        self, rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC, init_method: str = DEFAULT_INIT_METHOD
    ) -> None:
        self.rpc_timeout = checked_timeout(type(self).__name__, rpc_timeout)
        if not isinstance(init_method, str):
            raise TypeError(
                f"{type(self).__name__}: expected a URL as init_method, got {type(init_method).__name__}"
            )
        self.init_method = init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """Settings of a worker, under the name that PyTorch gives them.

    Args:
        num_worker_threads: how many functions for other workers run at the same time. Functions that wait
            for an answer of another worker are not counted.
        rpc_timeout: the default time-out of calls in seconds; 0: none.
        init_method: how the workers find each other, as in `init_process_group`.
        device_maps: must be empty, since there are no devices but the CPU.
        devices: must be empty or name the CPU.
        _transports: no effect.
        _channels: no effect.
    Raises: ValueError for other devices, a negative time-out, or fewer than one thread; TypeError for
        another type.

    Example:
        >>> options = flambeau.distributed.rpc.TensorPipeRpcBackendOptions(num_worker_threads=4)
        >>> options.num_worker_threads, options.rpc_timeout, options.init_method
        (4, 60.0, 'env://')
    """

    def __init__(
        self,
        *,
        num_worker_threads: int = DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = DEFAULT_INIT_METHOD,
        device_maps: dict[str, dict[Any, Any]] | None = None,
        devices: list[Any] | None = None,
        _transports: list[Any] | None = None,
        _channels: list[Any] | None = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method)
        if isinstance(num_worker_threads, bool) or not isinstance(num_worker_threads, int):
            raise TypeError(
                f"TensorPipeRpcBackendOptions: expected a number of threads, got {num_worker_threads!r}"
            )
        if num_worker_threads < 1:
            raise ValueError(
                f"TensorPipeRpcBackendOptions: expected at least one thread, got {num_worker_threads}"
            )
        self.num_worker_threads = num_worker_threads
        self.device_maps: dict[str, dict[Any, Any]] = {}
        self.devices: list[Any] = []
        for to, device_map in (device_maps or {}).items():
            self.set_device_map(to, device_map)
        self.set_devices(devices or [])

    def set_device_map(self, to: str, device_map: dict[Any, Any]) -> None:
        """Refuse a map of devices, except an empty one. Raises: ValueError."""
        if device_map:
            raise ValueError(
                f"set_device_map: expected no map of devices to {to!r}, since only the CPU takes part, got "
                f"{device_map}"
            )

    def set_devices(self, devices: list[Any]) -> None:
        """Refuse devices, except the CPU. Raises: ValueError."""
        import flambeau

        if any(isinstance(d, int) or flambeau.device(d).type != "cpu" for d in devices):
            raise ValueError(f"set_devices: expected no device but the CPU, got {devices}")
        self.devices = [flambeau.device(d) for d in devices]


for _class in (BackendType, RpcBackendOptions, TensorPipeRpcBackendOptions):
    _class.__module__ = "flambeau.distributed.rpc"

__getattr__, __dir__ = attributes(__name__)
