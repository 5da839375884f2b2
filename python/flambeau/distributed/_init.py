"""Making and destroying process groups."""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from flambeau.distributed import _job, _watched_group
from flambeau.distributed._backend import Backend, BackendConfig
from flambeau.distributed._engine_group import EngineGroup
from flambeau.distributed._groups import NON_GROUP_MEMBER, all_groups, default_group, seconds_of, world
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._store import PrefixStore, Store
from flambeau.distributed._tcp_store import TCPStore
from flambeau.distributed._watched_group import WatchedGroup
from flambeau.distributed.constants import default_pg_timeout
from flambeau.distributed.rendezvous import rendezvous

__all__ = [
    "destroy_process_group",
    "init_process_group",
    "is_backend_available",
    "is_gloo_available",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
]

_SERVED = (Backend.GLOO, Backend.MPI)  # by the engine
_WITHOUT = {
    Backend.NCCL: "Distributed package doesn't have NCCL built in: there is no GPU",
    Backend.UCC: "Distributed package doesn't have UCC built in",
    Backend.XCCL: "Distributed package doesn't have XCCL built in",
}
_log = logging.getLogger("flambeau.distributed")
_said: set[str] = set()  # which backends' service has been logged


def _chosen(backend: Any, name: str) -> str:
    """Return the backend for tensors of the CPU. Raises: RuntimeError, ValueError for one that is missing."""
    config = BackendConfig(Backend.GLOO if backend is None else backend)
    found = config.get_device_backend_map().get("cpu")
    if found is None:
        found = next(iter(config.get_device_backend_map().values()))
    if found in _SERVED or found.upper() in Backend._plugins:
        return found
    if found in _WITHOUT:
        raise RuntimeError(f"{name}: expected a backend for the CPU, got {found}: {_WITHOUT[found]}")
    raise AssertionError(f"{name}: expected one of {Backend.backend_list}, got Unknown backend type {found}")


def _store_host(store: Store) -> str:
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store.host if isinstance(store, TCPStore) else "127.0.0.1"


def _make(
    backend: str,
    ranks: Sequence[int],
    rank: int,
    store: Store,
    timeout: timedelta,
    options: Any,
    group_name: str,
) -> ProcessGroup:
    """Return a group, which all of its processes make at the same time."""
    mine, size = list(ranks).index(rank), len(ranks)
    if backend.upper() in Backend._plugins:
        made = _of_plugin(backend, store, mine, ranks, timeout, options, group_name)
    else:
        communicator = None
        if size > 1:
            job = _job.current()
            assert job is not None  # a group of several processes is made after the job
            tag = zlib.crc32(group_name.encode()) & 0x3FFF
            patience = timeout if world.default_pg is None else max(timeout, world.default_pg.default_timeout)
            communicator = job.engine.create(list(ranks), tag, patience.total_seconds())
        kind = WatchedGroup if _watched_group.is_wanted() else EngineGroup
        made = kind(mine, size, communicator, timeout)
        if backend == Backend.GLOO and backend not in _said and rank == 0:
            _said.add(backend)
            _log.info("the backend gloo is served by MPI, as mpi is")
    made.group_name, made.backend_name, made.global_ranks = group_name, backend, tuple(ranks)
    made.store, made.default_timeout = store, timeout
    world.groups[group_name] = made
    world.pg_map[made] = backend, store
    return made


def _of_plugin(
    backend: str, store: Store, rank: int, ranks: Sequence[int], timeout: timedelta, options: Any, name: str
) -> ProcessGroup:
    plugin = Backend._plugins[backend.upper()]
    if plugin.extended_api:
        facts = SimpleNamespace(
            store=store,
            group_rank=rank,
            group_size=len(ranks),
            timeout=timeout,
            group_id=name,
            global_ranks_in_group=list(ranks),
        )
        made = plugin.creator_fn(facts, options)
    else:
        made = plugin.creator_fn(store, rank, len(ranks), timeout)
    if not isinstance(made, ProcessGroup):
        raise TypeError(
            f"init_process_group: expected a ProcessGroup of backend {backend}, got {type(made).__name__}"
        )
    made._rank, made._size = rank, len(ranks)
    return made


def _expected_size(init_method: str | None, world_size: int) -> int:
    """Return the number of processes as far as it is known without the others; 0 if it is not."""
    if world_size > 0:
        return world_size
    query = dict(parse_qsl(urlsplit(init_method or "").query))
    text = query.get("world_size") or os.environ.get("WORLD_SIZE") or "0"
    return int(text) if text.isdigit() else 0


