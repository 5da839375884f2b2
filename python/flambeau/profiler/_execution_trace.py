"""Execution traces: the operators that ran, with the identities of their inputs and outputs, as JSON."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flambeau import _C
from flambeau.autograd import _recorded
from flambeau.autograd._recorded import RecordedEvent, Recording

_SCHEMA = "1.1.1-chakra.0.0.4"
_ROOT, _THREAD = 1, 2  # identifiers of the two nodes that contain all others
_SCOPES = {_recorded.NODE: 1, _recorded.RANGE: 7}
_PREFIX = "[pytorch|profiler|execution_trace|"
_VARIABLE = "ENABLE_PYTORCH_EXECUTION_TRACE"


class ExecutionTraceObserver:
    """Records an execution trace: each operator with its inputs, its outputs and its caller.

    The file is JSON in the format of PyTorch's traces (schema 1.1.1-chakra.0.0.4). A tensor is a list
    ``[tensor, storage, offset, elements, bytes per element, device]``. Equal numbers mean the same tensor;
    the number of a freed tensor can be used again. Pass the observer to
    `profile(execution_trace_observer=...)`, or call `start` and `stop` in a thread that is not profiled.

    Raises: RuntimeError in `start` if the thread is profiled, FileNotFoundError in `register_callback`.

    Example:
        >>> import json, pathlib, tempfile
        >>> from flambeau.profiler import ExecutionTraceObserver
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     observer = ExecutionTraceObserver().register_callback(folder + "/trace.json")
        ...     observer.start()
        ...     _ = flambeau.ones(2)
        ...     observer.stop()
        ...     nodes = json.loads(pathlib.Path(folder, "trace.json").read_text())["nodes"]
        >>> [node["name"] for node in nodes if node["name"].startswith("aten")]
        ['aten::ones']
    """

    def __init__(self) -> None:
        self._path: str | None = None
        self._is_registered = self._with_resources = False
        self._serial = 0  # serial number of the log that `start` opened
        self._nodes: list[dict[str, Any]] = []
        self._ids: dict[int, int] = {}
        self._last = _THREAD
        self._start = 0

    def __del__(self) -> None:
        if getattr(self, "_serial", 0):
            self.stop()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """Return an observer with a temporary file if ``ENABLE_PYTORCH_EXECUTION_TRACE`` is 1, else None."""
        if os.environ.get(_VARIABLE, "0") != "1":
            return None
        handle, path = tempfile.mkstemp(".et.json")
        os.close(handle)
        return ExecutionTraceObserver().register_callback(path)

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Set the file that `stop` writes; no effect if the observer has a file already."""
        if not self._is_registered:
            if not Path(output_file_path).absolute().parent.is_dir():
                raise FileNotFoundError(
                    f"ExecutionTraceObserver: expected a file in an existing folder, got {output_file_path!r}"
                )
            self._path, self._is_registered = str(output_file_path), True
        return self

    def unregister_callback(self) -> None:
        """Stop, and forget the file and the recording."""
        self.stop()
        self._is_registered = False
        self._nodes, self._ids, self._last = [], {}, _THREAD

    @property
    def is_registered(self) -> bool:
        """Whether the observer has a file."""
        return self._is_registered

    def is_running(self) -> bool:
        """Return whether the observer is recording."""
        return self._serial != 0

    def start(self) -> None:
        """Start recording this thread; no effect without a file, or while the observer is recording."""
        if not self._is_registered or self.is_running():
            return
        if _C._profiler_enabled():
            raise RuntimeError(
                "ExecutionTraceObserver.start: expected a thread that is not profiled, got a profiled one; "
                "pass the observer to the profile as execution_trace_observer"
            )
        _C._profiler_start(True, False, False, True)
        self._begun()

    def stop(self) -> None:
        """End recording and write the file."""
        serial, self._serial = self._serial, 0
        if serial and _C._profiler_enabled() == serial:
            native = _C._profiler_stop()
            self._write(Recording.of(native))

    def cleanup(self) -> None:
        """Do what `unregister_callback` does."""
        self.unregister_callback()

    def get_output_file_path(self) -> str | None:
        """Return the path of the file, or None."""
        return self._path

    def set_extra_resource_collection(self, val: bool) -> None:
        """Set whether `get_resources_dir` returns a folder; flambeau writes no resources there."""
        self._with_resources = bool(val)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """Return the folder for further files of the trace, or None if it is off or does not exist."""
        if self._path is None or not self._with_resources:
            return None
        return self.get_resources_dir_for_et_path(self._path, create_dir=can_create)

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """Return the folder next to a trace file for its further files; None if it does not exist."""
        folder = Path(trace_path).with_suffix("").with_name(Path(trace_path).stem + "_resources")
        if create_dir:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        return str(folder) if folder.is_dir() else None

    # A profile calls these methods before and after its own recording.
    def _begun(self) -> None:
        self._serial = _C._profiler_enabled()
        if not self._nodes:
            self._start = time.monotonic_ns()

    def _finished(self, recording: Recording | None) -> None:
        self._serial = 0
        if recording is not None and self._is_registered:
            self._write(recording)

    def _write(self, recording: Recording) -> None:
        self._nodes += _Graph(recording, self._ids, self._last).nodes()
        self._last = max((node["id"] for node in self._nodes), default=_THREAD)
        assert self._path is not None
        trace = {
            "schema": _SCHEMA,
            "pid": os.getpid(),
            "time": time.strftime("%Y-%m-%d %H:%M:%S"),
            "start_ts": self._start // 1000,
            "nodes": [_holder("thread", _THREAD), *self._nodes, _holder("process", _ROOT)],
            "finish_ts": recording.end // 1000,
        }
        Path(self._path).write_text(json.dumps(trace))


