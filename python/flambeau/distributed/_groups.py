"""The process groups of this process: which there are, and who is in them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NewType

from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._store import Store

__all__ = [
    "GroupMember",
    "GroupName",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "is_available",
    "is_initialized",
]

GroupName = NewType("GroupName", str)
NON_GROUP_MEMBER = -100  # what new_group returns in a process that is not in the group


class _World:
    """The groups of this process, and what numbers the next one gets."""

    def __init__(self) -> None:
        self.default_pg: ProcessGroup | None = None
        self.groups: dict[str, ProcessGroup] = {}
        self.pg_map: dict[ProcessGroup, tuple[str, Store | None]] = {}  # group -> backend and store
        self.count = 0  # of groups ever made, the same in all processes
        self.local_counts: dict[tuple[int, ...], int] = {}  # the same of groups that only their members know

    @property
    def pg_names(self) -> dict[ProcessGroup, str]:
        """Group -> its name."""
        return {found: name for name, found in self.groups.items()}

    @property
    def pg_group_ranks(self) -> dict[ProcessGroup, dict[int, int]]:
        """Group -> rank in the job -> rank in the group."""
        return {g: {rank: i for i, rank in enumerate(g.global_ranks)} for g in self.groups.values()}


world = _World()


class _HasWorld(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; None before `init_process_group`."""
        return world.default_pg

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        world.default_pg = value


class group(metaclass=_HasWorld):
    """Holder of ``group.WORLD``, the group of all processes, which is None before `init_process_group`.

    Example:
        >>> flambeau.distributed.group.WORLD is None
        True
    """


class GroupMember(metaclass=_HasWorld):
    """Holder of ``NON_GROUP_MEMBER``, which `new_group` returns in a process that is not in the group.

    Example:
        >>> flambeau.distributed.GroupMember.WORLD is None
        True
    """

    NON_GROUP_MEMBER = NON_GROUP_MEMBER


def is_available() -> bool:
    """Tell whether this build has distributed communication.

    Returns: True. `is_mpi_available` tells whether processes can be connected.

    Example:
        >>> flambeau.distributed.is_available()
        True
    """
    return True


def is_initialized() -> bool:
    """Tell whether `init_process_group` has been called.

    Returns: a bool.

    Example:
        >>> flambeau.distributed.is_initialized()
        False
    """
    return world.default_pg is not None


def default_group() -> ProcessGroup:
    """Return the group of all processes. Raises: ValueError before `init_process_group`."""
    if world.default_pg is None:
        raise ValueError(
            "distributed: expected an initialized group, got none: Default process group has not been "
            "initialized, please make sure to call init_process_group."
        )
    return world.default_pg


def member_of(given: Any, name: str) -> ProcessGroup | None:
    """Return the group that an argument means; None, with a warning, if this process is not in it."""
    if given is None:
        return default_group()
    if given is NON_GROUP_MEMBER or given == NON_GROUP_MEMBER:
        warnings.warn(
            f"Running {name} on global rank {get_rank()} which does not belong to the given group.",
            UserWarning,
            stacklevel=3,
        )
        return None
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"{name}: expected a ProcessGroup or None as group, got {type(given).__name__}")
    if given.group_name not in world.groups and not given.global_ranks:
        raise ValueError(
            f"{name}: expected a group of new_group: Invalid process group specified, got {given!r}"
        )
    return given


def _known(given: ProcessGroup | None, name: str) -> ProcessGroup:
    if given is None:
        return default_group()
    if not isinstance(given, ProcessGroup):
        kind = ValueError if given is NON_GROUP_MEMBER or given == NON_GROUP_MEMBER else TypeError
        raise kind(
            f"{name}: expected a group that this process is in, got Invalid process group specified: "
            f"{given!r}"
        )
    if given.global_ranks and given.group_name not in world.groups:
        raise ValueError(f"{name}: expected a process group that exists, got a destroyed one")
    return given


