"""What a thread has recorded (`_C._profiler_stop`), as events with times, memory, stacks and FLOPs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau.autograd.profiler_util import (
    MEMORY_EVENT_NAME,
    DeviceType,
    EventList,
    FunctionEvent,
)

__all__ = ["RecordedEvent", "Recording"]

# Kinds of events, as in aten/dispatch/recording.h.
OPERATOR, EVALUATION, NODE, RANGE, PYTHON, NATIVE, MODULE = range(7)
_BACKWARD_SCOPE, _USER_SCOPE = 1, 7
_OF_PYTHON = (PYTHON, NATIVE, MODULE)
# Categories in traces, by kind.
CATEGORIES = {
    OPERATOR: "cpu_op",
    EVALUATION: "cpu_op",
    NODE: "cpu_op",
    RANGE: "user_annotation",
    PYTHON: "python_function",
    NATIVE: "python_function",
    MODULE: "python_function",
}
MEMORY_CATEGORY = "cpu_instant_event"
_EVALUATED = "autograd::engine::evaluate_function: "
_TYPE_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


@dataclass(slots=True)
class RecordedEvent:
    """One event, with times in nanoseconds of the system's monotonic clock."""

    kind: int
    name: str
    overload: str | None
    start: int
    end: int
    sequence: int
    parent: int
    thread: int
    arguments: list[tuple[str, Any]] | None
    results: list[tuple[str, Any]] | None = None
    schema: str = ""

    @property
    def shapes(self) -> list[Any]:
        """Sizes of the arguments that are tensors; empty lists for all others, lists of tensors included."""
        return [value[0][0] if kind == "tensor" else [] for kind, value in self.arguments or []]

    @property
    def structured_shapes(self) -> list[Any]:
        """Sizes of the arguments that are tensors or lists of them; empty lists for all others."""
        return [self._tensor_facts(0, kind, value, []) for kind, value in self.arguments or []]

    @property
    def strides(self) -> list[Any]:
        """Strides, where `structured_shapes` has sizes."""
        return [self._tensor_facts(1, kind, value, []) for kind, value in self.arguments or []]

    @property
    def concrete(self) -> list[Any]:
        """The values of arguments that are not tensors; None for the text of a range."""
        is_shown = self.kind != RANGE
        return [value if kind == "value" and is_shown else None for kind, value in self.arguments or []]

    @property
    def text(self) -> str | None:
        """The text that `record_function` was given beside the name."""
        return self.arguments[0][1] if self.kind == RANGE and self.arguments else None

    @property
    def formula(self) -> str:
        """The row of an operator in the table of floating-point operations; "" for other events."""
        name = self.name.removeprefix("aten::") if self.kind == OPERATOR else ""
        return f"{name}.{self.overload}" if self.overload else name

    @property
    def flops(self) -> int:
        """Floating-point operations; 0 without a formula, and for calls that failed."""
        from flambeau.utils._flops import PROFILED

        formula = PROFILED.get(self.formula)
        if formula is None or self.arguments is None:
            return 0
        sizes = zip(self.arguments, self.structured_shapes, self.concrete, strict=True)
        try:
            return formula(*(value if kind == "value" else shape for (kind, _), shape, value in sizes))
        except (IndexError, TypeError, ZeroDivisionError):
            return 0  # arguments that the operator refused

    @property
    def types(self) -> list[str]:
        """PyTorch's names of the types of the arguments."""
        if self.kind == RANGE:
            return [""] * len(self.arguments or [])
        return [_type_name(kind, value) for kind, value in self.arguments or []]

    @staticmethod
    def _tensor_facts(fact: int, kind: str, value: Any, otherwise: Any) -> Any:
        if kind == "tensor":
            return value[0][fact]
        return [one[fact] for one in value] if kind == "tensors" else otherwise


def _type_name(kind: str, value: Any) -> str:
    if kind == "tensor":
        name = str(value[0][2]).rpartition(".")[2]
        return _TYPE_NAMES.get(name, name)
    if kind == "tensors":
        return "TensorList"
    if value is None:
        return ""
    return "ScalarList" if isinstance(value, list | tuple) else "Scalar"


