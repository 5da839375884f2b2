"""The last operations of this process's groups: which, where in the program, and whether they have ended."""

from __future__ import annotations

import collections
import itertools
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import flambeau

_VARIABLE = "TORCH_FR_BUFFER_SIZE"
_PACKAGE = str(Path(flambeau.__file__).parent) + os.sep
_MOST_FRAMES = 12
_OF_DEBUGGING = 2000  # operations that are kept without the variable


def capacity() -> int | None:
    """Return how many operations TORCH_FR_BUFFER_SIZE lets be kept; None without the variable."""
    text = os.environ.get(_VARIABLE)
    if text is None:
        return None
    if not text.isdigit():
        raise ValueError(f"init_process_group: expected a number of at least 0 in {_VARIABLE}, got {text!r}")
    return int(text)


def frames() -> list[tuple[str, int, str]]:
    """Return file, line and function of the callers outside of the package, the innermost first."""
    found: list[tuple[str, int, str]] = []
    frame = sys._getframe(1)
    while frame is not None and len(found) < _MOST_FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return found


def call_site(stack: list[tuple[str, int, str]]) -> str:
    """Return the innermost place of a stack as text."""
    return f"{stack[0][0]}:{stack[0][1]}" if stack else "a thread of the package"


class Entry:
    """One operation.

    Args:
        group: the name of the group.
        number: which operation of the group it is.
        name: the function.
        tensors: shapes and dtypes.
        stack: what `frames` returned.
    """

    def __init__(
        self, group: str, number: int, name: str, tensors: list[tuple[list[int], str]], stack: list[Any]
    ) -> None:
        self.group, self.number, self.name, self.tensors, self.stack = group, number, name, tensors, stack
        self.began = time.time()
        self.work: Any = None  # None: it has not been started
        self.error = ""

    def described(self, place: int) -> dict[str, Any]:
        """Return the operation as JSON has it."""
        state, error = "waiting for the other ranks", self.error
        if self.work is not None:
            state = "completed" if self.work.is_completed() else "started"
            failure = self.work.exception() if state == "completed" else None
            error = str(failure) if failure is not None else error
        return {
            "place": place,
            "group": self.group,
            "number": self.number,
            "name": self.name,
            "shapes": [shape for shape, _ in self.tensors],
            "dtypes": [dtype for _, dtype in self.tensors],
            "state": "failed" if error else state,
            "error": error,
            "began": self.began,
            "stack": [{"file": f, "line": line, "function": name} for f, line, name in self.stack],
        }


class Recorder:
    """The last operations of this process.

    Args:
        size: how many are kept.
    """

    def __init__(self, size: int) -> None:
        self._entries: collections.deque[tuple[int, Entry]] = collections.deque(maxlen=size)
        self._places = itertools.count()
        self._lock = threading.Lock()

    def add(self, entry: Entry) -> None:
        """Keep an operation, and drop the oldest one beyond the size."""
        with self._lock:
            self._entries.append((next(self._places), entry))

    def described(self) -> list[dict[str, Any]]:
        """Return the operations, the oldest first."""
        with self._lock:
            entries = list(self._entries)
        return [entry.described(place) for place, entry in entries]


_recorder: Recorder | None = None


def recorder(create: bool = False) -> Recorder | None:
    """Return the recorder of this process; None if nothing is recorded."""
    global _recorder
    if _recorder is None and create:
        size = capacity()
        _recorder = Recorder(_OF_DEBUGGING if size is None else size)
    return _recorder


def dump(path: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Return the last operations of this process's groups, the oldest first.

    Operations are recorded if TORCH_FR_BUFFER_SIZE, the number that is kept, is positive or
    TORCH_DISTRIBUTED_DEBUG is DETAIL when a group is made. Any thread may call this while another one waits.

    Args:
        path: a file for the list, as JSON; None: no file.
    Returns: a list of dicts with ``place`` (the count of all operations before it), ``group``, ``number``
        (its place among those of the group, from 1), ``name``, ``shapes``, ``dtypes``, ``state`` ("waiting
        for the other ranks", "started", "completed" or "failed"), ``error``, ``began`` (seconds since 1970)
        and ``stack`` (file, line and function of each caller outside of flambeau, the innermost first).
    """
    found = _recorder.described() if _recorder is not None else []
    if path is not None:
        Path(path).write_text(json.dumps(found, indent=1))
    return found
