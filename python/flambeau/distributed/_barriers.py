"""Barriers: functions that return when all processes of a group have called them."""

from __future__ import annotations

from datetime import timedelta

from flambeau.distributed import _checks
from flambeau.distributed._groups import member_of
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import BarrierOptions
from flambeau.distributed._work import Work

__all__ = ["barrier", "monitored_barrier"]


def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: list[int] | None = None
) -> Work | None:
    """Wait until all processes call this.

    Args: As for `all_reduce`, and
        device_ids: no effect.
    Returns: a `Work` with `async_op`; None otherwise.
    Raises: TypeError unless `device_ids` is a list; DistBackendError if a process ends or time runs out.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.barrier()
        >>> dist.destroy_process_group()
    """
    found = member_of(group, "barrier")
    if found is None:
        return None
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError(f"barrier: expected List[int] for device_ids, got {device_ids!r}")
    opts = BarrierOptions(device_ids or [], asyncOp=async_op)
    return _checks.ended(found.barrier(opts), async_op)


_barriers: dict[str, int] = {}  # group -> monitored barriers so far


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all processes call this, and name those that do not.

    Args: As for `all_reduce`, and
        timeout: how long to wait. Default: the group's.
        wait_all_ranks: whether rank 0 names all that are missing, instead of the first.
    Returns: None.
    Raises: RuntimeError that names the missing ranks, in rank 0 and in those that came.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.monitored_barrier()
        >>> dist.destroy_process_group()
    """
    found = member_of(group, "monitored_barrier")
    if found is None:
        return
    from flambeau.distributed._monitored_barrier import wait_for_all

    number = _barriers.get(found.group_name, 0)
    _barriers[found.group_name] = number + 1
    wait_for_all(found, number, found.default_timeout if timeout is None else timeout, wait_all_ranks)
