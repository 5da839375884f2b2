"""Remote procedure calls between workers (docs/distributed.md, ADR 22)."""

from __future__ import annotations

from flambeau._loading.lazy import attributes
from flambeau.distributed.rpc import functions
from flambeau.distributed.rpc._rref import RRef
from flambeau.distributed.rpc._worker_info import WorkerInfo
from flambeau.distributed.rpc.api import (
    _all_gather,
    _barrier,
    _set_rpc_timeout,
    get_rpc_timeout,
    get_worker_info,
    init_rpc,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from flambeau.distributed.rpc.options import BackendType, RpcBackendOptions, TensorPipeRpcBackendOptions

__all__ = [
    "BackendType",
    "RRef",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "functions",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]


def is_available() -> bool:
    """Tell whether remote procedure calls exist.

    Returns: True.

    Example:
        >>> flambeau.distributed.rpc.is_available()
        True
    """
    return True


_UNBUILT = (
    "AllGatherStates PyRRef RemoteProfilerManager RpcAgent TensorPipeAgent "
    "enable_gil_profiling method_factory "
    "new_method"
).split()

__getattr__, __dir__ = attributes(
    __name__,
    dict.fromkeys(_UNBUILT, "flambeau.distributed.rpc._unbuilt") | {"Store": "flambeau.distributed"},
)
