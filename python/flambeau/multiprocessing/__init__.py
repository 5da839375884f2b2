"""Python's multiprocessing, whose queues and pipes send tensors by their memory instead of copying them."""

from __future__ import annotations

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403

from flambeau._loading.lazy import attributes
from flambeau._object import shared_memory
from flambeau.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

_STRATEGIES = frozenset(("file_descriptor",))

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


def get_all_sharing_strategies() -> set[str]:
    """Return the ways in which memory is shared: by descriptors of files without a name.

    Returns: the names that `set_sharing_strategy` takes.

    Example:
        >>> "file_descriptor" in flambeau.multiprocessing.get_all_sharing_strategies()
        True
    """
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """Return the way in which memory is shared.

    Returns: one of `get_all_sharing_strategies`.

    Example:
        >>> flambeau.multiprocessing.get_sharing_strategy()
        'file_descriptor'
    """
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how memory is shared, among `get_all_sharing_strategies`.

    Args:
        new_strategy: its name.

    Returns: None.

    Raises: AssertionError for another name.

    Example:
        >>> flambeau.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"set_sharing_strategy: invalid sharing strategy: expected one of {set(_STRATEGIES)}, got "
            f"{new_strategy!r}"
        )


shared_memory.register()

__getattr__, __dir__ = attributes(__name__)
