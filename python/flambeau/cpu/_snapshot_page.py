"""The page of a snapshot: its history, and a map of the blocks that the allocator holds."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from flambeau.autograd._event_table import format_memory
from flambeau.autograd._recorded import _shown_path
from flambeau.cpu._snapshot import History, history_of
from flambeau.profiler._memory_blocks import CATEGORIES, UNKNOWN
from flambeau.profiler._memory_page import COLOURS, Picture, key, page_text

_WIDTH, _ROWS, _ROW, _GAP = 1400, 16, 24, 6  # pixels, rows, pixels
_KEPT, _ROUNDED = "#e3e7ec", "#f0b8b2"
_MOST_DRAWN = 4000  # segments; further ones are counted only
_MOST_SIZES = 60  # rows of the table


def _told(frames: list[dict[str, Any]]) -> str:
    return "\n".join(_shown_path(f"{f['filename']}({f['line']}): {f['name']}") for f in frames)


class _Labels:
    """The innermost function of Python and all frames for the blocks of a history."""

    def __init__(self, history: History) -> None:
        self.entries = history.entries
        self.made: dict[int, tuple[str, str]] = {}

    def of(self, source: int) -> tuple[str, str]:
        """Return the function that allocated a block and the frames, line by line."""
        frames = (self.entries[source] or {}).get("frames") or []
        if id(frames) not in self.made:
            name = str(frames[0]["name"]) if frames else "outside of Python"
            self.made[id(frames)] = (name, _told(frames))
        return self.made[id(frames)]


class _Map:
    """The segments as bars of equal height, one behind another over several rows, by address."""

    def __init__(self, segments: list[dict[str, Any]]) -> None:
        self.segments = sorted(segments, key=lambda s: s["total_size"], reverse=True)
        self.drawn = sorted(self.segments[:_MOST_DRAWN], key=lambda s: s["address"])
        self.total = sum(s["total_size"] for s in segments)
        reach = sum(s["total_size"] for s in self.drawn)
        self.rows = min(_ROWS, max(len(self.drawn), 1))
        self.row_bytes = max(-(-reach // self.rows), 1)

    def bars(self, begin: int, size: int, colour: str, told: str) -> Iterator[str]:
        """Return the rectangles of a range of bytes, one a row."""
        end = begin + size
        while begin < end:
            row, at = divmod(begin, self.row_bytes)
            wide = min(end - begin, self.row_bytes - at)
            x, width = at / self.row_bytes * _WIDTH, wide / self.row_bytes * _WIDTH
            yield (
                f'<rect x="{x:.2f}" y="{row * (_ROW + _GAP)}" width="{max(width, 0.3):.2f}" height="{_ROW}" '
                f'fill="{colour}" stroke="#fff" stroke-width=".4"><title>{html.escape(told)}</title></rect>'
            )
            begin += wide

    def picture(self) -> str:
        parts: list[str] = []
        at = 0
        for segment in self.drawn:
            place = at
            for block in segment["blocks"]:
                parts += self.block(place, block)
                place += block["size"]
            at += segment["total_size"]
        height = self.rows * (_ROW + _GAP)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="100%">'
            + "\n".join(parts)
            + "</svg>"
        )

    def block(self, place: int, block: dict[str, Any]) -> Iterator[str]:
        size = block["size"]
        where = f"{format_memory(size)} at {block['address']:#x}"
        if block["state"] == "inactive":
            yield from self.bars(place, size, _KEPT, f"{where}\nkept for reuse")
            return
        asked = min(block.get("requested_size", size), size)
        name = block.get("category")
        category = CATEGORIES.index(name) if name in CATEGORIES else UNKNOWN
        frames = _told(block.get("frames", []))
        told = f"{where}\n{format_memory(asked)} in use, {CATEGORIES[category]}\n{frames}"
        yield from self.bars(place, asked, COLOURS[category], told.strip())
        yield from self.bars(place + asked, size - asked, _ROUNDED, f"{where}\nrounding of the size")

    def sums(self) -> tuple[int, int, int]:
        """Return the bytes that tensors asked for, those that rounding adds, and those kept for reuse."""
        asked = held = 0
        for segment in self.segments:
            for block in segment["blocks"]:
                if block["state"] != "inactive":
                    held += block["size"]
                    asked += min(block.get("requested_size", block["size"]), block["size"])
        return asked, held - asked, self.total - held

    def by_size(self) -> str:
        """Return a table of the segments by size: how many are in use and kept, and what they lose."""
        sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for segment in self.segments:
            asked = segment.get("requested_size", segment["allocated_size"])
            entry = sums[segment["total_size"]]
            entry[0 if segment["allocated_size"] else 1] += 1
            entry[2] += segment["allocated_size"] - asked if segment["allocated_size"] else 0
        rows = "".join(
            f'<tr><td class="n">{format_memory(size)}</td><td class="n">{used or ""}</td>'
            f'<td class="n">{kept or ""}</td><td class="n">{format_memory(lost) if lost else ""}</td></tr>'
            for size, (used, kept, lost) in sorted(sums.items(), reverse=True)[:_MOST_SIZES]
        )
        head = "<tr><th>block</th><th>in use</th><th>kept</th><th>lost by rounding</th></tr>"
        return f"<details><summary>By size of block</summary><table>{head}{rows}</table></details>"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def _map_section(snapshot: dict[str, Any]) -> str:
    drawn = _Map(snapshot["segments"])
    asked, rounded, kept = drawn.sums()
    held = asked + rounded
    legend = f"In use: {format_memory(asked)}. " + "".join(
        [
            key("rounding", _ROUNDED, f"{format_memory(rounded)} ({_share(rounded, held)} of blocks in use)"),
            key("kept for reuse", _KEPT, f"{format_memory(kept)} ({_share(kept, drawn.total)} of all)"),
        ]
    )
    notes = []
    if unlisted := snapshot.get("unlisted_bytes", 0):
        notes.append(f"{format_memory(unlisted)} in small blocks from before the recording are not shown.")
    if (hidden := len(drawn.segments) - len(drawn.drawn)) > 0:
        notes.append(f"The {hidden} smallest blocks are not drawn.")
    return (
        f"<h2>Blocks of the allocator</h2><p>{legend}</p>"
        f"<p>{len(drawn.segments)} blocks from the system, {format_memory(drawn.total)}, by address; the "
        f"width is the size, and blocks in use have the colours of their categories. {' '.join(notes)}</p>"
        f"{drawn.picture()}{drawn.by_size()}"
    )


def _picture(snapshot: dict[str, Any]) -> Picture:
    history = history_of(snapshot)
    lost = snapshot.get("lost_entries", 0)
    sections = [_map_section(snapshot)]
    if lost:
        sections.insert(0, f"<p>The oldest {lost} actions were replaced by newer ones.</p>")
    return Picture(
        "Memory of the CPU",
        history.start,
        history.end,
        snapshot.get("unlisted_bytes", 0),
        history.blocks,
        _Labels(history).of,
        tuple(sections),
    )


def text_of(snapshot: Any) -> str:
    """Return the page of a snapshot; ValueError if it is none."""
    if not (isinstance(snapshot, dict) and {"segments", "device_traces"} <= snapshot.keys()):
        got = sorted(map(str, snapshot)) if isinstance(snapshot, dict) else type(snapshot).__name__
        raise ValueError(f"_dump_snapshot: expected a dict with 'segments' and 'device_traces', got {got}")
    try:
        return page_text(_picture(snapshot))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        found = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"_dump_snapshot: expected segments and actions of a snapshot, got {found}"
        ) from error
