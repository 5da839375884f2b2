"""The memory in a profile: its blocks, as a page and in PyTorch's forms of JSON."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from flambeau.autograd import _recorded
from flambeau.autograd._recorded import Recording
from flambeau.profiler._memory_blocks import BEFORE, CATEGORIES, UNKNOWN, Block, categorize, changes
from flambeau.profiler._memory_page import Picture, write_page

# The numbers of actions in PyTorch's files, and the time that they give to blocks that were there before.
_PREEXISTING, _CREATE, _DESTROY = 1, 2, 4
_LONG_AGO = -1


def blocks_of(recording: Recording) -> list[Block]:
    """Return the blocks that were allocated in the recording, in that order, with their categories."""
    in_backward = [False]  # of the place -1
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
    """The operator and the frames of Python for events."""

    def __init__(self, recording: Recording) -> None:
        self.events = recording.events

    def of(self, event: int) -> tuple[str, str]:
        """Return the innermost operator or node, and the functions of Python, the innermost first."""
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
    """Return the blocks, with those that owners had before, and the bytes that belong to no block."""
    blocks = blocks_of(recording)
    made = {block.address for block in blocks if not block.is_released}
    before = [
        Block(_LONG_AGO, recording.end, size, BEFORE, address, category=category)
        for address, (category, size) in recording.owners.items()
        if address not in made
    ]
    # Owners may have memory that is not the allocator's, such as NumPy's.
    return before + blocks, max(recording.first_bytes - sum(block.size for block in before), 0)


def _totals(recording: Recording) -> list[list[object]]:
    """Return the times and, for each, 0 and the bytes by category, as PyTorch's files have them."""
    blocks, first_bytes = _all_blocks(recording)
    totals = [0] * len(CATEGORIES)
    totals[UNKNOWN] = first_bytes
    listed: dict[int, list[int]] = {recording.start: [0, *totals]}
    for time, size, category in changes(blocks):
        totals[category] += size
        listed[max(time, recording.start)] = [0, *totals]
    return [list(listed), list(listed.values())]


def _actions(recording: Recording) -> list[tuple[int, int, int, int]]:
    """Return (time, action, bytes, category) of each change, as PyTorch's files have them."""
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
