"""Pictures of the memory in a profile: which blocks lived when, and what the peak consists of."""

from __future__ import annotations

import gzip
import html
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flambeau.autograd import _recorded
from flambeau.autograd._event_table import format_memory, format_time
from flambeau.autograd._recorded import Recording

_WIDTH, _HEIGHT, _LEFT, _TOP = 1500, 560, 90, 24  # pixels
_MOST_BLOCKS = 3000  # drawn; smaller ones are counted only
_MOST_ROWS, _MOST_FRAMES = 40, 4  # of the table of the peak
_COLOURS = ("#7fb2e5", "#eda35e", "#9fd39b", "#cdb4db", "#e08f8f", "#8fd0cf", "#d6c26a", "#b7a08c")
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:20px;color:#1c2430}h1{font-size:1.3rem}"
    "text{font:11px sans-serif;fill:#555}rect:hover{stroke:#000}table{border-collapse:collapse}"
    "td,th{padding:.15rem 1rem .15rem 0;text-align:left;vertical-align:top}"
    "td.n{text-align:right;white-space:nowrap}small{color:#5a6675;white-space:pre-line}"
)
_CREATE, _DESTROY = 1, 3  # the numbers of actions in PyTorch's files
_UNKNOWN, _CATEGORIES = 0, 8


@dataclass(slots=True)
class Block:
    """One allocation.

    Args:
        begin, end: nanoseconds of the recording's clock; the recording's own where the block outlives it.
        size: bytes.
        event: the place of the event that allocated it, or -1.
    """

    begin: int
    end: int
    size: int
    event: int


def blocks_of(recording: Recording) -> list[Block]:
    """Return the blocks that were allocated in the recording, in that order."""
    alive: dict[int, Block] = {}
    found: list[Block] = []
    for time, size, _, address, event, _ in recording.memory:
        if size >= 0:
            alive[address] = Block(time, recording.end, size, event)
            found.append(alive[address])
        elif (block := alive.pop(address, None)) is not None:
            block.end = time
    return found


def peak_of(recording: Recording) -> tuple[int, int]:
    """Return the time and the bytes of the largest total."""
    best = (recording.start, recording.first_bytes)
    for time, _, total, *_ in recording.memory:
        if total > best[1]:
            best = (time, total)
    return best


def _offsets(blocks: list[Block]) -> list[int]:
    """Return a place for each block such that no two share bytes at one time, the lowest that is free."""
    placed: list[tuple[int, int, int]] = []  # offset, size, end of those that may overlap
    offsets = []
    for block in blocks:
        placed = sorted(p for p in placed if p[2] > block.begin)
        offset = 0
        for start, size, _ in placed:
            if start - offset >= block.size:
                break
            offset = max(offset, start + size)
        placed.append((offset, block.size, block.end))
        offsets.append(offset)
    return offsets


class _Names:
    """The operator and the frames of Python for events."""

    def __init__(self, recording: Recording) -> None:
        self.events = recording.events

    def of(self, event: int) -> tuple[str, str]:
        """Return the innermost operator or node, and the innermost functions of Python, line by line."""
        name, frames = "", list[str]()
        while event >= 0:
            found = self.events[event]
            if found.kind in (_recorded.OPERATOR, _recorded.NODE):
                name = name or found.name
            elif found.kind == _recorded.PYTHON:
                frames.append(found.name)
            event = found.parent
        return name or "outside of operators", "\n".join(frames[:_MOST_FRAMES])


