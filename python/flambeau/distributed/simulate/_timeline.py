"""Pictures and traces of the events of a simulated step: SVG of our own, and the Trace Event Format."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flambeau.autograd._chrome_trace import write_trace_events
from flambeau.autograd._event_table import format_memory, format_time
from flambeau.distributed.simulate._program import COMPUTE
from flambeau.distributed.simulate._report import Event, RankReport
from flambeau.distributed.simulate._result import Result, title

_WIDTH, _LEFT, _ROW, _TOP = 1400, 150, 20, 64  # pixels
_LETTER = 6.2  # average width of a character in pixels
_NARROW = 0.6  # pixels: successive narrower events of one kind are drawn as one
_MOST_CLASSES = 32
COLOURS = {
    "forward": "#7fb2e5",
    "backward": "#eda35e",
    "input grads": "#eda35e",
    "weight grads": "#d9c04f",
    "optimizer": "#8d8d8d",
    "all_gather": "#5aa469",
    "reduce_scatter": "#b9a7d1",
    "all_reduce": "#d1605e",
    "send": "#4f7cac",
}
# A stream of a rank -> the order of its row.
STREAMS = (COMPUTE, "node", "network", "send on", "send back")


def stream_of(event: Event) -> str:
    """Return the stream that shows an event: a collective is shown beside computation."""
    others = [stream for stream in event.stream if stream != COMPUTE]
    return others[0] if others else COMPUTE


def _rows(rank: RankReport) -> dict[str, list[Event]]:
    """Return the streams of a rank with their events; those that it only receives are the sender's."""
    found: dict[str, list[Event]] = {}
    for event in rank.events:
        if event.stream:
            found.setdefault(stream_of(event), []).append(event)
    return {stream: found[stream] for stream in STREAMS if stream in found}


def _merged(events: Iterable[Event], scale: float) -> Iterator[tuple[Event, int]]:
    """Yield events to draw, with the number of events that each stands for."""
    kept: Event | None = None
    count = 0
    for event in events:
        is_near = kept is not None and event.kind == kept.kind and (event.start - kept.end) * scale < _NARROW
        is_narrow = (event.end - event.start) * scale < _NARROW
        if kept is not None and is_near and is_narrow:
            kept = Event(kept.name, kept.kind, kept.stream, kept.start, event.end, kept.nbytes, kept.size)
            count += 1
            continue
        if kept is not None:
            yield kept, count
        kept, count = event, 1
    if kept is not None:
        yield kept, count


class _Picture:
    def __init__(self, result: Result) -> None:
        self.result = result
        self.ranks = result.ranks[:_MOST_CLASSES]
        self.scale = (_WIDTH - _LEFT - 10) / (result.step or 1.0)
        self.y = _TOP

    def _event(self, event: Event, count: int) -> Iterator[str]:
        x, width = _LEFT + event.start * self.scale, (event.end - event.start) * self.scale
        facts = [event.name, f"{event.kind}, {_time(event.end - event.start)} from {_time(event.start)}"]
        if event.nbytes:
            way = f" by {event.algorithm}" if event.algorithm else ""
            facts.append(f"{format_memory(event.nbytes)} among {event.size} ranks{way}")
        if count > 1:
            facts = [f"{count} events from {event.name}", *facts[1:2]]
        told = html.escape("\n".join(facts))
        yield (
            f'<rect x="{x:.2f}" y="{self.y}" width="{max(width, 0.3):.2f}" height="{_ROW - 4}" '
            f'fill="{COLOURS[event.kind]}"><title>{told}</title></rect>'
        )
        letters = int((width - 4) / _LETTER)
        if letters >= 4:
            yield f'<text x="{x + 2:.2f}" y="{self.y + 12}">{html.escape(event.name[:letters])}</text>'

    def _rank(self, rank: RankReport) -> Iterator[str]:
        others = f" and {rank.count - 1} more" if rank.count > 1 else ""
        yield f'<text class="name" x="4" y="{self.y + 12}">rank {rank.first}{others}</text>'
        self.y += _ROW
        for stream, events in _rows(rank).items():
            yield f'<text x="14" y="{self.y + 12}">{stream}</text>'
            for event, count in _merged(events, self.scale):
                yield from self._event(event, count)
            self.y += _ROW

    def _axis(self) -> Iterator[str]:
        for tenth in range(11):
            x = _LEFT + self.result.step * self.scale * tenth / 10
            yield f'<path d="M{x:.1f} {_TOP - 6}V{self.y}" stroke="#e6e9ee"/>'
            if tenth < 10:
                yield f'<text x="{x + 2:.1f}" y="{_TOP - 8}">{_time(self.result.step * tenth / 10)}</text>'

    def _legend(self) -> Iterator[str]:
        used = {event.kind for rank in self.ranks for event in rank.events}
        x = _LEFT
        for kind, colour in COLOURS.items():
            if kind in used:
                yield f'<rect x="{x}" y="28" width="10" height="10" fill="{colour}"/>'
                yield f'<text x="{x + 14}" y="37">{kind}</text>'
                x += 26 + int(_LETTER * len(kind))

    def text(self) -> str:
        bars = [part for rank in self.ranks for part in self._rank(rank)]
        heading = f'<text class="name" x="4" y="16">{html.escape(title(self.result))}</text>'
        parts = "\n".join([*self._axis(), heading, *self._legend(), *bars])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {self.y + 8}" width="{_WIDTH}">'
            "<style>text{font:11px system-ui,sans-serif;fill:#3a4654;pointer-events:none}"
            ".name{font-weight:600}rect:hover{stroke:#000}</style>"
            f'<rect width="100%" height="100%" fill="#fff"/>\n{parts}\n</svg>\n'
        )


def _time(seconds: float) -> str:
    return format_time(seconds * 1e6)


def write_timeline(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a picture of the events of each class of ranks."""
    Path(path).write_text(_Picture(result).text(), encoding="utf-8")


def _spans(rank: RankReport) -> Iterator[dict[str, Any]]:
    for row, (stream, events) in enumerate(_rows(rank).items()):
        place = {"pid": rank.first, "tid": row}
        yield {"ph": "M", "name": "thread_name", **place, "args": {"name": stream}}
        for event in events:
            facts = {"bytes": event.nbytes, "ranks": event.size, "algorithm": event.algorithm}
            yield {
                "ph": "X",
                "cat": event.kind,
                "name": event.name,
                **place,
                "ts": event.start * 1e6,
                "dur": (event.end - event.start) * 1e6,
                "args": {} if event.is_work else facts,
            }


def write_trace(result: Result, path: str | os.PathLike[str]) -> None:
    """Write the events of each class of ranks in the Trace Event Format."""
    events: list[dict[str, Any]] = []
    for rank in result.ranks:
        name = f"rank {rank.first} and {rank.count - 1} more, stage {rank.stage}"
        events.append({"ph": "M", "name": "process_name", "pid": rank.first, "args": {"name": name}})
        events += _spans(rank)
    write_trace_events(events, path, {"displayTimeUnit": "ms", "title": title(result)})
