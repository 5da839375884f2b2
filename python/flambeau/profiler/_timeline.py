"""A page with a profile's timeline and memory curve: one file of HTML and SVG, without scripts."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

from flambeau.autograd import _recorded
from flambeau.autograd._event_table import format_memory, format_time
from flambeau.autograd._recorded import Recording

_WIDTH, _ROW, _CURVE, _LEFT = 1600, 18, 120, 90  # pixels
_LETTER = 6.5  # average width of a character in pixels
_COLOURS = {
    _recorded.OPERATOR: "#7fb2e5",
    _recorded.EVALUATION: "#f2c38f",
    _recorded.NODE: "#eda35e",
    _recorded.RANGE: "#9fd39b",
    _recorded.PYTHON: "#d9d9d9",
    _recorded.NATIVE: "#c4c4c4",
    _recorded.MODULE: "#cdb4db",
}
_STYLE = (
    "body{font:13px sans-serif;margin:16px}text{font:11px sans-serif;pointer-events:none}"
    "rect:hover{stroke:#000}.axis{fill:#555}"
)


class _Page:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.length = max(recording.us(recording.end), 1e-3)
        self.depths = self._depths()
        self.rows = self._rows()
        self.top = _CURVE + 30 if recording.memory else 20

    def _depths(self) -> list[int]:
        depths: list[int] = []
        for event in self.recording.events:  # parents come before their children
            depths.append(depths[event.parent] + 1 if event.parent >= 0 else 0)
        return depths

    def _rows(self) -> dict[int, int]:
        """Return thread -> its first row."""
        deepest: dict[int, int] = {}
        for event, depth in zip(self.recording.events, self.depths, strict=True):
            deepest[event.thread] = max(deepest.get(event.thread, 0), depth)
        first, rows = 0, {}
        for thread, depth in deepest.items():
            rows[thread] = first
            first += depth + 2
        self.row_count = first
        return rows

    def x(self, us: float) -> float:
        return _LEFT + us / self.length * (_WIDTH - _LEFT)

    def spans(self) -> Iterator[str]:
        for event, depth in zip(self.recording.events, self.depths, strict=True):
            start, end = self.recording.us(event.start), self.recording.us(event.end)
            x, y = self.x(start), self.top + (self.rows[event.thread] + depth) * _ROW
            width = max(self.x(end) - x, 0.5)
            name = html.escape(event.name)
            yield (
                f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_ROW - 2}" '
                f'fill="{_COLOURS[event.kind]}"><title>{name}\n{format_time(end - start)} from '
                f"{format_time(start)}</title></rect>"
            )
            letters = int((width - 4) / _LETTER)
            if letters >= 4:
                yield f'<text x="{x + 2:.2f}" y="{y + 12}">{html.escape(event.name[:letters])}</text>'

    def threads(self) -> Iterator[str]:
        for thread, row in self.rows.items():
            y = self.top + row * _ROW + 12
            yield f'<text class="axis" x="0" y="{y}">thread {thread}</text>'

    def memory(self) -> Iterator[str]:
        changes = self.recording.memory
        if not changes:
            return
        totals = [self.recording.first_bytes, *(change[2] for change in changes)]
        low, high = min(totals), max(totals)
        span = max(high - low, 1)

        def y(total: int) -> float:
            return 10 + (high - total) / span * (_CURVE - 10)

        points = [f"{_LEFT},{y(totals[0]):.1f}"]
        for before, change in zip(totals, changes, strict=False):
            x = self.x(self.recording.us(change[0]))
            points += [f"{x:.2f},{y(before):.1f}", f"{x:.2f},{y(change[2]):.1f}"]
        points.append(f"{_WIDTH},{y(totals[-1]):.1f}")
        yield f'<polyline fill="none" stroke="#b03a2e" stroke-width="1.5" points="{" ".join(points)}"/>'
        yield f'<text class="axis" x="0" y="14">{format_memory(high)}</text>'
        yield f'<text class="axis" x="0" y="{_CURVE}">{format_memory(low)}</text>'

    def axis(self) -> Iterator[str]:
        for tenth in range(10):
            us = self.length * tenth / 10
            text = format_time(us)
            yield f'<text class="axis" x="{self.x(us):.1f}" y="{self.top - 6}">{text}</text>'

    def text(self) -> str:
        height = self.top + self.row_count * _ROW
        parts = [*self.axis(), *self.memory(), *self.threads(), *self.spans()]
        count, length = len(self.recording.events), format_time(self.length)
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Profile</title>'
            f"<style>{_STYLE}</style></head><body><p>{count} events in {length}</p>"
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}">'
            + "\n".join(parts)
            + "</svg></body></html>\n"
        )


def write_page(recording: Recording, path: str) -> None:
    """Write the page of a recording to a file."""
    Path(path).write_text(_Page(recording).text(), encoding="utf-8", errors="xmlcharrefreplace")
