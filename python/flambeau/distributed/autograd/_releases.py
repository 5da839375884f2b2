"""The ends of contexts: other workers hear of them a little later, several at once."""

from __future__ import annotations

import logging
import os
import threading

from flambeau.distributed._gradient_contexts import contexts
from flambeau.distributed.rpc import _current
from flambeau.distributed.rpc._agent import Agent
from flambeau.distributed.rpc._calling import async_call

_log = logging.getLogger("flambeau.distributed.rpc")
_PATIENCE = 0.01  # seconds that an end waits for others; so long workers keep what the context holds
_MANY = 16  # ends that are sent at once

_lock = threading.Lock()
_ended: dict[tuple[Agent, int], list[int]] = {}  # this worker, rank -> numbers of contexts


def release(*numbers: int) -> None:
    """Forget contexts here, and soon in all workers that calls of them went to."""
    agent = _current.find()
    for number in numbers:
        found = contexts.release(number)
        if found is not None and agent is not None:
            for rank in found.workers - {agent.info.id}:
                _note(agent, rank, number)


def _note(agent: Agent, rank: int, number: int) -> None:
    with _lock:
        is_first = not _ended
        numbers = _ended.setdefault((agent, rank), [])
        numbers.append(number)
        is_full = len(numbers) >= _MANY
        if is_full:
            del _ended[agent, rank]
    if is_full:
        _send(agent, rank, numbers)
    elif is_first:
        later = threading.Timer(_PATIENCE, _send_all)
        later.daemon = True
        later.start()


def _send_all() -> None:
    with _lock:  # all at once: the next end begins to wait anew
        waiting = dict(_ended)
        _ended.clear()
    for (agent, rank), numbers in waiting.items():
        _send(agent, rank, numbers)


def _send(agent: Agent, rank: int, numbers: list[int]) -> None:
    if agent is not _current.find():
        return
    try:
        async_call(agent, rank, release, tuple(numbers), {}, 0.0)
    except RuntimeError as failure:
        _log.debug("contexts %s are not released by worker %s: %s", numbers, rank, failure)


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread of the parent may have had it
    _ended.clear()


os.register_at_fork(after_in_child=_in_child)
