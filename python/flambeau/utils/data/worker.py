"""The process of a DataLoader's worker: fetches what it is asked for until the loader's process ends."""

from __future__ import annotations

import random
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import flambeau
from flambeau import _C
from flambeau.utils.data._failure import Failure
from flambeau.utils.data._messages import Link


@dataclass
class WorkerInfo:
    """What a worker process knows about itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class EndOfStream:
    """The answer of a worker whose stream has ended."""


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return what a worker process of a `DataLoader` knows of itself.

    Returns: in a worker an object with `id` (from 0), `num_workers`, `seed` and `dataset`; elsewhere None.

    Example:
        >>> flambeau.utils.data.get_worker_info() is None
        True
    """
    return _info


# --- fetching ------------------------------------------------------------------------------------------


@dataclass
class Fetcher:
    """How batches are made.

    Args:
        collate: makes a batch of a list of samples, or converts one sample.
        streams: whether the data set is a stream.
        batched: whether samples come in batches.
        batch_size: samples per batch of a stream.
        drop_last: leave out a last batch of a stream that is shorter.
    """

    collate: Callable[[Any], Any]
    streams: bool
    batched: bool
    batch_size: int | None
    drop_last: bool

    def at(self, dataset: Any, wanted: Any) -> Any:
        """Return the batch of a list of indices, or the sample of one."""
        if not self.batched:
            return self.collate(dataset[wanted])
        if callable(many := getattr(dataset, "__getitems__", None)):
            return self.collate(many(wanted))
        return self.collate([dataset[i] for i in wanted])

    def batches(self, samples: Iterator[Any]) -> Iterator[Any]:
        """Yield what a stream has."""
        if not self.batched:
            yield from map(self.collate, samples)
            return
        while batch := list(islice(samples, self.batch_size)):
            if self.drop_last and len(batch) < (self.batch_size or 1):
                return
            yield self.collate(batch)


class _Source:
    """What a worker fetches from: for streams, a new pass over the data set for each one of the loader."""

    def __init__(self, fetcher: Fetcher, dataset: Any) -> None:
        self.fetcher, self.dataset = fetcher, dataset
        self.number: int | None = None
        self.batches: Iterator[Any] = iter(())

    def fetch(self, number: int, wanted: Any) -> Any:
        if not self.fetcher.streams:
            return self.fetcher.at(self.dataset, wanted)
        if number != self.number:
            self.number, self.batches = number, self.fetcher.batches(iter(self.dataset))
        return next(self.batches, EndOfStream())


# --- the process ---------------------------------------------------------------------------------------


def _leave_parent_alone() -> None:
    """Undo what a fork inherits: handlers of signals that are the parent's concern."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the loader ends its workers


def _seed_generators(info: WorkerInfo) -> None:
    flambeau.manual_seed(info.seed)
    random.seed(info.seed)
    if "numpy" in sys.modules:
        import numpy

        base = info.seed - info.id
        sequence = numpy.random.SeedSequence([info.id, base & 0xFFFFFFFF, base >> 32, 0])
        numpy.random.seed(sequence.generate_state(4))


def serve(
    fetcher: Fetcher,
    info: WorkerInfo,
    init: Callable[[int], None] | None,
    loader_process: int,
    end: socket.socket,
    inherited: list[Any],
) -> None:
    """Answer requests (pass, number, wanted) by (pass, number, answer) until None comes."""
    global _info
    _info = info
    _C._end_with_process(loader_process)
    _leave_parent_alone()
    for other in inherited:
        other.close()
    where = f"in DataLoader worker process {info.id}"
    link = Link(end)
    try:
        flambeau.set_num_threads(1)
        _seed_generators(info)
        if init is not None:
            init(info.id)
        source = _Source(fetcher, info.dataset)
    except BaseException as error:
        link.send_all((None, None, Failure.of(error, where)))
        return
    try:
        _answer_requests(source, link, where)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the loader is gone


def _answer_requests(source: _Source, link: Link, where: str) -> None:
    while True:
        for request in link.receive():
            if request is None:
                return
            which, number, wanted = request
            try:
                answer = source.fetch(which, wanted)
            except BaseException as error:
                answer = Failure.of(error, where)
            try:
                link.send_all((which, number, answer))
            except (BrokenPipeError, ConnectionResetError):
                return
            except BaseException as error:
                link.send_all((which, number, Failure.of(error, f"{where} while sending a batch")))
            del request, wanted, answer