def _find(
    store: Store | None, init_method: str | None, rank: int, world_size: int, timeout: timedelta
) -> tuple[Store, int, int]:
    """Return store, rank and number of processes from what `init_process_group` was given."""
    if store is not None:
        if world_size < 1 or rank < 0:
            raise AssertionError(
                "init_process_group: expected rank and world_size with a store, got "
                f"rank={rank}, world_size={world_size}"
            )
        return store, rank, world_size
    if init_method is None and rank < 0 and _job.started_by_mpi():
        job, store = _job.join_launched(timeout)
        return store, job.rank, job.size
    found = rendezvous(init_method or "env://", rank, world_size, timeout=timeout)
    store, rank, world_size = next(iter(found))
    store.set_timeout(timeout)
    return store, rank, world_size


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Connect this process with the others of its job.

    All processes call this. MPI connects a process once: a second call, after `destroy_process_group`, must
    have the same processes in the same order. A job of one process needs no MPI.

    Args:
        backend: "mpi" or "gloo", which MPI serves both; the name of a registered backend; or pairs of device
            and backend. Default: "gloo".
        init_method: a URL for `rendezvous`. Default: "env://", or MPI itself in a process that mpiexec
            started.
        timeout: how long an operation may take. Default: 30 minutes.
        world_size: the number of processes; -1: the init method has it.
        rank: this process's rank; -1: the init method has it.
        store: a store that all processes share, in place of `init_method`.
        group_name: no effect.
        pg_options: options for a registered backend.
        device_id: no effect.
        _ranks: no effect.
    Returns: None.
    Raises: ValueError if the group is initialized already, or rank or size are missing; AssertionError for a
        store with an init method or without rank and size; RuntimeError if the backend or the package mpich
        is missing; DistNetworkError and DistStoreError if the others do not come.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.is_initialized()
        True
        >>> dist.destroy_process_group()
    """
    name = "init_process_group"
    if world.default_pg is not None:
        raise ValueError(
            f"{name}: expected no group, got trying to initialize the default process group twice!"
        )
    if store is not None and init_method is not None:
        raise AssertionError(f"{name}: expected a store or an init method, got both: Cannot specify both")
    limit = seconds_of(default_pg_timeout if timeout is None else timeout, name)
    chosen = _chosen(backend, name)
    if chosen in _SERVED and _expected_size(init_method, world_size) != 1:
        _job.open_engine()  # raises an error if it is missing, before waiting for the others
    store, rank, world_size = _find(store, init_method, rank, world_size, limit)
    if not 0 <= rank < world_size:
        raise ValueError(f"{name}: expected a rank from 0 to {world_size - 1}, got {rank}")
    if world_size > 1 and chosen in _SERVED and not _job.started_by_mpi():
        _job.join(PrefixStore(f"job/{world.count}", store), rank, world_size, limit, _store_host(store))
    part = PrefixStore("default_pg", store)
    try:
        world.default_pg = _make(chosen, range(world_size), rank, part, limit, pg_options, str(world.count))
    finally:
        world.count += 1


def destroy_process_group(group: ProcessGroup | int | None = None) -> None:
    """Destroy a group; operations of it that still run fail.

    Args:
        group: the group; None and the default group: all groups.
    Returns: None.
    Raises: ValueError for a group that does not exist; AssertionError before `init_process_group`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.destroy_process_group()
        >>> dist.is_initialized()
        False
    """
    if isinstance(group, int):  # GroupMember.NON_GROUP_MEMBER
        return
    if group is None and world.default_pg is None:
        raise AssertionError("destroy_process_group: expected a group, got Process group cannot be None")
    if group is not None and world.groups.get(group.group_name) is not group:
        raise ValueError(
            "destroy_process_group: expected a group that exists, got Invalid process group specified"
        )
    ended = list(all_groups()) if group is None or group is world.default_pg else [group]
    for one in ended:
        if isinstance(one, EngineGroup):
            one.close()
        del world.groups[one.group_name], world.pg_map[one]
    if world.default_pg in ended:
        world.default_pg = None


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Make a group of some of the processes.

    All processes of the job call this, in the same order of groups; with `use_local_synchronization` only
    those of the group.

    Args:
        ranks: the ranks; None: all.
        timeout: how long an operation may take. Default: that of the default group.
        backend: the backend. Default: that of the default group.
        pg_options: options for a registered backend.
        use_local_synchronization: whether only the processes of the group call this.
        group_desc: a text about the group.
        device_id: no effect.
        sort_ranks: whether ranks in the group follow ranks in the job, instead of the order of `ranks`.
    Returns: the group, or ``GroupMember.NON_GROUP_MEMBER`` in a process that is not in it.
    Raises: ValueError before `init_process_group`, and for ranks that do not exist or are there twice;
        TypeError for ranks that are no integers.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.new_group([0]).size()
        1
        >>> dist.destroy_process_group()
    """
    name, default = "new_group", default_group()
    chosen = default.backend_name if backend is None else _chosen(backend, name)
    limit = default.default_timeout if timeout is None else seconds_of(timeout, name)
    members = list(range(default.size()) if ranks is None else ranks)
    if not all(isinstance(member, int) for member in members):
        raise TypeError(f"{name}: expected integers as ranks, got {members}")
    members = sorted(members) if sort_ranks else members
    if len(members) > default.size():
        raise ValueError(f"{name}: expected a world size of at most {default.size()}, got {len(members)}")
    if members and not (min(members) >= 0 and max(members) < default.size()):
        raise ValueError(
            f"{name}: The new group's rank should be within the world_size set by init_process_group: "
            f"expected ranks from 0 to {default.size() - 1}, got {members}"
        )
    if len(set(members)) != len(members):
        raise ValueError(
            f"{name}: ranks list must not contain duplicate entries: expected each rank once, got {members}"
        )
    group_name = _next_name(tuple(members), use_local_synchronization)
    if default.rank() not in members:
        return NON_GROUP_MEMBER
    assert default.store is not None  # every group has one
    part = PrefixStore(f"{group_name}", default.store)
    made = _make(chosen, members, default.rank(), part, limit, pg_options, group_name)
    made.group_desc = group_desc or ""
    return made


