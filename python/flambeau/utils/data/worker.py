"""Worker processes of a DataLoader.

Each worker has a queue of requests; answers come back on one queue and are put in order here. A
worker's exception is raised in the main process; a worker that dies is noticed and named.
"""

from __future__ import annotations

import itertools
import multiprocessing
import queue
import random
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import flambeau

if TYPE_CHECKING:
    from flambeau.utils.data.loader import DataLoader

# How often to look whether a silent worker is still alive, in seconds.
_HEARTBEAT = 5.0


@dataclass
class WorkerInfo:
    """What a worker process knows about itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass
class _Failure:
    """An exception that crossed the process border as text."""

    kind: type[BaseException]
    text: str

    def raise_here(self) -> None:
        raise self.kind(f"Caught {self.kind.__name__} in a DataLoader worker process.\nOriginal {self.text}")


class _EndOfStream:
    pass


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return this process's `WorkerInfo`, or None outside of workers."""
    return _info


def _serve(options: dict[str, Any], info: WorkerInfo, requests: Any, answers: Any) -> None:
    global _info
    _info = info
    flambeau.set_num_threads(1)
    flambeau.manual_seed(info.seed)
    random.seed(info.seed)
    try:
        if options["worker_init_fn"] is not None:
            options["worker_init_fn"](info.id)
        answer = _answerer(options, info.dataset)
        while (request := requests.get()) is not None:
            number, indices = request
            try:
                answers.put((number, info.id, answer(indices)))
            except StopIteration:
                answers.put((number, info.id, _EndOfStream()))
            except Exception as error:
                answers.put((number, info.id, _Failure(type(error), traceback.format_exc())))
    except KeyboardInterrupt:
        pass  # the main process reports it
    except Exception as error:
        answers.put((None, info.id, _Failure(type(error), traceback.format_exc())))


def _answerer(options: dict[str, Any], dataset: Any) -> Any:
    from flambeau.utils.data.loader import batches_of_stream

    collate = options["collate_fn"]
    if options["streams"]:
        batches = batches_of_stream(iter(dataset), options["batch_size"], options["drop_last"], collate)
        return lambda _: next(batches)
    return lambda indices: collate([dataset[i] for i in indices])


class WorkerPool:
    """The processes of one loader."""

    def __init__(self, loader: DataLoader, seed: int) -> None:
        context = loader.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.timeout = loader.timeout
        self.ahead = loader.prefetch_factor
        self.answers = context.Queue()
        self.requests = [context.Queue() for _ in range(loader.num_workers)]
        names = ("worker_init_fn", "collate_fn", "batch_size", "drop_last")
        options = {name: getattr(loader, name) for name in names} | {"streams": loader._streams}
        self.processes = []
        for i, requests in enumerate(self.requests):
            info = WorkerInfo(i, loader.num_workers, seed + i, loader.dataset)
            process = context.Process(
                target=_serve, args=(options, info, requests, self.answers), daemon=True
            )
            process.start()
            self.processes.append(process)

    def alive(self) -> bool:
        """Whether every worker is running."""
        return bool(self.processes) and all(process.is_alive() for process in self.processes)

    def batches(self, wanted: Iterator[list[int] | None], keep: bool) -> Iterator[Any]:
        """Yield one answer per request, in order, keeping every worker `ahead` requests busy."""
        finished = False
        try:
            yield from self._in_order(wanted)
            finished = True
        finally:
            if not (keep and finished):
                self.shutdown()

    def _in_order(self, wanted: Iterator[list[int] | None]) -> Iterator[Any]:
        arrived: dict[int, Any] = {}
        ended: set[int] = set()
        sent = itertools.count()
        owner: dict[int, int] = {}
        turn = itertools.cycle(range(len(self.requests)))

        def send() -> None:
            live = next((w for w in itertools.islice(turn, len(self.requests)) if w not in ended), None)
            if live is None:
                return
            indices = next(wanted, self)
            if indices is not self:
                number = next(sent)
                owner[number] = live
                self.requests[live].put((number, indices))

        for _ in range(self.ahead * len(self.requests)):
            send()
        number = 0
        while number in owner:
            while number not in arrived:
                which, worker, answer = self._receive()
                if which is None:
                    answer.raise_here()
                arrived[which] = answer
                if isinstance(answer, _EndOfStream):
                    ended.add(worker)
            answer = arrived.pop(number)
            number += 1
            send()
            if isinstance(answer, _Failure):
                answer.raise_here()
            if not isinstance(answer, _EndOfStream):
                yield answer

    def _receive(self) -> Any:
        waited = 0.0
        while True:
            pause = min(self.timeout or _HEARTBEAT, _HEARTBEAT)
            try:
                return self.answers.get(timeout=pause)
            except queue.Empty:
                waited += pause
            dead = [process.pid for process in self.processes if not process.is_alive()]
            if dead:
                raise RuntimeError(
                    f"DataLoader: worker processes {', '.join(map(str, dead))} exited unexpectedly"
                )
            if self.timeout and waited >= self.timeout:
                raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")

    def shutdown(self) -> None:
        """End the workers."""
        for requests in self.requests:
            requests.put(None)
        for process in self.processes:
            process.join(timeout=0.5)
            if process.is_alive():
                process.terminate()
                process.join()
        self.processes = []