def _holder(name: str, number: int) -> dict[str, Any]:
    empty: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}
    return {
        "id": number,
        "name": f"{_PREFIX}{name}]",
        "ctrl_deps": _ROOT,
        "inputs": empty,
        "outputs": empty,
        "attrs": list(
            _attributes(rf_id=0, fw_parent=0, seq_id=-1, scope=7, tid=number - 1, fw_tid=0, op_schema="")
        ),
    }


def _attributes(**values: Any) -> Iterator[dict[str, Any]]:
    values |= {"kernel_backend": "", "kernel_file": "", "tensor_range": ""}
    for name, value in values.items():
        kind = "string" if isinstance(value, str) else "int64" if name == "seq_id" else "uint64"
        yield {"name": name, "type": kind, "value": value}


class _Graph:
    """The nodes of one recording; numbers of tensors and storages continue those of earlier recordings."""

    def __init__(self, recording: Recording, ids: dict[int, int], last: int) -> None:
        self.recording, self.ids, self.last = recording, ids, last
        self.numbers: dict[int, int] = {}  # event -> node
        self.forward = recording.forward_threads()

    def nodes(self) -> Iterator[dict[str, Any]]:
        kinds = (_recorded.PYTHON, _recorded.NATIVE, _recorded.MODULE)
        for i, event in enumerate(self.recording.events):
            if event.kind in kinds:  # recorded only by a profile with stacks
                self.numbers[i] = self.numbers.get(event.parent, _THREAD)
                continue
            self.last += 1
            number = self.numbers[i] = self.last
            yield self._node(number, event)

    def _node(self, number: int, event: RecordedEvent) -> dict[str, Any]:
        is_backward = event.kind in (_recorded.NODE, _recorded.EVALUATION)
        schema = event.schema
        if schema and "::" not in schema.partition("(")[0]:
            schema = "aten::" + schema
        return {
            "id": number,
            "name": event.name,
            "ctrl_deps": self.numbers.get(event.parent, _THREAD),
            "inputs": self._facts(event.arguments or []),
            "outputs": self._facts(event.results or []),
            "attrs": list(
                _attributes(
                    rf_id=number - _THREAD,
                    fw_parent=0,
                    seq_id=event.sequence,
                    scope=_SCOPES.get(event.kind, 0),
                    tid=event.thread,
                    fw_tid=self.forward.get(event.sequence, 0) if is_backward else 0,
                    op_schema=schema,
                )
            ),
        }

    def _number(self, address: int) -> int:
        if address not in self.ids:
            self.last += 1
            self.ids[address] = self.last
        return self.ids[address]

    def _facts(self, arguments: list[tuple[str, Any]]) -> dict[str, list[Any]]:
        out: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}
        for kind, value in arguments:
            if kind == "tensor":
                found = self._tensor(value[0])
            elif kind == "tensors":
                each = [self._tensor(one) for one in value]
                values, shapes, strides = ([one[i] for one in each] for i in range(3))
                found = values, shapes, strides, _list_type([one[3] for one in each])
            else:
                found = _plain(value)
            for name, fact in zip(("values", "shapes", "strides", "types"), found, strict=True):
                out[name].append(fact)
        return out

    def _tensor(self, one: Any) -> tuple[Any, Any, Any, str]:
        sizes, strides, dtype, (tensor, storage, offset, device) = one
        elements = 1
        for size in sizes:
            elements *= size
        number = self._number(storage) if storage else 0
        value = [self._number(tensor), number, offset, elements, dtype.itemsize, str(device)]
        name = str(dtype).rpartition(".")[2]
        return value, sizes, strides, f"Tensor({_recorded._TYPE_NAMES.get(name, name)})"


def _list_type(types: list[str]) -> str:
    return f"GenericList[{','.join(types)}]"


def _plain(value: Any) -> tuple[Any, Any, Any, str]:
    """Return value, shape, strides and type of a non-tensor; lists have an empty shape per element."""
    if value is None:
        return "<None>", [], [], "None"
    if isinstance(value, list | tuple):
        each = [_plain(one) for one in value]
        empty: list[Any] = [[] for _ in each]
        return [one[0] for one in each], empty, empty, _list_type([one[3] for one in each])
    for kind, name in ((bool, "Bool"), (int, "Int"), (float, "Double"), (str, "String")):
        if isinstance(value, kind):
            return value, [], [], name
    if isinstance(value, complex):
        return str(value), [], [], "ComplexDouble"
    return str(value), [], [], type(value).__name__.capitalize()