def _next_name(members: tuple[int, ...], local: bool) -> str:
    if local:
        number = world.local_counts.get(members, 0)
        world.local_counts[members] = number + 1
        return f"local-{'-'.join(map(str, members))}-{number}"
    number, world.count = world.count, world.count + 1
    return str(number)


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Divide the processes into groups of equal size, by consecutive ranks.

    Args:
        group_size: the number of processes in each group.
        group: the group to divide; None: all processes.
        timeout: how long an operation may take.
        backend: the backend.
        pg_options: options for a registered backend.
        group_desc: a text about the groups.
    Returns: this process's group, and the list of all.
    Raises: ValueError if the size does not divide the number of processes.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mine, every = dist.new_subgroups(1)
        >>> mine.size(), len(every)
        (1, 1)
        >>> dist.destroy_process_group()
    """
    whole = default_group() if group is None else group
    if group_size is None:
        raise ValueError(
            "new_subgroups: expected group_size without accelerators, got None: Default group size "
            "only takes effect when an accelerator is available"
        )
    if group_size <= 0:
        raise ValueError(f"new_subgroups: expected a positive group_size, got {group_size}")
    if whole.size() < group_size:
        raise ValueError(f"new_subgroups: expected at most {whole.size()} as group_size, got {group_size}")
    if whole.size() % group_size:
        raise ValueError(
            f"new_subgroups: expected a divisor of {whole.size()}, got {group_size}: The world size must be "
            "divisible by 'group_size'"
        )
    ranks = list(whole.global_ranks)
    parts = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Divide the processes into groups.

    Args:
        ranks_per_subgroup_list: the ranks of each group; no rank may be in two.
        timeout: how long an operation may take.
        backend: the backend.
        pg_options: options for a registered backend.
        group_desc: a text about the groups.
    Returns: this process's group, None if it is in none; and the list of all.
    Raises: ValueError for an empty list, or a rank in two groups.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.new_subgroups_by_enumeration([[0]])[0].rank()
        0
        >>> dist.destroy_process_group()
    """
    name = "new_subgroups_by_enumeration"
    if not ranks_per_subgroup_list:
        raise ValueError(f"{name}: expected at least one list of ranks, got none")
    every = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(every)) != len(every):
        raise ValueError(
            f"{name}: expected each rank in one group, got {list(ranks_per_subgroup_list)}: ranks "
            "have appeared in multiple subgroups"
        )
    mine, groups = None, []
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        if default_group().rank() in ranks:
            mine = made
    return mine, groups


def is_mpi_available() -> bool:
    """Tell whether MPI's library is there, as the extra "distributed" installs it.

    Returns: a bool.

    Example:
        >>> flambeau.distributed.is_mpi_available() == flambeau.distributed.is_gloo_available()
        True
    """
    return _job.mpi_path() is not None


def is_gloo_available() -> bool:
    """Tell whether the backend "gloo" can connect processes, which MPI serves.

    Returns: a bool.

    Example:
        >>> flambeau.distributed.is_gloo_available() == flambeau.distributed.is_mpi_available()
        True
    """
    return is_mpi_available()


def is_nccl_available() -> bool:
    """Tell whether NCCL can connect processes: no, there is no GPU.

    Returns: False.

    Example:
        >>> flambeau.distributed.is_nccl_available()
        False
    """
    return False


def is_ucc_available() -> bool:
    """Tell whether UCC can connect processes: no.

    Returns: False.

    Example:
        >>> flambeau.distributed.is_ucc_available()
        False
    """
    return False


def is_xccl_available() -> bool:
    """Tell whether XCCL can connect processes: no.

    Returns: False.

    Example:
        >>> flambeau.distributed.is_xccl_available()
        False
    """
    return False


def is_backend_available(backend: str) -> bool:
    """Tell whether a backend can connect processes.

    Args:
        backend: its name.
    Returns: a bool; True for registered backends.

    Example:
        >>> flambeau.distributed.is_backend_available("nccl")
        False
    """
    if backend.lower() in _SERVED:
        return is_mpi_available()
    return backend.upper() in Backend._plugins


def is_torchelastic_launched() -> bool:
    """Tell whether ``flambeau.distributed.run`` started the process.

    Returns: a bool.

    Example:
        >>> flambeau.distributed.is_torchelastic_launched()
        False
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None
