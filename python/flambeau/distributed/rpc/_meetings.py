"""Values that several workers exchange through one of them, the leader, and the end of a job.

A job ends when all workers want it and no work is left. The leader asks all of them how many messages they
have sent and handled, until two rounds give the same numbers, and as many handled as sent. A message that is
under way is sent but not handled, and work that begins between the rounds changes the numbers (Mattern 1987,
"Algorithms for distributed termination detection", the four-counter method).
"""

from __future__ import annotations

import threading
import time
from typing import Any

from flambeau.distributed.rpc import _current
from flambeau.distributed.rpc._agent import Agent
from flambeau.distributed.rpc._calling import async_call
from flambeau.distributed.rpc.functions import async_execution
from flambeau.futures import Future

_PAUSE = 0.002  # seconds between two rounds
LAST = "shutdown"  # the key of the meeting that ends the job


class Meetings:
    """The meetings that a worker leads.

    Args:
        agent: the worker.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._lock = threading.Lock()
        self._open: dict[str, dict[int, tuple[Any, Future[Any]]]] = {}
        self._expected: dict[str, set[int]] = {}
        self._lost: dict[int, RuntimeError] = {}
        agent.on_lost = self._note_lost

    def enter(self, key: str, ranks: list[int], rank: int, value: Any) -> Future[Any]:
        """Return a future of the values of all ranks."""
        future: Future[Any] = Future()
        with self._lock:
            self._expected[key] = set(ranks)
            present = self._open.setdefault(key, {})
            present[rank] = value, future
            missing = [self._lost[r] for r in ranks if r in self._lost and r not in present]
            complete = set(present) == set(ranks)
        if missing:
            self._end(key, missing[0])
        elif complete and key == LAST:
            threading.Thread(target=self._finish, name="flambeau rpc shutdown", daemon=True).start()
        elif complete:
            self._end(key, None)
        return future

    def _note_lost(self, rank: int, error: RuntimeError) -> None:
        with self._lock:
            self._lost[rank] = error
            keys = [key for key, ranks in self._expected.items() if rank in ranks]
        for key in keys:
            self._end(key, error)

    def _end(self, key: str, error: Exception | None) -> None:
        """Answer all who are present, the leader itself last, since it may end then."""
        with self._lock:
            present = self._open.pop(key, {})
            self._expected.pop(key, None)
        values = {rank: value for rank, (value, _) in present.items()}
        for rank in sorted(present, key=lambda rank: rank == self._agent.info.id):
            future = present[rank][1]
            if error is None:
                future.set_result(values)
            else:
                future.set_exception(error)

    def _finish(self) -> None:
        try:
            before = None
            while (now := self._round()) != before or now is None:
                before = now
                time.sleep(_PAUSE)
        except Exception as error:
            self._end(LAST, error)
        else:
            self._end(LAST, None)

    def _round(self) -> tuple[int, int] | None:
        """Return how many messages were sent and handled; None if a worker is busy or the numbers differ."""
        workers = self._agent.workers
        replies = [async_call(self._agent, w.id, _load, (), {}, 0.0, internal=True) for w in workers]
        loads = [reply.wait() for reply in replies]
        sent, handled = sum(load[0] for load in loads), sum(load[1] for load in loads)
        return None if sent != handled or any(load[2] for load in loads) else (sent, handled)


def _load() -> tuple[int, int, bool]:
    return _current.get("shutdown").load()


@async_execution
def _enter(key: str, ranks: list[int], rank: int, value: Any) -> Future[Any]:
    return _current.get("shutdown").meetings.enter(key, ranks, rank, value)


def meet(agent: Agent, key: str, ranks: list[int], value: Any, timeout: float) -> dict[int, Any]:
    """Return the values of all ranks, whose leader is the lowest one."""
    arguments = (key, ranks, agent.info.id, value)
    return async_call(agent, min(ranks), _enter, arguments, {}, timeout, internal=key == LAST).wait()
