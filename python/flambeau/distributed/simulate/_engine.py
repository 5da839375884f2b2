"""Discrete events: tasks that wait for others and for their place in queues.

A queue is a stream of one rank: its tasks run one after another, in the order in which they were added. A
task begins when it is the first one left in all of its queues and the tasks that it depends on have ended.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

Queue = tuple[int, str]  # the class of a rank, the name of a stream


@dataclass(slots=True)
class Change:
    """A change of the memory of a rank, in bytes."""

    rank: int
    kind: str
    nbytes: float
    at_end: bool


@dataclass(slots=True)
class Task:
    """One piece of work or communication; `start` and `end` are set when it has run."""

    name: str = ""
    kind: str = ""
    seconds: float = 0.0
    nbytes: float = 0.0
    size: int = 1
    algorithm: str = ""
    after: list[int] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    start: float = -1.0
    end: float = -1.0


class Graph:
    """Tasks with their queues."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.queues: dict[Queue, list[int]] = {}
        self._shared: dict[Hashable, int] = {}

    def add(self, task: Task, queues: Iterable[Queue] = ()) -> int:
        """Add a task to the ends of queues, and return its number."""
        self.tasks.append(task)
        number = len(self.tasks) - 1
        self.enqueue(number, queues)
        return number

    def enqueue(self, number: int, queues: Iterable[Queue]) -> None:
        """Add a task to the ends of further queues."""
        for queue in queues:
            self.tasks[number].queues.append(queue)
            self.queues.setdefault(queue, []).append(number)

    def shared(self, key: Hashable) -> int:
        """Return the task that several ranks know by a key; the first call makes it."""
        if key not in self._shared:
            self._shared[key] = self.add(Task())
        return self._shared[key]

    def run(self) -> list[Task]:
        """Run all tasks, and return them in the order of their begin.

        Raises: RuntimeError if tasks wait for each other.
        """
        return _Run(self).result()


class _Run:
    def __init__(self, graph: Graph) -> None:
        self.tasks, self.queues = graph.tasks, graph.queues
        self.heads = dict.fromkeys(graph.queues, 0)
        self.missing = [len(set(task.after)) for task in self.tasks]
        self.following: list[list[int]] = [[] for _ in self.tasks]
        for number, task in enumerate(self.tasks):
            for other in set(task.after):
                self.following[other].append(number)
        self.running: list[tuple[float, int]] = []
        self.started: list[int] = []

    def _try(self, number: int, now: float) -> None:
        task = self.tasks[number]
        if self.missing[number] or task.start >= 0:
            return
        if any(self.queues[queue][self.heads[queue]] != number for queue in task.queues):
            return
        task.start, task.end = now, now + task.seconds
        self.started.append(number)
        heapq.heappush(self.running, (task.end, number))

    def _end(self, number: int, now: float) -> None:
        free = list(self.following[number])
        for other in free:
            self.missing[other] -= 1
        for queue in self.tasks[number].queues:
            self.heads[queue] += 1
            waiting = self.queues[queue]
            if self.heads[queue] < len(waiting):
                free.append(waiting[self.heads[queue]])
        for other in free:
            self._try(other, now)

    def result(self) -> list[Task]:
        for number in range(len(self.tasks)):
            self._try(number, 0.0)
        while self.running:
            now, number = heapq.heappop(self.running)
            self._end(number, now)
        if len(self.started) < len(self.tasks):
            waiting = [task.name for task in self.tasks if task.start < 0]
            raise RuntimeError(
                f"simulate_step: expected tasks that do not wait for each other, got {len(waiting)} that "
                f"never begin: {', '.join(waiting[:5])}"
            )
        return [self.tasks[number] for number in self.started]
