"""PyTorch's place of the functions and classes of process groups."""

from __future__ import annotations

from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.distributed import *  # noqa: F403
from flambeau.distributed._coalescing import CoalescingManager as _CoalescingManager  # noqa: F401
from flambeau.distributed._coalescing import coalescing_manager as _coalescing_manager  # noqa: F401
from flambeau.distributed._groups import NON_GROUP_MEMBER, default_group, world
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._store import Store

_world = world
_pg_map = world.pg_map


def _get_default_group() -> ProcessGroup:
    """Return the group of all processes. Raises: ValueError before `init_process_group`."""
    return default_group()


def _get_default_store() -> Store | None:
    """Return the store of the group of all processes."""
    return default_group().store


def _rank_not_in_group(group: Any) -> bool:
    """Whether this process is not in a group."""
    return group is not None and group == NON_GROUP_MEMBER


def _get_pg_default_device(group: ProcessGroup | None = None) -> Any:
    """Return the device of a group's tensors."""
    import flambeau

    return flambeau.device("cpu")


__getattr__, __dir__ = attributes(
    __name__, dict.fromkeys(("DeviceMesh", "ProcessGroupGloo"), "flambeau.distributed")
)
