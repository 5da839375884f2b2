"""A page about memory: bytes by category over time, a band per block, and the blocks at the peak."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flambeau.autograd._event_table import format_memory, format_time
from flambeau.profiler._memory_blocks import (
    BEFORE,
    BEFORE_TEXT,
    CATEGORIES,
    UNKNOWN,
    Block,
    changes,
    offsets,
    peak_of,
)

_WIDTH, _LEFT, _TOP = 1400, 80, 24  # pixels
_CURVE, _BANDS = 220, 420  # heights
_COLUMNS = 1000  # columns of the curve
_MOST_BLOCKS = 3000  # blocks that are drawn; the page only counts smaller ones
_MOST_ROWS, _SHOWN_FRAMES = 40, 3  # rows of the peak's table, and frames in a row
COLOURS = ("#4f7cac", "#d9a441", "#3d3d3d", "#b9a7d1", "#d1605e", "#5aa469", "#9cc5a1", "#b8bfc9")
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:24px;color:#1c2430;max-width:1480px}"
    "h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .3rem}"
    "p{margin:.2rem 0 .6rem;color:#5a6675}svg{display:block}rect:hover{stroke:#000}"
    "text{font:11px system-ui,sans-serif;fill:#5a6675}"
    "table{border-collapse:collapse}td,th{padding:.2rem 1.2rem .2rem 0;text-align:left;vertical-align:top}"
    "tr+tr td{border-top:1px solid #e6e9ee}td.n{text-align:right;white-space:nowrap}"
    "small,pre{color:#5a6675;white-space:pre-line;margin:0;font:12px/1.4 ui-monospace,monospace}"
    "summary{cursor:pointer}.key{display:inline-block;margin-right:1.2rem;white-space:nowrap}"
    ".key i{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}"
)


@dataclass
class Picture:
    """The content of a page.

    Args:
        title: the heading.
        start, end: nanoseconds.
        first_bytes: bytes that are allocated throughout and belong to none of `blocks`.
        blocks: the blocks, with their categories.
        label: maps a block's `source` to the operator or function that allocated it and the Python functions
            that called it, one per line.
        sections: HTML after the pictures.
    """

    title: str
    start: int
    end: int
    first_bytes: int
    blocks: list[Block]
    label: Callable[[int], tuple[str, str]]
    sections: tuple[str, ...] = ()


def key(name: str, colour: str, note: str = "") -> str:
    """Return one entry of a legend."""
    return (
        f'<span class="key"><i style="background:{colour}"></i>{html.escape(name)} {html.escape(note)}</span>'
    )


class _Page:
    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.peak_time, self.peak = peak_of(picture.blocks, picture.start, picture.first_bytes)
        largest = sorted(picture.blocks, key=lambda b: b.size, reverse=True)[:_MOST_BLOCKS]
        self.drawn = sorted(largest, key=lambda b: b.begin)
        self.offsets = offsets(self.drawn)
        tops = [offset + block.size for offset, block in zip(self.offsets, self.drawn, strict=True)]
        self.reach = max(tops, default=1) or 1

    def label(self, block: Block) -> tuple[str, str]:
        return (BEFORE_TEXT, "") if block.source == BEFORE else self.picture.label(block.source)

    def x(self, time: int) -> float:
        length = max(self.picture.end - self.picture.start, 1)
        share = min(max((time - self.picture.start) / length, 0.0), 1.0)
        return _LEFT + share * (_WIDTH - _LEFT)

    # --- bytes by category ---------------------------------------------------------------------------

    def columns(self) -> list[tuple[float, list[int]]]:
        """Return bytes by category at the largest total of each column that contains a change."""
        totals = [0] * len(CATEGORIES)
        totals[UNKNOWN] = self.picture.first_bytes
        found = [(float(_LEFT), list(totals))]
        wide = (_WIDTH - _LEFT) / _COLUMNS
        column, before = -1, list(totals)
        for time, size, category in changes(self.picture.blocks):
            at = int((self.x(time) - _LEFT) / wide)
            if at != column:
                if column >= 0:
                    found.append((_LEFT + (column + 1) * wide, before))
                column = at
                found.append((_LEFT + at * wide, before))
            totals[category] += size
            if found[-1][1] is before or sum(totals) > sum(found[-1][1]):
                found[-1] = (found[-1][0], list(totals))
            before = list(totals)
        return [*found, (_LEFT + (column + 1) * wide, before), (float(_WIDTH), before)]

    def areas(self) -> Iterator[str]:
        columns = self.columns()
        scale = (_CURVE - _TOP) / (self.peak or 1)
        below = [0] * len(columns)
        for category, name in enumerate(CATEGORIES):
            above = [low + bytes_[category] for low, (_, bytes_) in zip(below, columns, strict=True)]
            if above == below:
                continue
            edges = [
                _steps([x for x, _ in columns], [_CURVE - y * scale for y in heights])
                for heights in (above, below)
            ]
            points = " ".join([*edges[0], *reversed(edges[1])])
            yield f'<polygon fill="{COLOURS[category]}" points="{points}"><title>{name}</title></polygon>'
            below = above

    def curve(self) -> str:
        parts = "\n".join([*self.areas(), *self.mark(_CURVE), *self.times(_CURVE), _scale(self.peak, _CURVE)])
        return _svg(_CURVE + 22, parts)

    def legend(self) -> str:
        totals = [0] * len(CATEGORIES)
        totals[UNKNOWN] = self.picture.first_bytes
        for block in self.at_peak():
            totals[block.category] += block.size
        parts = [
            key(name, colour, format_memory(total))
            for name, colour, total in zip(CATEGORIES, COLOURS, totals, strict=True)
            if total
        ]
        return "At the peak: " + "".join(parts)

    # --- a band per block ----------------------------------------------------------------------------

    def bands(self) -> Iterator[str]:
        scale = (_BANDS - _TOP) / self.reach
        for block, offset in zip(self.drawn, self.offsets, strict=True):
            name, frames = self.label(block)
            left, height = self.x(block.begin), max(block.size * scale, 0.4)
            width = max(self.x(block.end) - left, 0.5)
            y = _BANDS - offset * scale - height
            told = f"{format_memory(block.size)}, {CATEGORIES[block.category]}\n{name}\n{frames}".strip()
            yield (
                f'<rect x="{left:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
                f'fill="{COLOURS[block.category]}"><title>{html.escape(told)}</title></rect>'
            )

    def times(self, y: int) -> Iterator[str]:
        length = self.picture.end - self.picture.start
        for tenth in range(10):
            time = self.picture.start + length * tenth // 10
            text = format_time((time - self.picture.start) / 1e3)
            yield f'<text x="{self.x(time):.1f}" y="{y + 16}">{text}</text>'

    def mark(self, y: int) -> Iterator[str]:
        x = self.x(self.peak_time)
        yield f'<path d="M{x:.1f} {_TOP - 6}V{y}" stroke="#1c2430" stroke-dasharray="4 3"/>'
        anchor = "end" if x > _WIDTH * 0.8 else "start"
        text = f"peak {format_memory(self.peak)}"
        yield f'<text x="{x:.1f}" y="{_TOP - 10}" text-anchor="{anchor}">{text}</text>'

    def band_picture(self) -> str:
        parts = "\n".join(
            [*self.bands(), *self.mark(_BANDS), *self.times(_BANDS), _scale(self.reach, _BANDS)]
        )
        return _svg(_BANDS + 22, parts)

    # --- the peak ------------------------------------------------------------------------------------

    def at_peak(self) -> Iterator[Block]:
        for block in self.picture.blocks:
            if block.begin <= self.peak_time and (self.peak_time < block.end or not block.is_released):
                yield block

    def table(self) -> str:
        """Return the blocks at the peak, by category, operator and caller, largest first."""
        sums: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
        for block in self.at_peak():
            entry = sums[(CATEGORIES[block.category], *self.label(block))]
            entry[0] += block.size
            entry[1] += 1
        rows = sorted(((size, count, *key) for key, (size, count) in sums.items()), reverse=True)
        hidden = len(rows) - _MOST_ROWS
        rows = rows[:_MOST_ROWS]
        if self.picture.first_bytes:
            rows.append((self.picture.first_bytes, 0, CATEGORIES[UNKNOWN], BEFORE_TEXT, ""))
        cells = "".join(
            f'<tr><td class="n">{format_memory(size)}</td><td class="n">{count or ""}</td><td>{category}</td>'
            f"<td>{html.escape(name)}{_folded(frames)}</td></tr>"
            for size, count, category, name, frames in rows
        )
        note = f"<p>{hidden} smaller rows are omitted.</p>" if hidden > 0 else ""
        head = "<tr><th>bytes</th><th>blocks</th><th>category</th><th>allocated by</th></tr>"
        return f"<table>{head}{cells}</table>{note}"

    def text(self) -> str:
        hidden = len(self.picture.blocks) - len(self.drawn)
        note = f"; the {hidden} smallest are not drawn" if hidden else ""
        title = html.escape(self.picture.title)
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
            f"<h2>Bytes by category</h2><p>{self.legend()}</p>{self.curve()}"
            f"<h2>Blocks</h2><p>{len(self.picture.blocks)} blocks{note}. Each band is a block from its "
            "allocation to its release, at the lowest free offset; its height is its size. Point at a "
            f"band to see its origin.</p>{self.band_picture()}"
            f"<h2>At the peak</h2>{self.table()}{''.join(self.picture.sections)}</body></html>\n"
        )


def _steps(xs: list[float], ys: list[float]) -> list[str]:
    """Return the points of a step function: each height holds until the next x."""
    points = [f"{xs[0]:.1f},{ys[0]:.1f}"]
    for i in range(1, len(xs)):
        points += [f"{xs[i]:.1f},{ys[i - 1]:.1f}", f"{xs[i]:.1f},{ys[i]:.1f}"]
    return points


def _scale(most: int, height: int) -> str:
    return f'<text x="0" y="{_TOP + 4}">{format_memory(most)}</text><text x="0" y="{height}">0 B</text>'


def _folded(frames: str) -> str:
    """Return the innermost frames, with the others in a collapsed section."""
    lines = frames.splitlines()
    shown = html.escape("\n".join(lines[:_SHOWN_FRAMES]))
    if not lines:
        return ""
    if len(lines) <= _SHOWN_FRAMES:
        return f"<br><small>{shown}</small>"
    rest = html.escape("\n".join(lines[_SHOWN_FRAMES:]))
    return f"<details><summary><small>{shown}</small></summary><pre>{rest}</pre></details>"


def _svg(height: int, parts: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="100%">{parts}</svg>'
    )


def page_text(picture: Picture) -> str:
    """Return the page of a picture."""
    return _Page(picture).text()


def write_page(picture: Picture, path: str) -> None:
    """Write the page of a picture to a file."""
    Path(path).write_text(page_text(picture), encoding="utf-8", errors="xmlcharrefreplace")
