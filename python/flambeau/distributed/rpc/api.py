"""Remote procedure calls: workers, calls, and the end of a job (docs/distributed.md)."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from flambeau._loading.lazy import attributes
from flambeau.distributed.rpc import _current, _starting
from flambeau.distributed.rpc._agent import Agent
from flambeau.distributed.rpc._calling import async_call, seconds_of, start_remote, sync_call
from flambeau.distributed.rpc._meetings import LAST, meet
from flambeau.distributed.rpc._rref import RRef
from flambeau.distributed.rpc._worker_info import WorkerInfo
from flambeau.distributed.rpc.constants import DEFAULT_SHUTDOWN_TIMEOUT, UNSET_RPC_TIMEOUT
from flambeau.distributed.rpc.options import BackendType, TensorPipeRpcBackendOptions, checked_timeout
from flambeau.futures import Future

__all__ = [
    "RRef",
    "WorkerInfo",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def _require_initialized(func: Function) -> Function:
    """Return a function that raises RuntimeError in a process that is no worker."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _current.get(func.__name__)
        return func(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def init_rpc(
    name: str,
    backend: Any = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: Any = None,
) -> None:
    """Make this process a worker, which calls functions in other workers and runs those that others call.

    It returns when all workers are there. It also enables `distributed.autograd`.

    Args:
        name: a name of the worker's own.
        backend: None or ``rpc.BackendType.TENSORPIPE``; there is one transport.
        rank: the number of the worker; -1: the init method has it.
        world_size: the number of workers; None: the init method has it.
        rpc_backend_options: a `TensorPipeRpcBackendOptions`. Default: its defaults.
    Returns: None.
    Raises: RuntimeError if this process is a worker already, or the name is malformed or another worker's;
        TypeError for a backend or options of another type.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.rpc_sync("alone", flambeau.add, args=(flambeau.ones(2), 1))
        tensor([2., 2.])
        >>> rpc.shutdown()
    """
    if backend is not None and not isinstance(backend, BackendType):
        raise TypeError(f"init_rpc: expected a BackendType or None as backend, got {backend!r}")
    options = TensorPipeRpcBackendOptions() if rpc_backend_options is None else rpc_backend_options
    if not isinstance(options, TensorPipeRpcBackendOptions):
        raise TypeError(
            f"init_rpc: expected a TensorPipeRpcBackendOptions, got {type(rpc_backend_options).__name__}"
        )
    with _current.lock:
        if (agent := _current.find()) is not None:
            raise RuntimeError(
                f"init_rpc: expected a process without a worker, got {agent.info}: RPC is already initialized"
            )
        _starting.start(name, rank, world_size, options)


def shutdown(graceful: bool = True, timeout: float = DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Leave the job: end this worker's connections, its threads, and the values that it keeps for others.

    Args:
        graceful: whether to wait until all workers call `shutdown` and no call is being answered anywhere.
        timeout: how long to wait for that, in seconds; 0: without limit.
    Returns: None.
    Raises: RuntimeError after the time-out, or if another worker has ended; this worker has ended then, too.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.shutdown()
    """
    agent = _current.get("shutdown")
    seconds = checked_timeout("shutdown", timeout)
    try:
        if graceful:
            meet(agent, LAST, [w.id for w in agent.workers], None, seconds)
            agent.pool.drain()  # of the answers to other workers that wait for the end
    finally:
        with _current.lock:
            if _current.find() is agent:
                _starting.stop(agent)


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """Return the name and rank of a worker.

    Args:
        worker_name: its name; None: this worker.
    Returns: a `WorkerInfo`.
    Raises: RuntimeError for an unknown name.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.get_worker_info()
        WorkerInfo(id=0, name=alone)
        >>> rpc.shutdown()
    """
    agent = _current.get("get_worker_info")
    return agent.info if worker_name is None else agent.find(worker_name)


def _prepared(
    name: str, to: Any, func: Any, args: Any, kwargs: Any
) -> tuple[Agent, int, Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    agent = _current.get(name)
    if not callable(func):
        raise TypeError(f"{name}: function should be callable: expected a function, got {func!r}")
    if args is not None and not isinstance(args, Iterable):
        raise TypeError(f"{name}: expected a tuple as args, got {type(args).__name__}")
    return agent, agent.find(to).id, func, tuple(args or ()), dict(kwargs or {})


def rpc_sync(
    to: Any, func: Any, args: Any = None, kwargs: Any = None, timeout: float = UNSET_RPC_TIMEOUT
) -> Any:
    """Run a function in another worker and return its result.

    Args:
        to: the name, the rank or the `WorkerInfo` of the worker.
        func: a function that can be imported by its name there.
        args: its arguments.
        kwargs: its arguments by name.
        timeout: in seconds; 0: none; -1: the default of this worker.
    Returns: a copy of the result.
    Raises: the exception of the function, with its traceback in the message; RuntimeError after the time-out,
        or if the worker has ended.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.rpc_sync("alone", max, args=(2, 3))
        3
        >>> rpc.shutdown()
    """
    return sync_call(*_prepared("rpc_sync", to, func, args, kwargs), timeout)


def rpc_async(
    to: Any, func: Any, args: Any = None, kwargs: Any = None, timeout: float = UNSET_RPC_TIMEOUT
) -> Future[Any]:
    """Run a function in another worker and return a future of its result at once.

    Tensors are copied before it returns, so they can be changed then.

    Args:
        to: the name, the rank or the `WorkerInfo` of the worker.
        func: a function that can be imported by its name there.
        args: its arguments.
        kwargs: its arguments by name.
        timeout: in seconds; 0: none; -1: the default of this worker.
    Returns: a future, which has the result or the exception.
    Raises: RuntimeError for an unknown worker.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.rpc_async("alone", max, args=(2, 3)).wait()
        3
        >>> rpc.shutdown()
    """
    return async_call(*_prepared("rpc_async", to, func, args, kwargs), timeout)


def remote(
    to: Any, func: Any, args: Any = None, kwargs: Any = None, timeout: float = UNSET_RPC_TIMEOUT
) -> RRef[Any]:
    """Run a function in another worker, which keeps the result, and return a reference to it at once.

    Args:
        to: the name, the rank or the `WorkerInfo` of the worker.
        func: a function, or a class, that can be imported by its name there.
        args: its arguments.
        kwargs: its arguments by name.
        timeout: in seconds; 0: none; -1: the default of this worker. If it passes, `RRef.to_here` raises.
    Returns: an `RRef`.
    Raises: RuntimeError for an unknown worker.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.remote("alone", max, args=(2, 3)).to_here()
        3
        >>> rpc.shutdown()
    """
    return start_remote(RRef._of, *_prepared("remote", to, func, args, kwargs), timeout)


def get_rpc_timeout() -> float:
    """Return the default time-out of calls.

    Returns: seconds.
    Raises: RuntimeError in a process that is no worker.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0", rpc_timeout=5)
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.get_rpc_timeout()
        5.0
        >>> rpc.shutdown()
    """
    return _current.get("get_rpc_timeout").timeout


def _set_rpc_timeout(timeout: float) -> None:
    """Set the default time-out of calls."""
    _current.get("_set_rpc_timeout").timeout = checked_timeout("_set_rpc_timeout", timeout)


_rounds: defaultdict[tuple[int, ...], itertools.count[int]] = defaultdict(itertools.count)


def _all_gather(obj: Any, worker_names: Any = None, timeout: float = UNSET_RPC_TIMEOUT) -> dict[str, Any]:
    """Return the objects of all workers, or of some of them, which all call it: name -> object."""
    agent = _current.get("_all_gather")
    names = [w.name for w in agent.workers] if worker_names is None else list(worker_names)
    ranks = tuple(sorted({agent.find(name).id for name in names}))
    if agent.info.id not in ranks:
        raise RuntimeError(f"_all_gather: expected this worker, {agent.info.name}, among them, got {names}")
    key = f"gather {ranks} {next(_rounds[ranks])}"
    found = meet(agent, key, list(ranks), obj, seconds_of("_all_gather", agent, timeout))
    return {agent.workers[rank].name: found[rank] for rank in ranks}


def _barrier(worker_names: Any) -> None:
    """Wait until all of some workers have called it."""
    _all_gather(None, worker_names)


for _function in (
    init_rpc,
    shutdown,
    get_worker_info,
    rpc_sync,
    rpc_async,
    remote,
    get_rpc_timeout,
):
    _function.__module__ = "flambeau.distributed.rpc"

__getattr__, __dir__ = attributes(__name__)