class _Page:
    def __init__(self, recording: Recording) -> None:
        self.recording, self.names = recording, _Names(recording)
        self.blocks = blocks_of(recording)
        self.peak_time, self.peak = peak_of(recording)
        largest = sorted(self.blocks, key=lambda b: b.size, reverse=True)[:_MOST_BLOCKS]
        self.drawn = sorted(largest, key=lambda b: b.begin)
        self.offsets = _offsets(self.drawn)
        tops = [offset + block.size for offset, block in zip(self.offsets, self.drawn, strict=True)]
        self.reach = max(tops, default=1) or 1
        self.colours: dict[str, str] = {}

    def x(self, time: int) -> float:
        length = max(self.recording.end - self.recording.start, 1)
        share = min(max((time - self.recording.start) / length, 0.0), 1.0)
        return _LEFT + share * (_WIDTH - _LEFT)

    def colour(self, name: str) -> str:
        return self.colours.setdefault(name, _COLOURS[len(self.colours) % len(_COLOURS)])

    def bands(self) -> Iterator[str]:
        scale = (_HEIGHT - _TOP) / self.reach
        for block, offset in zip(self.drawn, self.offsets, strict=True):
            name, frames = self.names.of(block.event)
            left, height = self.x(block.begin), max(block.size * scale, 0.4)
            width = max(self.x(block.end) - left, 0.5)
            y = _HEIGHT - offset * scale - height
            told = f"{format_memory(block.size)}\n{name}\n{frames}".strip()
            yield (
                f'<rect x="{left:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
                f'fill="{self.colour(name)}"><title>{html.escape(told)}</title></rect>'
            )

    def axes(self) -> Iterator[str]:
        for tenth in range(10):
            time = self.recording.start + (self.recording.end - self.recording.start) * tenth // 10
            text = format_time(self.recording.us(time))
            yield f'<text x="{self.x(time):.1f}" y="{_HEIGHT + 16}">{text}</text>'
        yield f'<text x="0" y="{_TOP + 4}">{format_memory(self.reach)}</text>'
        yield f'<text x="0" y="{_HEIGHT}">0 b</text>'
        x = self.x(self.peak_time)
        yield f'<path d="M{x:.1f} {_TOP}V{_HEIGHT}" stroke="#b03a2e" stroke-dasharray="4 3"/>'
        anchor = "end" if x > _WIDTH * 0.8 else "start"
        shown = f"peak {format_memory(self.peak)}"
        yield f'<text x="{x:.1f}" y="{_TOP - 8}" text-anchor="{anchor}">{shown}</text>'

    def table(self) -> str:
        """Return what lived at the peak, by operator and caller, the largest first."""
        sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        known = 0
        for block in self.blocks:
            if block.begin <= self.peak_time < block.end:
                name, frames = self.names.of(block.event)
                entry = sums[name, frames]
                entry[0] += block.size
                entry[1] += 1
                known += block.size
        rows = sorted(((size, count, *key) for key, (size, count) in sums.items()), reverse=True)
        if self.peak > known:
            rows.append((self.peak - known, 0, "before the profile", ""))
        cells = "".join(
            f'<tr><td class="n">{format_memory(size)}</td><td class="n">{count or ""}</td>'
            f"<td>{html.escape(name)}<br><small>{html.escape(frames)}</small></td></tr>"
            for size, count, name, frames in rows[:_MOST_ROWS]
        )
        return f"<table><tr><th>bytes</th><th>blocks</th><th>allocated by</th></tr>{cells}</table>"

    def text(self) -> str:
        hidden = len(self.blocks) - len(self.drawn)
        note = f"; the {hidden} smallest are not drawn" if hidden else ""
        parts = "\n".join([*self.bands(), *self.axes()])
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Memory</title>'
            f"<style>{_STYLE}</style></head><body><h1>Memory of the CPU</h1>"
            f"<p>{len(self.blocks)} blocks{note}. Each band is a block from its allocation to its release, "
            "at the lowest place that is free; its height is its size. Point at one for its operator.</p>"
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT + 24}">{parts}</svg>'
            f"<h1>At the peak</h1>{self.table()}</body></html>\n"
        )


def _totals(recording: Recording) -> list[list[object]]:
    """Return the times and, for each, the bytes by category, as PyTorch's files have them."""
    times: list[object] = [recording.start, *(change[0] for change in recording.memory)]
    totals = [recording.first_bytes, *(change[2] for change in recording.memory)]
    return [times, [[0, total, *[0] * (_CATEGORIES - 1)] for total in totals]]


def _actions(recording: Recording) -> list[tuple[int, int, int, int]]:
    """Return (time, action, bytes, category) of each change, as PyTorch's files have them."""
    found = []
    for block in blocks_of(recording):
        found.append((block.begin, _CREATE, block.size, _UNKNOWN))
        if block.end < recording.end:
            found.append((block.end, _DESTROY, block.size, _UNKNOWN))
    return sorted(found)


def write_memory(recording: Recording, path: str) -> None:
    """Write the memory of a recording: a page for ``.html``, else JSON."""
    if path.endswith(".html"):
        Path(path).write_text(_Page(recording).text(), encoding="utf-8", errors="xmlcharrefreplace")
        return
    written = json.dumps(_actions(recording) if ".raw.json" in Path(path).name else _totals(recording))
    if path.endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(written)
    else:
        Path(path).write_text(written, encoding="utf-8")
