"""Traces in the format of chrome://tracing, which Perfetto reads too.

Source: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flambeau.autograd import _recorded
from flambeau.autograd._recorded import RecordedEvent, Recording

Json = dict[str, Any]


def _us(time: int) -> float:
    return time / 1e3


def _plain(value: Any) -> Any:
    """Return a value of an argument as text, as PyTorch writes it; lists of numbers stay lists."""
    if isinstance(value, str):
        return value
    return "" if value is None else str(value)


def _arguments(event: RecordedEvent, index: int, forward: Mapping[int, int]) -> Json:
    facts: Json = {"Ev Idx": index}
    if event.kind in (_recorded.PYTHON, _recorded.NATIVE, _recorded.MODULE):
        return {"Python id": index, "Python parent id": event.parent if event.parent >= 0 else None, **facts}
    facts |= {"External id": index + 1, "Record function id": 0}
    if event.sequence >= 0:
        is_backward = event.kind != _recorded.OPERATOR
        facts["Sequence number"] = event.sequence
        facts["Fwd thread id"] = forward.get(event.sequence, 0) if is_backward else 0
    if event.arguments is not None:
        facts["Input Dims"] = event.structured_shapes
        facts["Input Strides"] = event.strides
        facts["Input type"] = event.types
        facts["Concrete Inputs"] = [_plain(value) for value in event.concrete]
    if event.text is not None:
        facts["args"] = event.text
    return facts


class _Writer:
    def __init__(self, recording: Recording) -> None:
        self.recording, self.pid = recording, os.getpid()

    def tid(self, thread: int) -> int:
        return self.recording.threads.get(thread, thread)

    def spans(self) -> Iterator[Json]:
        forward = self.recording.forward_threads()
        for i, event in enumerate(self.recording.events):
            yield {
                "ph": "X",
                "cat": _recorded.CATEGORIES[event.kind],
                "name": event.name,
                "pid": self.pid,
                "tid": self.tid(event.thread),
                "ts": _us(event.start),
                "dur": _us(event.end - event.start),
                "args": _arguments(event, i, forward),
            }

    def flows(self) -> Iterator[Json]:
        for flow, maker, run in self.recording.flows(_recorded.EVALUATION):
            for phase, index in (("s", maker), ("f", run)):
                event = self.recording.events[index]
                place = {"pid": self.pid, "tid": self.tid(event.thread), "ts": _us(event.start)}
                one = {"ph": phase, "id": flow, **place, "cat": "fwdbwd", "name": "fwdbwd"}
                yield one | ({"bp": "e"} if phase == "f" else {})

    def memory(self) -> Iterator[Json]:
        for time, nbytes, total, address, _, thread in self.recording.memory:
            place = {"pid": self.pid, "tid": self.tid(thread), "ts": _us(time)}
            facts = {
                "Total Reserved": 0,
                "Total Allocated": total,
                "Bytes": nbytes,
                "Addr": address,
                "Device Id": -1,
                "Device Type": 0,
            }
            instant = {"ph": "i", "cat": _recorded.MEMORY_CATEGORY, "s": "t", "name": "[memory]"}
            yield instant | place | {"args": facts}
            counter = {"ph": "C", "name": "CPU memory", "pid": self.pid, "ts": _us(time)}
            yield counter | {"args": {"allocated bytes": total}}

    def names(self) -> Iterator[Json]:
        def named(what: str, tid: int, name: str) -> Json:
            at = {"ph": "M", "pid": self.pid, "tid": tid, "ts": _us(self.recording.start)}
            return {"name": what, **at, "args": {"name": name}}

        yield named("process_name", 0, Path(sys.executable).name)
        for tid in self.recording.threads.values():
            yield named("thread_name", tid, f"thread {tid} ({Path(sys.executable).name})")


def write(recording: Recording, path: str | os.PathLike[str], facts: Mapping[str, Any]) -> None:
    """Write a recording as JSON, compressed if the name of the file ends in ``.gz``."""
    writer = _Writer(recording)
    events: list[Json] = [*writer.names(), *writer.spans(), *writer.flows(), *writer.memory()]
    host = {"host_name": socket.gethostname(), "displayTimeUnit": "ms"}
    trace = {"schemaVersion": 1, "deviceProperties": [], **facts, **host, "traceName": os.fspath(path)}
    _write_text(path, json.dumps(trace | recording.metadata | {"traceEvents": events}))


def _write_text(path: str | os.PathLike[str], text: str) -> None:
    # Names can have lone surrogates, which UTF-8 cannot; json has escaped them.
    if os.fspath(path).endswith(".gz"):
        with gzip.open(path, "wt") as packed:
            packed.write(text)
    else:
        Path(path).write_text(text)


def write_trace_events(
    events: Iterable[Json], path: str | os.PathLike[str], facts: Mapping[str, Any]
) -> None:
    """Write events of the format with some facts about them, compressed if ``path`` ends in ``.gz``."""
    _write_text(path, json.dumps({**facts, "traceEvents": list(events)}))


def write_events(events: Iterable[Any], path: str) -> None:
    """Write a list of events: the whole recording if it is the list of a profile."""
    recording = getattr(events, "_trace", None)
    if recording is not None:
        return write(recording, path, {})
    spans = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": event.trace_name,
            "pid": "CPU functions",
            "tid": event.thread,
            "ts": event.time_range.start,
            "dur": event.time_range.elapsed_us(),
            "args": {},
        }
        for event in events
    ]
    _write_text(path, json.dumps(spans))
    return None
