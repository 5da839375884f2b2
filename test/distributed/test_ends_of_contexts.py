"""Ends of contexts of distributed autograd reach all workers, also those that come while others are sent."""

import time

import pytest
from flambeau.distributed.autograd import _releases


class Worker:
    """Stands for the agent of this process."""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[int, ...]]]:
    agent, found = Worker(), []

    def call(_agent, rank, _function, numbers, _keywords, _timeout):
        found.append((rank, numbers))
        if len(found) == 1:  # the ends of another thread, while these are sent
            _releases._note(agent, 2, 7)
            _releases._note(agent, 1, 8)

    monkeypatch.setattr(_releases, "async_call", call)
    monkeypatch.setattr(_releases._current, "find", lambda: agent)
    monkeypatch.setattr(_releases, "_ended", {})
    for rank, number in ((1, 5), (1, 6), (3, 6)):
        _releases._note(agent, rank, number)
    return found


def test_ends_that_come_while_others_are_sent_are_sent_too(sent: list[tuple[int, tuple[int, ...]]]):
    end = time.monotonic() + 5
    while len(sent) < 4 and time.monotonic() < end:
        time.sleep(0.01)
    assert sent[0] == (1, (5, 6)) and sorted(sent[1:]) == [(1, (8,)), (2, (7,)), (3, (6,))]
    assert not _releases._ended


def test_many_ends_are_sent_at_once(monkeypatch: pytest.MonkeyPatch):
    agent, found = Worker(), []
    monkeypatch.setattr(_releases, "async_call", lambda *given: found.append(given[1:4:2]))
    monkeypatch.setattr(_releases._current, "find", lambda: agent)
    monkeypatch.setattr(_releases, "_ended", {})
    monkeypatch.setattr(_releases, "_PATIENCE", 60.0)
    for number in range(_releases._MANY):
        _releases._note(agent, 1, number)
    assert found == [(1, tuple(range(_releases._MANY)))] and not _releases._ended
