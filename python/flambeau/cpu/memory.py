"""The memory of the CPU: counts of its allocator, a history of what it did, and snapshots of its blocks."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from flambeau import _C

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "reset_peak_memory_stats",
]

_CONTEXTS = (None, "state", "alloc", "all")
_ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot")


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the counts of the allocator.

    Args:
        device: "cpu", as there is one. Default: "cpu".
    Returns: a dict. "allocated_bytes" are in tensors, and "peak_allocated_bytes" is the most since
        `reset_peak_memory_stats`, exact to 256 KB a thread. "cached_bytes" are kept for later tensors; small
        blocks that other threads keep are not counted. "allocations" counts calls, and "cache_hits" those
        that found a small block of their thread or a large block.
    Raises: ValueError for another device.
    See also: cpu.memory._snapshot

    Example:
        >>> before = flambeau.cpu.memory.memory_stats()["allocated_bytes"]
        >>> x = flambeau.ones(1000)
        >>> flambeau.cpu.memory.memory_stats()["allocated_bytes"] - before
        4000
    """
    _check_device("memory_stats", device)
    return _C._memory_stats()


def memory_allocated(device: Any = None) -> int:
    """Return the number of bytes in tensors.

    Args:
        device: "cpu", as there is one. Default: "cpu".
    Returns: the number of bytes.
    Raises: ValueError for another device.
    See also: cpu.memory.max_memory_allocated, cpu.memory.memory_reserved

    Example:
        >>> before = flambeau.cpu.memory.memory_allocated()
        >>> x = flambeau.ones(1000)
        >>> flambeau.cpu.memory.memory_allocated() - before
        4000
    """
    _check_device("memory_allocated", device)
    return int(_C._memory_stats()["allocated_bytes"])


def max_memory_allocated(device: Any = None) -> int:
    """Return the largest number of bytes that tensors had at one time, exact to 256 KB a thread.

    Args:
        device: "cpu", as there is one. Default: "cpu".
    Returns: the number of bytes since `reset_peak_memory_stats`, or since the start of the program.
    Raises: ValueError for another device.
    See also: cpu.memory.memory_allocated

    Example:
        >>> x = flambeau.ones(1000)
        >>> flambeau.cpu.memory.max_memory_allocated() >= 4000
        True
    """
    _check_device("max_memory_allocated", device)
    return int(_C._memory_stats()["peak_allocated_bytes"])


def memory_reserved(device: Any = None) -> int:
    """Return the number of bytes that the allocator holds, in tensors and in its cache.

    Sizes of tensors are counted as they were asked for; their blocks are up to a fifth larger, and large ones
    are multiples of 2 MB.

    Args:
        device: "cpu", as there is one. Default: "cpu".
    Returns: the number of bytes.
    Raises: ValueError for another device.
    See also: cpu.memory.empty_cache, cpu.memory.memory_allocated

    Example:
        >>> x = flambeau.ones(1000)
        >>> flambeau.cpu.memory.memory_reserved() >= 4000
        True
    """
    _check_device("memory_reserved", device)
    stats = _C._memory_stats()
    return int(stats["allocated_bytes"] + stats["cached_bytes"])


def reset_peak_memory_stats(device: Any = None) -> None:
    """Set the peak of `max_memory_allocated` to the present number of bytes.

    Args:
        device: "cpu", as there is one. Default: "cpu".
    Returns: None.
    Raises: ValueError for another device.
    See also: cpu.memory.max_memory_allocated

    Example:
        >>> flambeau.cpu.memory.reset_peak_memory_stats()
    """
    _check_device("reset_peak_memory_stats", device)
    _C._reset_peak()


def empty_cache() -> None:
    """Give memory that no tensor uses back to the system, without small blocks that other threads keep.

    Returns: None.
    See also: cpu.memory.memory_reserved

    Example:
        >>> flambeau.cpu.memory.empty_cache()
    """
    _C._empty_cache()


