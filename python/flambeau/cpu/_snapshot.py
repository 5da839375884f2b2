"""Snapshots of the CPU's allocator, in the form of PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flambeau import _C
from flambeau.profiler._memory_blocks import BEFORE, CATEGORIES, UNKNOWN, Block, categorize, owners

Frames = list[dict[str, Any]]


class _Stacks:
    """The frames of places in the tree of calls, innermost first; equal places share one list."""

    def __init__(self, calls: list[tuple[int, str, int, str]]) -> None:
        self.calls = calls
        self.made: dict[int, dict[str, Any]] = {}
        self.found: dict[int, Frames] = {-1: []}

    def frame(self, at: int) -> dict[str, Any]:
        if at not in self.made:
            _, file, line, name = self.calls[at]
            self.made[at] = {"filename": file, "line": line, "name": name}
        return self.made[at]

    def __getitem__(self, place: int) -> Frames:
        if place not in self.found:
            frames, at = [], place
            while at >= 0:
                frames.append(self.frame(at))
                at = self.calls[at][0]
            self.found[place] = frames
        return self.found[place]


def _row(row: tuple[Any, ...], actions: tuple[str, ...], frames: _Stacks) -> dict[str, Any]:
    action, address, size, stack, time, thread, in_backward = row
    entry = {"action": actions[action], "size": size, "stream": 0, "frames": frames[stack]}
    entry |= {"time_us": time // 1000, "thread": thread, "in_backward": in_backward, "pool_id": (0, 0)}
    if entry["action"] == "oom":
        entry["device_free"] = 0
    else:
        entry["addr"] = address
    return entry


def _segment(address: int, total: int, requested: int, is_large: bool, frames: Frames) -> dict[str, Any]:
    in_use = total if requested else 0
    block = {
        "address": address,
        "size": total,
        "requested_size": requested,
        "state": "active_allocated" if requested else "inactive",
        "frames": frames,
    }
    return {
        "device": 0,
        "address": address,
        "total_size": total,
        "allocated_size": in_use,
        "active_size": in_use,
        "requested_size": requested,
        "stream": 0,
        "segment_type": "large" if is_large else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block],
    }


@dataclass
class History:
    """The blocks that a list of actions tells of.

    Args:
        start, end: nanoseconds.
        blocks: in the order of their allocation; those that were there before come first.
        entries: the actions that allocated them, or the block of the map; None for unknown ones.
    """

    start: int = 0
    end: int = 0
    blocks: list[Block] = field(default_factory=list)
    entries: list[dict[str, Any] | None] = field(default_factory=list)

    def add(self, block: Block, entry: dict[str, Any] | None) -> None:
        """Add a block."""
        self.blocks.append(block)
        self.entries.append(entry)


def _times(trace: list[dict[str, Any]]) -> list[int]:
    """Return the time of each action in nanoseconds, or its place where times are not recorded."""
    times = [entry.get("time_us") for entry in trace]
    return [i if t is None else t * 1000 for i, t in enumerate(times)]


def history_of(snapshot: dict[str, Any]) -> History:
    """Return the blocks of a snapshot with the times of their allocations and releases."""
    trace = snapshot["device_traces"][0] if snapshot["device_traces"] else []
    times = _times(trace)
    start, last = min(times, default=0), max(times, default=0)
    found = History(start, last + (last - start) // 50 + 1)  # so that the last block is seen
    alive: dict[int, Block] = {}
    released: set[int] = set()  # addresses whose last action is a release
    earlier: list[Block] = []
    for entry, time in zip(trace, times, strict=True):
        action, address, size = entry["action"], entry.get("addr"), entry["size"]
        in_backward = entry.get("in_backward", False)
        if action == "alloc":
            if (missed := alive.pop(address, None)) is not None:  # its release was not recorded
                missed.end, missed.is_released = time, True
            begun = Block(time, found.end, size, len(found.blocks), address, begins_in_backward=in_backward)
            alive[address] = begun
            released.discard(address)
            found.add(begun, entry)
        elif action in ("free_requested", "free_completed") and address not in released:
            released.add(address)
            if (block := alive.pop(address, None)) is None:
                block = Block(found.start, found.end, size, BEFORE, address)
                earlier.append(block)
            block.end, block.is_released, block.ends_in_backward = time, True, in_backward
    for block in [*earlier, *_still_there(snapshot, found, alive)]:
        found.add(block, None)
    _name_categories(found)
    return found


def _still_there(snapshot: dict[str, Any], found: History, alive: dict[int, Block]) -> Iterator[Block]:
    """Return the blocks in use whose allocation is not in the history."""
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated" and block["address"] not in alive:
                size = block.get("requested_size", block["size"])
                kept = Block(found.start, found.end, size, BEFORE, block["address"])
                name = block.get("category")
                kept.category = CATEGORIES.index(name) if name in CATEGORIES else UNKNOWN
                yield kept


def _name_categories(found: History) -> None:
    for block, entry in zip(found.blocks, found.entries, strict=True):
        name = (entry or {}).get("category")
        if name in CATEGORIES:
            block.category = CATEGORIES.index(name)


def taken(actions: tuple[str, ...]) -> dict[str, Any]:
    """Return the present snapshot; `actions` are the names of actions by their numbers."""
    stats = _C._memory_stats()
    owned = owners()
    calls, rows, in_use, held, lost = _C._memory_history_read()
    frames = _Stacks(calls)
    by_address = {address: (requested, total, stack) for address, requested, total, stack, *_ in in_use}
    segments = {}
    for address, total, requested, is_large in held:
        stack = by_address.get(address, (0, 0, -1))[2]
        segments[address] = _segment(address, total, requested, is_large, frames[stack])
    for address, (requested, total, stack) in by_address.items():
        if not (address in segments and segments[address]["requested_size"]):
            segments[address] = _segment(address, total, requested, total > 1 << 20, frames[stack])
    listed = [segments[address] for address in sorted(segments)]
    unlisted = stats["allocated_bytes"] - sum(segment["requested_size"] for segment in listed)
    snapshot = {
        "segments": listed,
        "device_traces": [[_row(row, actions, frames) for row in rows]],
        "external_annotations": [],
        "allocator_settings": {},
        "unlisted_bytes": max(unlisted, 0),
        "lost_entries": lost,
        "stats": stats,
    }
    _add_categories(snapshot, owned)
    return snapshot


def _add_categories(snapshot: dict[str, Any], owned: dict[int, tuple[int, int]]) -> None:
    history = history_of(snapshot)
    categorize(history.blocks, owned)
    last: dict[int, str] = {}
    for block, entry in zip(history.blocks, history.entries, strict=True):
        name = CATEGORIES[block.category]
        if entry is not None:
            entry["category"] = name
        if not block.is_released:
            last[block.address] = name
    for segment in snapshot["segments"]:
        for one in segment["blocks"]:
            if one["state"] == "active_allocated":
                one["category"] = last.get(one["address"], CATEGORIES[UNKNOWN])