def _shown_path(name: str) -> str:
    """Return the name of a Python function with its file relative to the folder it was imported from."""
    for folder in sorted(filter(None, sys.path), key=len, reverse=True):
        prefix = folder.rstrip("/") + "/"
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


@dataclass
class Recording:
    """What one thread recorded between start and stop.

    Args:
        events: in the order of their start; the parent of each is its place in this list, or -1.
        memory: tuples (time, bytes, total, address, event, thread); negative bytes are released.
        threads: from the numbers of threads to those of the system.
        start: nanoseconds of the system's monotonic clock.
        end: nanoseconds.
        first_bytes: bytes that were allocated at the start.
        owners: from the addresses of blocks that parameters and optimizers had at the end to the number of
            their category and their size; empty without memory.
    """

    events: list[RecordedEvent]
    memory: list[tuple[int, int, int, int, int, int]]
    threads: dict[int, int]
    start: int
    end: int
    first_bytes: int
    metadata: dict[str, str] = field(default_factory=dict)
    owners: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, native: tuple[Any, ...]) -> Recording:
        """Make one of the result of `_C._profiler_stop`."""
        events, memory, threads, start, end, first_bytes = native
        recorded = [RecordedEvent(*event) for event in events]
        shown: dict[str, str] = {}
        for event in recorded:
            if event.kind == PYTHON:
                event.name = shown.setdefault(event.name, _shown_path(event.name))
            elif event.name == "AccumulateGrad" and event.kind in (EVALUATION, NODE):
                event.name = "torch::autograd::AccumulateGrad"
            if event.kind == EVALUATION:
                event.name = _EVALUATED + event.name
        return cls(recorded, memory, dict(threads), start, end, first_bytes)

    def us(self, time: int) -> float:
        """Return a time as microseconds since the start."""
        return (time - self.start) / 1e3

    def forward_threads(self) -> dict[int, int]:
        """Return sequence number -> thread of the operator that made the node."""
        return {e.sequence: e.thread for e in self.events if e.kind == OPERATOR and e.sequence >= 0}

    def flows(self, kind: int) -> Iterator[tuple[int, int, int]]:
        """Yield a number, the operator that made a node, and the first event of that kind for the node."""
        makers: dict[int, int] = {}
        for i, event in enumerate(self.events):
            if event.kind == OPERATOR and event.sequence >= 0:
                makers[event.sequence] = i  # the innermost: the node's number is used up by the next one
        flow = 0
        for i, event in enumerate(self.events):
            if event.kind == kind and event.sequence in makers:
                flow += 1
                yield flow, makers.pop(event.sequence), i

    def stack_of(self, index: int) -> list[str]:
        """Return the Python functions within which an event ran, innermost first."""
        lines = []
        at = self.events[index].parent
        while at >= 0:
            if self.events[at].kind in _OF_PYTHON:
                lines.append(self.events[at].name)
            at = self.events[at].parent
        return lines

    def to_list(self, profile_memory: bool, with_stack: bool, with_flops: bool) -> EventList:
        """Return the events with their tree, and an event per change of memory outside of all others."""
        forward = self.forward_threads()
        made = [self._made(i, forward, with_stack) for i in range(len(self.events))]
        for function, event in zip(made, self.events, strict=True):
            if event.parent >= 0:
                made[event.parent].append_cpu_child(function)
                function.set_cpu_parent(made[event.parent])
        for flow, maker, run in self.flows(NODE):
            for i in (maker, run):
                made[i].flow_id, made[i].flow_type, made[i].flow_start = flow, 1, i == maker
        self._add_memory(made)
        if with_flops:
            from flambeau.utils._flops import PROFILED

            whole: set[int] = set()  # events that are counted with their parts, and their parts
            for i, (function, event) in enumerate(zip(made, self.events, strict=True)):
                function.flops = 0
                if event.parent in whole:
                    whole.add(i)
                elif event.formula in PROFILED:
                    whole.add(i)
                    function.flops = event.flops
        listed = sorted([*made, *self._outside(len(made))], key=lambda e: e.time_range.start)
        result = EventList(listed, profile_memory=profile_memory, with_flops=with_flops, trace=self)
        result._tree_built = True
        return result

    def _made(self, index: int, forward: dict[int, int], with_stack: bool) -> FunctionEvent:
        event = self.events[index]
        is_backward = event.kind in (EVALUATION, NODE)
        scope = {NODE: _BACKWARD_SCOPE, RANGE: _USER_SCOPE}.get(event.kind, 0)
        number = 0 if event.kind in _OF_PYTHON else index + 1
        return FunctionEvent(
            id=number,
            external_id=number,
            **self._place(event.thread),
            **self._python_ids(index),
            activity_type=CATEGORIES[event.kind],
            flow_id=0,
            flow_type=0,
            flow_start=False,
            metadata_json="",
            name="ProfilerStep*" if event.name.startswith("ProfilerStep#") else event.name,
            trace_name=event.name,
            overload_name=event.overload or "",
            thread=event.thread,
            start_us=self.us(event.start),
            end_us=self.us(event.end),
            fwd_thread=forward.get(event.sequence, 0) if is_backward else 0,
            input_shapes=event.shapes,
            concrete_inputs=event.concrete,
            kwinputs={},
            stack=self.stack_of(index) if with_stack and event.kind not in _OF_PYTHON else [],
            scope=scope,
            sequence_nr=event.sequence,
            device_type=DeviceType.CPU,
            is_user_annotation=event.kind == RANGE,
            flops=0,
            _may_use_devices=False,
            is_python_function=event.kind in _OF_PYTHON,
            structured_input_shapes=event.structured_shapes,
            structured_input_strides=event.strides,
            input_dtypes=event.types,
        )

    def _place(self, thread: int) -> dict[str, Any]:
        """Return the process and the thread of the system, which stand for the CPU's number and queue."""
        return {"device_index": os.getpid(), "device_resource_id": self.threads.get(thread, thread)}

    def _python_ids(self, index: int) -> dict[str, Any]:
        """Return the numbers of a call of Python code, of its caller, and of its module."""
        event = self.events[index]
        if event.kind not in _OF_PYTHON:
            return {}
        parent = event.parent
        while parent >= 0 and self.events[parent].kind not in _OF_PYTHON:
            parent = self.events[parent].parent
        number = event.name.rpartition("_")[2] if event.kind == MODULE else ""
        return {
            "python_id": index + 1,
            "python_parent_id": parent + 1 if parent >= 0 else -1,
            "python_module_id": int(number) if number.isdecimal() else -1,
        }

    def _add_memory(self, made: Sequence[FunctionEvent]) -> None:
        """Add what each event allocated to it and to those around it."""
        for _, nbytes, _, _, at, _ in self.memory:
            if at >= 0:
                made[at].cpu_memory_usage += nbytes
        for i in range(len(made) - 1, -1, -1):  # parents come before their children
            parent = self.events[i].parent
            if parent >= 0:
                made[parent].cpu_memory_usage += made[i].cpu_memory_usage

    def _outside(self, first: int) -> list[FunctionEvent]:
        alone = [change for change in self.memory if change[4] < 0]
        return [
            FunctionEvent(
                id=first + i + 1,
                name=MEMORY_EVENT_NAME,
                thread=thread,
                start_us=self.us(time),
                end_us=self.us(time),
                fwd_thread=0,
                input_shapes=[],
                cpu_memory_usage=nbytes,
                device_type=DeviceType.CPU,
                **self._place(thread),
                external_id=first + i + 1,
                activity_type=MEMORY_CATEGORY,
                flow_id=0,
                flow_type=0,
                flow_start=False,
                metadata_json="",
            )
            for i, (time, nbytes, _, _, _, thread) in enumerate(alone)
        ]
