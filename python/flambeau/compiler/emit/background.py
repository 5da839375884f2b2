"""Kernels of fused groups, compiled by a thread while the groups already run."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import queue
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau._dynamo.utils import counters
from flambeau.compiler import logs
from flambeau.compiler.emit import compilation, disk_cache
from flambeau.compiler.emit.kernels import NAME, has_kernel, source_of
from flambeau.compiler.ir.loops import parsed

if TYPE_CHECKING:
    import ctypes

is_measured = True  # whether a kernel must show that it is quicker; tests of results set False


@dataclass
class Job:
    """The groups of one graph, and the texts of the parts that each has."""

    groups: list[tuple[Any, list[str]]]


class _Worker:
    """The thread and what it has to do; a forked process begins with a new one."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.changed = threading.Condition()
        self.open_jobs = 0
        self.thread: threading.Thread | None = None
        self.run: compilation.Run | None = None
        self.is_closed = False

    def add(self, job: Job) -> None:
        with self.changed:
            if self.is_closed:
                return
            if self.thread is None:
                self.thread = threading.Thread(target=self._work, name="flambeau kernels", daemon=True)
                self.thread.start()
            self.open_jobs += 1
        self.jobs.put(job)

    def _work(self) -> None:
        while not self.is_closed:
            job = self.jobs.get()
            try:
                self._do(job)
            except Exception as error:  # the groups run as they did
                if not self.is_closed:
                    counters["fusion"]["kernels that were not compiled"] += 1
                    logs.say("output_code", functools.partial(str, error))
            del job  # keeps groups alive
            with self.changed:
                self.open_jobs -= 1
                self.changed.notify_all()

    def _do(self, job: Job) -> None:
        texts = list(dict.fromkeys(text for _, own in job.groups for text in own))
        source = source_of(texts)
        logs.say("output_code", lambda: f"Kernels of a graph:\n{source}")
        key = disk_cache.key_of(
            source, " ".join(compilation.flags()), compilation.version(), compilation.headers()
        )
        content = disk_cache.read(key)
        if content is None:
            self.run = compilation.Run()
            content = self.run.library(source)
            disk_cache.write(key, content)
            counters["fusion"]["kernels compiled"] += len(texts)
        else:
            counters["fusion"]["kernels from the cache"] += len(texts)
        import ctypes

        library = _loaded(content)
        for group, own in job.groups:
            for text in own:
                function = getattr(library, f"kernel_{texts.index(text)}")
                group.install(text, ctypes.cast(function, ctypes.c_void_p).value, is_measured)

    def close(self) -> None:
        """Begin no more work, and end the compiler."""
        self.is_closed = True
        if self.run is not None:
            self.run.stop()


def _loaded(content: bytes) -> ctypes.CDLL:
    """Load a library, which stays in the process; its file is not needed afterwards."""
    import ctypes

    handle, name = tempfile.mkstemp(prefix="flambeau-kernel-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        return ctypes.CDLL(name)
    finally:
        Path(name).unlink()


_worker = _Worker()
_local = threading.local()


def _begin_anew() -> None:
    global _worker
    _worker = _Worker()


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(lambda: _worker.close())


def _checked(name: str, value: Any) -> int:
    if value not in (0, 1, "0", "1") or isinstance(value, bool):
        raise RuntimeError(f"{name}: expected 0 or 1, got {value!r}")
    return int(value)


def tier() -> int:
    """Return 1 if kernels are wanted for the graphs that this thread compiles, else 0."""
    chosen: int | None = getattr(_local, "tier", None)
    return chosen if chosen is not None else _checked("FLAMBEAU_TIER", os.environ.get("FLAMBEAU_TIER", 1))


@contextlib.contextmanager
def tier_of(options: Mapping[str, Any] | None) -> Iterator[None]:
    """Within the block, `tier` follows ``options["tier"]`` if that is given."""
    kept = getattr(_local, "tier", None)
    if options and "tier" in options:
        _local.tier = _checked('compile: options["tier"]', options["tier"])
    try:
        yield
    finally:
        _local.tier = kept


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Compile the kernels that the block asks for after the block, which the worker would slow down."""
    if getattr(_local, "waiting", None) is not None:
        yield
        return
    _local.waiting = list[Job]()
    try:
        yield
    finally:
        jobs, _local.waiting = _local.waiting, None
        for job in jobs:
            _begin(job)


def _begin(job: Job) -> None:
    with contextlib.suppress(RuntimeError):  # no thread starts while the interpreter ends
        _worker.add(job)


def compile_later(groups: Iterable[tuple[Any, list[str]]]) -> None:
    """Compile kernels for the groups of a graph; each group uses its own once they are there and quicker.

    Without a C++ compiler, groups run as before, and a warning says so once.
    """
    wanted = [
        (group, [text for text in texts if NAME in text or has_kernel(parsed(text))])
        for group, texts in groups
    ]
    if not any(texts for _, texts in wanted):
        return
    if compilation.compiler() is None:
        _warn_once()
    elif getattr(_local, "waiting", None) is not None:
        _local.waiting.append(Job(wanted))
    else:
        _begin(Job(wanted))


_has_warned = False


def _warn_once() -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            "compile: expected a C++ compiler (CXX, g++ or clang++) for kernels, got none; fused groups run "
            "through the loops of single operators. FLAMBEAU_TIER=0 turns kernels and this warning off.",
            stacklevel=2,
        )


def finish(timeout: float) -> bool:
    """Wait until no kernel is left to compile; False if that takes longer than `timeout` seconds."""
    worker = _worker
    with worker.changed:
        return worker.changed.wait_for(lambda: worker.open_jobs == 0, timeout)
