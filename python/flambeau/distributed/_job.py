"""MPI in this process: it is initialised once, for the job that the first process group belongs to."""

from __future__ import annotations

import atexit
import ctypes
import os
import secrets
import socket
import sys
import sysconfig
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import ModuleType

from flambeau.distributed import _pmi
from flambeau.distributed._store import PrefixStore, Store
from flambeau.distributed._tcp_store import TCPStore
from flambeau.distributed._watch import Watch

_NAMES = ("libmpi_abi.so.1", "libmpi_abi.so.0")
_LEAVE_WITHIN = 2.0  # seconds for MPI's end under a process manager
_EXTRA = "the package mpich is missing: pip install 'flambeau[distributed]'"


def _candidates() -> Iterator[Path]:
    if named := os.environ.get("FLAMBEAU_MPI_LIBRARY"):
        yield Path(named)
        return
    folders = [sysconfig.get_path("data"), sys.prefix, sys.base_prefix]
    for folder in dict.fromkeys(folders):
        for name in _NAMES:
            yield Path(folder, "lib", name)


@cache
def mpi_path() -> str | None:
    """Return the path of MPI's library, of FLAMBEAU_MPI_LIBRARY or the package mpich; None without one."""
    return next((str(path) for path in _candidates() if path.is_file()), None)


class Job:
    """The processes that this process has been connected with.

    Args:
        engine: the module of the engine.
        name: the name of the job, which all processes know.
        rank: this process's rank.
        size: the number of processes.
    """

    def __init__(self, engine: ModuleType, name: str, rank: int, size: int) -> None:
        self.engine, self.name, self.rank, self.size = engine, name, rank, size
        self.watch: Watch | None = None

    def leave(self) -> None:
        """End communication, at the end of the process."""
        if started_by_mpi():
            self.engine.finalize(_LEAVE_WITHIN)
        self.engine.stop()
        if self.watch is not None:
            self.watch.leave()


_job: Job | None = None


def current() -> Job | None:
    """Return the job of this process, or None before the first."""
    return _job


def started_by_mpi() -> bool:
    """Whether an MPI launcher, such as mpiexec, started the process."""
    return _under_launcher


_under_launcher = "PMI_RANK" in os.environ and ("PMI_FD" in os.environ or "PMI_PORT" in os.environ)


def open_engine() -> ModuleType:
    """Return the engine, which has opened MPI's library. Raises: RuntimeError without one."""
    path = mpi_path()
    if path is None:
        raise RuntimeError(f"init_process_group: expected an MPI library, got none: {_EXTRA}")
    from flambeau.distributed import _engine

    # Shared memory within a host; between hosts OFI, whose TCP also works where there is only a loopback.
    os.environ.setdefault("MPIR_CVAR_CH4_NETMOD", "ofi")
    os.environ.setdefault("FI_PROVIDER", "tcp")
    try:
        _engine.load(path)
    except RuntimeError as error:
        raise RuntimeError(f"init_process_group: {error}") from None
    return _engine


def _host_key() -> str:
    """Return what tells hosts, and containers with their own shared memory, apart."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    text = boot.read_text().strip() if boot.is_file() else ""
    shared = Path("/dev/shm")
    return f"{socket.gethostname()}/{text}/{shared.stat().st_ino if shared.is_dir() else 0}"


def _gather(store: Store, name: str, rank: int, size: int, value: str) -> list[str]:
    store.set(f"{name}/{rank}", value)
    return [store.get(f"{name}/{i}").decode() for i in range(size)]


def join(store: Store, rank: int, size: int, timeout: timedelta, host: str) -> Job:
    """Return the job of this process with the others of a store, and initialise MPI if it has not been.

    Args:
        store: what the processes share.
        rank: this process's rank.
        size: the number of processes.
        timeout: how long to wait for the others.
        host: the address at which the others reach rank 0.

    Raises: RuntimeError if the library is missing, or some of the processes belong to another job.
    """
    global _job
    engine = open_engine()
    known = f"{_job.name} {_job.rank} {_job.size}" if _job is not None else ""
    names = _gather(store, "job", rank, size, known)
    same = [f"{names[0].partition(' ')[0]} {i} {size}" for i in range(size)]
    if _job is not None and names == same:
        return _job
    if any(names):
        raise RuntimeError(
            "init_process_group: expected the processes, in the order of ranks, of the first process group "
            f"of each process, since MPI connects a process once; got jobs {names}"
        )
    _job = _start(engine, store, rank, size, timeout, host)
    atexit.register(_job.leave)
    return _job


def _start(engine: ModuleType, store: Store, rank: int, size: int, timeout: timedelta, host: str) -> Job:
    hosts = _gather(store, "host", rank, size, _host_key())
    if rank == 0:
        store.set("name", f"flambeau-{secrets.token_hex(8)}")
    name = store.get("name").decode()
    one_host = len(set(hosts)) == 1
    watch = Watch(store, rank, size, "127.0.0.1" if one_host else host, engine.departed)
    _pmi.serve(PrefixStore("pmi", store), rank, size, name, _pmi.mapping_of(hosts))
    try:
        found = engine.start(timeout.total_seconds())
    except RuntimeError as error:
        raise RuntimeError(f"init_process_group: {error}") from None
    finally:
        for variable in ("PMI_FD", "PMI_RANK", "PMI_SIZE"):  # for this process, not for its children
            os.environ.pop(variable, None)
    if found != (rank, size):
        raise RuntimeError(f"init_process_group: expected rank {rank} of {size} from MPI, got {found}")
    _gather(store, "up", rank, size, "")
    _unlink_segments()
    job = Job(engine, name, rank, size)
    job.watch = watch
    return job


def _unlink_segments() -> None:
    """Remove the names of MPI's shared memory, which all processes have opened.

    The system frees the memory when the last process ends.

    MPI removes them when it is finalised, which killed processes do not do.
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        name = line.rpartition(" ")[2]
        if name.startswith("/dev/shm/mpich_shm_"):
            Path(name).unlink(missing_ok=True)


def join_launched(timeout: timedelta) -> tuple[Job, Store]:
    """Initialise MPI in a process that its launcher started.

    Returns: the job, and a store that its first process serves.
    """
    global _job
    engine = open_engine()
    try:
        rank, size = engine.start(timeout.total_seconds())
        everyone = engine.create(list(range(size)), 0, timeout.total_seconds())
    except RuntimeError as error:
        raise RuntimeError(f"init_process_group: {error}") from None
    served = TCPStore(socket.gethostname(), 0, is_master=True, timeout=timeout) if rank == 0 else None
    text = bytearray(f"{served.host} {served.port}".encode() if served is not None else b"").ljust(512)
    place = (ctypes.c_char * len(text)).from_buffer(text)
    request = everyone.broadcast(ctypes.addressof(place), len(text), 0, False)
    if not request.wait(timeout.total_seconds()) or request.error():
        raise RuntimeError(f"init_process_group: {request.error() or 'timed out'}")
    host, port = bytes(text).decode().split()
    store = served or TCPStore(host, int(port), timeout=timeout)
    if _job is None:
        name = store.get("name").decode() if rank else secrets.token_hex(8)
        if rank == 0:
            store.set("name", name)
        _job = Job(engine, name, rank, size)
        _job.watch = Watch(store, rank, size, host, engine.departed)
        atexit.register(_job.leave)
    return _job, store
