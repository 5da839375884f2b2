"""The memory blocks of a profile, as a page and in PyTorch's JSON formats."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from flambeau.autograd import _recorded
from flambeau.autograd._recorded import Recording
from flambeau.profiler._memory_blocks import BEFORE, CATEGORIES, UNKNOWN, Block, categorize, changes
from flambeau.profiler._memory_page import Picture, write_page

# The numbers of actions in PyTorch's files. Blocks from before the recording have the time -1 there.
_PREEXISTING, _CREATE, _DESTROY = 1, 2, 4
_LONG_AGO = -1


def blocks_of(recording: Recording) -> list[Block]:
    """Return the blocks that the recording allocated, in order of allocation, with their categories."""
    in_backward = [False]  # for index -1: no event
    for one in recording.events:  # parents come before their children
        is_backward = one.kind in (_recorded.NODE, _recorded.EVALUATION)
        in_backward.append(is_backward or in_backward[one.parent + 1])
    alive: dict[int, Block] = {}
    found: list[Block] = []
    for time, size, _, address, event, _ in recording.memory:
        if size >= 0:
            begins = in_backward[event + 1]
            alive[address] = Block(time, recording.end, size, event, address, begins_in_backward=begins)
            found.append(alive[address])
        elif (block := alive.pop(address, None)) is not None:
            block.end, block.is_released, block.ends_in_backward = time, True, in_backward[event + 1]
    categorize(found, recording.owners)
    return found


class _Labels:
    """Finds the operator and the Python frames of events."""

    def __init__(self, recording: Recording) -> None:
        self.events = recording.events

    def of(self, event: int) -> tuple[str, str]:
        """Return the innermost operator or node, and the Python functions, innermost first."""
        name, frames = "", list[str]()
        while event >= 0:
            found = self.events[event]
            if found.kind in (_recorded.OPERATOR, _recorded.NODE):
                name = name or found.name
            elif found.kind == _recorded.PYTHON:
                frames.append(found.name)
            event = found.parent
        return name or "outside of operators", "\n".join(frames)


def _all_blocks(recording: Recording) -> tuple[list[Block], int]:
    """Return all blocks, including owners' blocks from before, and the bytes that belong to no block."""
    blocks = blocks_of(recording)
    made = {block.address for block in blocks if not block.is_released}
    before = [
        Block(_LONG_AGO, recording.end, size, BEFORE, address, category=category)
        for address, (category, size) in recording.owners.items()
        if address not in made
    ]
    # Owners may hold memory that the allocator did not allocate, such as NumPy's.
    return before + blocks, max(recording.first_bytes - sum(block.size for block in before), 0)


def _totals(recording: Recording) -> list[list[object]]:
    """Return the times and, for each time, 0 and the bytes by category, in the format of PyTorch's files."""
    blocks, first_bytes = _all_blocks(recording)
    totals = [0] * len(CATEGORIES)
    totals[UNKNOWN] = first_bytes
    listed: dict[int, list[int]] = {recording.start: [0, *totals]}
    for time, size, category in changes(blocks):
        totals[category] += size
        listed[max(time, recording.start)] = [0, *totals]
    return [list(listed), list(listed.values())]


def _actions(recording: Recording) -> list[tuple[int, int, int, int]]:
    """Return (time, action, bytes, category) of each change, in the format of PyTorch's files."""
    found = []
    for time, size, category in changes(_all_blocks(recording)[0]):
        action = _DESTROY if size < 0 else _PREEXISTING if time == _LONG_AGO else _CREATE
        found.append((time, action, abs(size), category))
    return found


def _picture(recording: Recording) -> Picture:
    blocks, first_bytes = _all_blocks(recording)
    labels = _Labels(recording)
    return Picture("Memory of a profile", recording.start, recording.end, first_bytes, blocks, labels.of)


def write_memory(recording: Recording, path: str) -> None:
    """Write the memory of a recording: a page for ``.html``, else JSON."""
    if path.endswith(".html"):
        write_page(_picture(recording), path)
        return
    written = json.dumps(_actions(recording) if path.endswith(".raw.json.gz") else _totals(recording))
    if path.endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(written)
    else:
        Path(path).write_text(written, encoding="utf-8")