def memory_snapshot() -> list[dict[str, Any]]:
    """Return the blocks of the allocator; see `_snapshot`, whose "segments" they are.

    Returns: a list of dicts.
    See also: cpu.memory._snapshot

    Example:
        >>> x = flambeau.ones(1_000_000)
        >>> any(s["requested_size"] == 4_000_000 for s in flambeau.cpu.memory.memory_snapshot())
        True
    """
    return _snapshot()["segments"]


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,
    clear_history: bool = False,
    skip_actions: list[str] | None = None,
) -> None:
    """Begin or end to record what the allocator does, in all threads.

    `_snapshot` returns what is recorded. A thread that computes without the GIL records the functions of
    Python that it was in when it left Python. Threads that never enter Python, such as those that share the
    work of one operator, record none.

    Args:
        enabled: "all" records all actions. "state" records which tensors have blocks, but no history. None
            ends recording; the history stays until the next one begins with `clear_history`.
        context: whose functions of Python are recorded: "state" those that allocated blocks which are in
            use, "alloc" also those of past allocations, "all" also those of releases, None no functions.
        stacks: "python" or "all", which mean the same: functions of C++ are not recorded.
        max_entries: the largest number of actions; newer ones replace the oldest. A different place in
            the program is kept once for all actions.
        device: "cpu", as there is one. Default: "cpu".
        clear_history: whether earlier actions are dropped first.
        skip_actions: actions that are not recorded: "alloc", "free_requested", "free_completed",
            "segment_alloc", "segment_free", "oom", "snapshot".
    Returns: None.
    Raises: ValueError for arguments other than those; TypeError if `max_entries` is not an int.
    Source: torch.cuda.memory._record_memory_history, for another allocator.
    See also: cpu.memory._snapshot, cpu.memory._dump_snapshot

    Example:
        >>> flambeau.cpu.memory._record_memory_history(max_entries=100_000)
        >>> y = flambeau.ones(1_000_000).exp()
        >>> flambeau.cpu.memory._dump_snapshot("/tmp/memory.html")
        >>> flambeau.cpu.memory._record_memory_history(None, clear_history=True)
    """
    _check_device("_record_memory_history", device)
    _check("enabled", enabled, (None, "state", "all"))
    _check("context", context, _CONTEXTS)
    _check("stacks", stacks, ("python", "all"))
    if not isinstance(max_entries, int) or isinstance(max_entries, bool):
        raise TypeError(f"_record_memory_history: expected an int as max_entries, got {max_entries!r}")
    if max_entries < 1:
        raise ValueError(f"_record_memory_history: expected max_entries of 1 or more, got {max_entries}")
    skipped = 0
    for action in () if skip_actions is None else skip_actions:
        _check("skip_actions", action, _ACTIONS)
        skipped |= 1 << _ACTIONS.index(action)
    if enabled is None:
        _C._memory_history_stop()
    if clear_history:
        _C._memory_history_clear()
    if enabled is not None:
        most = min(max_entries, sys.maxsize)
        _C._memory_history_start(enabled == "all", _CONTEXTS.index(context), most, skipped)


def _snapshot(device: Any = None) -> dict[str, Any]:
    """Return the blocks of the allocator and the history of its actions.

    Memory that the allocator gets from the system is one segment per block, because it never divides blocks.
    Segments of more than 1 MB are all listed. A smaller one is listed if recording was on when its tensor
    allocated it, or if it is free and no other thread keeps it.

    Args:
        device: "cpu", as there is one. Default: "cpu".
    Returns: a dict in PyTorch's form. "segments" are dicts with "address", "total_size", "requested_size",
        "allocated_size", "segment_type" ("small" or "large") and "blocks": one dict with "state"
        ("active_allocated" or "inactive"), "frames" and "category". "device_traces" is a list with one list
        of actions, the oldest first: dicts with "action", "addr", "size", "frames", "time_us", "thread",
        "in_backward", and for allocations "category". Frames have "filename", "line" and "name", the
        innermost first. "unlisted_bytes" are those of tensors that no segment shows, and "lost_entries"
        counts actions that newer ones have replaced. "stats" is `memory_stats`.
    Raises: ValueError for another device.
    Source: torch.cuda.memory._snapshot, for another allocator.
    See also: cpu.memory._record_memory_history, cpu.memory._dump_snapshot

    Example:
        >>> flambeau.cpu.memory._record_memory_history()
        >>> x = flambeau.ones(1_000_000)
        >>> entries = flambeau.cpu.memory._snapshot()["device_traces"][0]
        >>> [e["size"] for e in entries if e["action"] == "alloc"][-1]
        4000000
        >>> flambeau.cpu.memory._record_memory_history(None, clear_history=True)
    """
    from flambeau.cpu._snapshot import taken

    _check_device("_snapshot", device)
    return taken(_ACTIONS)


def _dump_snapshot(filename: Any = "dump_snapshot.pickle", *, snapshot: dict[str, Any] | None = None) -> None:
    """Write a snapshot: as a page if the name ends in ``.html``, otherwise as a pickle.

    The page needs no other file. It shows bytes by category over time, each block as a band, what was
    allocated at the peak and by which functions of Python, and a map of the blocks that the allocator holds.
    The pickle has the form that PyTorch's viewers read.

    Args:
        filename: of the file, which is replaced.
        snapshot: a result of `_snapshot`, or of PyTorch's function of this name. Default: the present one.
    Returns: None.
    Raises: ValueError if `snapshot` has another form; OSError if the file cannot be written.
    Source: torch.cuda.memory._dump_snapshot, for another allocator.
    See also: cpu.memory._record_memory_history, profiler.profile

    Example:
        >>> x = flambeau.ones(1_000_000)
        >>> flambeau.cpu.memory._dump_snapshot("/tmp/memory.html")
    """
    taken = _snapshot() if snapshot is None else snapshot
    path = Path(filename)
    if path.suffix == ".html":
        from flambeau.cpu._snapshot_page import text_of

        text = text_of(taken)
        path.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    else:
        with path.open("wb") as file:
            pickle.dump(taken, file)


def _check_device(function: str, device: Any) -> None:
    if device is not None and str(device) not in ("cpu", "cpu:0"):
        raise ValueError(f"{function}: expected device 'cpu', got {device!r}")


def _check(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if not any(value is one or (isinstance(value, str) and value == one) for one in allowed):
        raise ValueError(
            f"_record_memory_history: expected {name} among {', '.join(map(repr, allowed))}, got {value!r}"
        )