def get_rank(group: ProcessGroup | int | None = None) -> int:
    """Return this process's rank.

    Args:
        group: the group; None: all processes.
    Returns: the rank in the group; -1 in a process that is not in it.
    Raises: ValueError before `init_process_group`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_rank(), dist.get_world_size()
        (0, 1)
        >>> dist.destroy_process_group()
    """
    default = default_group()
    if isinstance(group, int):  # GroupMember.NON_GROUP_MEMBER
        return -1
    return default.rank() if group is None else _known(group, "get_rank").rank()


def get_world_size(group: ProcessGroup | int | None = None) -> int:
    """Return the number of processes.

    Args:
        group: the group; None: all processes.
    Returns: the number of processes in the group; -1 in a process that is not in it.
    Raises: ValueError before `init_process_group`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_world_size()
        1
        >>> dist.destroy_process_group()
    """
    default = default_group()
    if isinstance(group, int):  # GroupMember.NON_GROUP_MEMBER
        return -1
    return (default if group is None else group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """Return the name of a group's backend.

    Args:
        group: the group; None: all processes.
    Returns: the name, in lower case.
    Raises: ValueError before `init_process_group`, or for a group of other processes.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_backend()
        'gloo'
        >>> dist.destroy_process_group()
    """
    return _known(group, "get_backend").backend_name


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """Return a group's backends by device.

    Args:
        group: the group; None: all processes.
    Returns: text such as "cpu:gloo".
    Raises: ValueError before `init_process_group`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_backend_config()
        'cpu:gloo'
        >>> dist.destroy_process_group()
    """
    return f"cpu:{get_backend(group)}"


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Return the ranks in the job of a group's processes.

    Args:
        group: the group; None: all processes.
    Returns: a list, in the order of the group.
    Raises: ValueError before `init_process_group`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_process_group_ranks(None)
        [0]
        >>> dist.destroy_process_group()
    """
    return list(_known(group, "get_process_group_ranks").global_ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the rank in the job of a rank in a group.

    Args:
        group: the group.
        group_rank: the rank in the group.
    Returns: the rank in the job.
    Raises: ValueError if the group has no such rank.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_global_rank(dist.group.WORLD, 0)
        0
        >>> dist.destroy_process_group()
    """
    ranks = _known(group, "get_global_rank").global_ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(
            f"get_global_rank: expected a rank from 0 to {len(ranks) - 1}, got Group rank {group_rank}, "
            "which is not part of group"
        )
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank in a group of a rank in the job.

    Args:
        group: the group.
        global_rank: the rank in the job.
    Returns: the rank in the group.
    Raises: ValueError if the process is not in the group.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.get_group_rank(dist.group.WORLD, 0)
        0
        >>> dist.destroy_process_group()
    """
    ranks = _known(group, "get_group_rank").global_ranks
    if global_rank not in ranks:
        raise ValueError(
            f"get_group_rank: expected one of the ranks {list(ranks)}, got Global rank {global_rank}, which "
            "is not part of group"
        )
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's rank on its host, as launchers set it in LOCAL_RANK.

    Args:
        fallback_rank: the result without the variable.
    Returns: the rank.
    Raises: RuntimeError without the variable and `fallback_rank`.

    Example:
        >>> flambeau.distributed.get_node_local_rank(fallback_rank=0)
        0
    """
    import os

    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "get_node_local_rank: expected LOCAL_RANK in the environment, or fallback_rank, got neither: "
        "LOCAL_RANK is not in the environment"
    )


def get_pg_count() -> int:
    """Return the number of groups of this process.

    Returns: an int.

    Example:
        >>> flambeau.distributed.get_pg_count()
        0
    """
    return len(world.groups)


def all_groups() -> Iterator[ProcessGroup]:
    """Yield the groups, the newest first."""
    yield from reversed(list(world.groups.values()))


def seconds_of(timeout: timedelta, name: str) -> timedelta:
    """Return a time-out. Raises: TypeError for another type."""
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"{name}: Expected timeout argument to be of type datetime.timedelta, got {timeout!r}"
        )
    return timeout


group.__module__ = GroupMember.__module__ = "flambeau.distributed"
