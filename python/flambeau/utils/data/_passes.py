"""Passes over the batches of a DataLoader."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from flambeau import _C
from flambeau._state.profiling import record_function
from flambeau.utils.data._failure import Failure
from flambeau.utils.data._pool import WorkerPool, raise_if_failed
from flambeau.utils.data.worker import EndOfStream

if TYPE_CHECKING:
    from flambeau.utils.data.loader import DataLoader


class _Pass:
    """An iterator over batches; after an exception it goes on with the next batch.

    Args:
        loader: whose batches.
    """

    _recorded_name = "_BaseDataLoaderIter"  # of PyTorch's class, in profiles

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._requests = loader.requests()
        self._lock = threading.Lock()

    def __iter__(self) -> _Pass:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        if not _C._profiler_enabled():
            with self._lock:
                return self._next()
        with record_function(f"enumerate(DataLoader)#{self._recorded_name}.__next__"), self._lock:
            return self._next()

    def _next(self) -> Any:
        raise StopIteration


class BatchesHere(_Pass):
    """Batches that are made in this process."""

    _recorded_name = "_SingleProcessDataLoaderIter"

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._fetcher, self._dataset = loader.fetcher, loader.dataset
        self._batches = self._fetcher.batches(iter(self._dataset)) if self._fetcher.streams else None

    def _next(self) -> Any:
        if self._batches is not None:
            return next(self._batches)
        wanted = next(self._requests)
        try:
            return self._fetcher.at(self._dataset, wanted)
        except StopIteration as error:
            raise RuntimeError("DataLoader: the data set raised StopIteration") from error


class BatchesOfWorkers(_Pass):
    """Batches that workers make. Each has `prefetch_factor` requests to work on.

    Args:
        loader: whose batches.
        pool: the workers.
    """

    _recorded_name = "_MultiProcessingDataLoaderIter"

    def __init__(self, loader: DataLoader[Any], pool: WorkerPool) -> None:
        super().__init__(loader)
        self._pool = pool
        self._in_order, self._keeps_workers = loader.in_order, pool is loader._pool
        self._number = pool.begin_pass(self)
        self._waiting = [0] * loader.num_workers  # requests that each worker has
        self._owner: dict[int, int] = {}  # of requests without a delivered answer
        self._arrived: dict[int, Any] = {}
        self._ended: set[int] = set()  # workers whose stream has ended
        self._sent = self._wanted = self._turn = 0
        try:
            for _ in range((loader.prefetch_factor or 0) * loader.num_workers):
                self._send()
        except BaseException:
            self._break()
            raise

    def _next_worker(self) -> int | None:
        """Return whose turn it is: in order so that it does not depend on speed, else the least busy."""
        count = len(self._waiting)
        turns = [(self._turn + i) % count for i in range(count)]
        live = [worker for worker in turns if worker not in self._ended]
        if not live:
            return None
        worker = live[0] if self._in_order else min(live, key=self._waiting.__getitem__)
        self._turn = worker + 1
        return worker

    def _send(self) -> None:
        worker = self._next_worker()
        if worker is None:
            return
        try:
            wanted = next(self._requests)
        except StopIteration:
            return
        self._owner[self._sent] = worker
        self._waiting[worker] += 1
        self._sent += 1
        self._pool.ask(worker, (self._number, self._sent - 1, wanted))

    def _break(self) -> None:
        """End the workers: it is unknown what they are at."""
        self._owner.clear()
        self._pool.shutdown()

    def _next(self) -> Any:
        while self._owner:
            try:
                answer = self._take()
                self._send()
            except BaseException:
                self._break()
                raise
            if not isinstance(answer, EndOfStream):
                if isinstance(answer, Failure):
                    raise answer.exception()
                return answer
        self._finish()
        raise StopIteration

    def _take(self) -> Any:
        """Wait for the next answer."""
        while True:
            number = self._wanted if self._in_order else next(iter(self._arrived), None)
            if number in self._arrived:
                break
            worker, (which, number, answer) = self._pool.receive()
            if which is None:
                raise_if_failed(answer)
            if which != self._number:
                continue  # of a pass that was given up
            self._waiting[worker] -= 1
            self._arrived[number] = answer
            if isinstance(answer, EndOfStream):
                self._ended.add(worker)
        self._wanted += 1
        del self._owner[number]
        return self._arrived.pop(number)

    def _finish(self) -> None:
        if not self._keeps_workers:
            self._pool.shutdown()
