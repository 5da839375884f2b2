"""The order in which a rank works, one function per schedule.

``F``, ``I``, ``W`` and ``B`` are the forward pass, the gradients of inputs, those of weights, and both.
Arguments are the `rank`, the number of `ranks`, of `stages` per rank, and `n`, the number of micro-batches.
"""

from __future__ import annotations

from collections import deque

from flambeau.distributed.pipelining._actions import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    FULL_BACKWARD,
    OVERLAP_F_B,
    Order,
    _Action,
)


def gpipe(rank: int, ranks: int, stages: int, n: int) -> Order:
    """All forward passes, then all backward passes (Huang et al. 2019, arXiv:1811.06965)."""
    forward = [_Action(rank, FORWARD, m) for m in range(n)]
    return forward + [_Action(rank, FULL_BACKWARD, m) for m in range(n)]


def one_f_one_b(rank: int, ranks: int, stages: int, n: int) -> Order:
    """Backward passes as early as can be (Narayanan et al. 2021, arXiv:2104.04473, PipeDream-Flush).

    Raises: ValueError for fewer micro-batches than stages.
    """
    if n < ranks:
        raise ValueError(
            f"Schedule1F1B: Number of microbatches ({n}) must be greater than or equal to the number of "
            f"stages ({ranks}): expected at least {ranks} microbatches, got {n}"
        )
    ahead = min(n, ranks - rank - 1)
    order = [_Action(rank, FORWARD, m) for m in range(ahead)]
    for m in range(n):
        if m + ahead < n:
            order.append(_Action(rank, FORWARD, m + ahead))
        order.append(_Action(rank, FULL_BACKWARD, m))
    return order


def looped_breadth_first(rank: int, ranks: int, stages: int, n: int) -> Order:
    """One local stage after another (Lamy-Poirier 2022, arXiv:2211.05953); backward in reverse order."""
    own = range(rank, ranks * stages, ranks)
    order = [_Action(s, FORWARD, m) for s in own for m in range(n)]
    return order + [action._replace(computation_type=FULL_BACKWARD) for action in reversed(order)]


# --- interleaved stages --------------------------------------------------------------------------------


def round_size(name: str, ranks: int, n: int) -> int:
    """Return how many micro-batches pass one local stage before the next one begins.

    Raises: ValueError if they cannot be divided into rounds.
    """
    rounds = max(1, n // ranks)
    if n % rounds:
        raise ValueError(
            f"{name}: expected a number of microbatches to be a multiple of the number of rounds ({rounds}), "
            f"got {n}"
        )
    return n // rounds


def _interleaved(rank: int, ranks: int, stages: int, n: int, size: int) -> tuple[Order, Order]:
    """Return the forward passes and the backward passes, each in order: `size` per local stage."""
    forward, backward = [], []
    for first in range(0, n, size):
        for local in range(stages):
            numbers = range(first, first + size)
            forward += [_Action(local * ranks + rank, FORWARD, m) for m in numbers]
            backward += [_Action((stages - 1 - local) * ranks + rank, FULL_BACKWARD, m) for m in numbers]
    return forward, backward


def interleaved(rank: int, ranks: int, stages: int, n: int) -> Order:
    """One forward and one backward pass in turn, over several stages per rank (arXiv:2104.04473, 2.2)."""
    size = round_size("ScheduleInterleaved1F1B", ranks, n)
    forward, backward = _interleaved(rank, ranks, stages, n, size)
    ahead = min(len(forward), (stages - 1) * size + 2 * (ranks - 1 - rank))
    order = forward[:ahead]
    for place, action in enumerate(backward):
        order += forward[ahead + place : ahead + place + 1]
        order.append(action)
    return order


def interleaved_zero_bubble(rank: int, ranks: int, stages: int, n: int) -> Order:
    """Interleaved stages with W later than I by `rank` passes (ZB-H1; Qi et al. 2023, arXiv:2401.10241)."""
    size = round_size("ScheduleInterleavedZeroBubble", ranks, n)
    forward, backward = _interleaved(rank, ranks, stages, n, size)
    ahead = min(len(forward), (stages - 1) * size + ranks - 1 - rank)
    order, waiting = forward[:ahead], deque[_Action]()
    for place, action in enumerate(backward):
        order += forward[ahead + place : ahead + place + 1]
        order.append(action._replace(computation_type=BACKWARD_INPUT))
        waiting.append(action._replace(computation_type=BACKWARD_WEIGHT))
        if len(waiting) > rank:
            order.append(waiting.popleft())
    return order + list(waiting)


# --- stages in the shape of a V: each rank has one of the first half and its mirror image ----------------


class _V:
    """The two stages of a rank, and the next micro-batch of each kind of action."""

    def __init__(self, rank: int, ranks: int) -> None:
        self._stages = (rank, 2 * ranks - 1 - rank)
        self._count: dict[tuple[str, int], int] = {}
        self._waiting = deque[_Action]()
        self.order: Order = []

    def count(self, kind: str, side: int) -> int:
        return self._count.get((kind, side), 0)

    def make(self, kind: str, side: int) -> _Action:
        """Return the next action of a kind on one of the two stages; ``I`` and ``B`` count together."""
        key = ("B" if kind == "I" else kind, side)
        number = self._count[key] = self._count.get(key, 0) + 1
        kinds = {"F": FORWARD, "I": BACKWARD_INPUT, "W": BACKWARD_WEIGHT, "B": FULL_BACKWARD}
        return _Action(self._stages[side], kinds[kind], number - 1)

    def add(self, *kinds: str) -> None:
        """Add actions such as ``F0``, the next forward pass of the first stage."""
        self.order += [self.make(kind[0], int(kind[1])) for kind in kinds]

    def overlap(self, forward: int, backward: int) -> None:
        parts = (self.make("F", forward), self.make("B", backward))
        self.order.append(_Action(-1, OVERLAP_F_B, None, parts))

    def backward(self, side: int, split: bool) -> None:
        """Add a backward pass; a split one leaves its W for `weights`."""
        action = self.make("I" if split else "B", side)
        self.order.append(action)
        if split:
            self._waiting.append(action._replace(computation_type=BACKWARD_WEIGHT))

    def weights(self) -> None:
        self.order.append(self._waiting.popleft())


def zero_bubble_v(rank: int, ranks: int, stages: int, n: int) -> Order:
    """The V of Qi et al. 2024 (arXiv:2405.15362) with the split backward of arXiv:2401.10241 (ZB-V).

    Fewer micro-batches than ``2 * ranks - 1`` use the order for that number, without those that do not exist.
    """
    most = max(n, 2 * ranks - 1)
    v = _V(rank, ranks)
    for _ in range(2 * (ranks - rank) - 1):
        v.add("F0")
    for _ in range(rank):
        v.add("F1", "F0")
    for _ in range(ranks - rank):
        v.add("F1", "I1", "W1")
    while v.count("F", 1) < most:
        if v.count("F", 0) < most:
            v.add("F0")
        v.add("I0", "W0", "F1", "I1", "W1")
    for _ in range(rank):
        v.add("I0", "I1")
    for _ in range(ranks - rank):
        v.add("I0", "W0")
    v.add(*["W1"] * (most - v.count("W", 1)), *["W0"] * (most - v.count("W", 0)))
    return [action for action in v.order if action.microbatch_index in range(n)]


def dual_pipe_v(rank: int, ranks: int, stages: int, n: int) -> Order:
    """DualPipe (DeepSeek-AI 2024, arXiv:2412.19437, 3.2.1), cut in half, so that no stage exists twice.

    Raises: ValueError for fewer micro-batches than stages.
    """
    if n < 2 * ranks:
        raise ValueError(
            f"ScheduleDualPipeV: requires at least as many microbatches as stages: expected {2 * ranks} "
            f"microbatches, got {n}"
        )
    v, behind = _V(rank, ranks), ranks - rank - 1
    v.add(*["F0"] * (2 * behind))
    v.add(*["F0", "F1"] * (rank + 1))
    for _ in range(behind):
        v.backward(1, split=True)
        v.weights()
        v.add("F1")
    for place in range(n - 2 * ranks + rank + 1):
        if place == 0 and rank == ranks - 1:
            v.add("F0", "B1")  # its output is the input of the other stage of the same rank
        else:
            v.overlap(0, 1)
        v.overlap(1, 0)
    for _ in range(behind):
        v.add("B1")
        v.overlap(1, 0)
    for place in range(rank + 1):
        half = (rank + 1) // 2
        v.backward(1, split=place > half or (place == half and rank % 2 == 1))
        v.backward(0, split=place >= half)
    for _ in range(behind):
        v.weights()
        v.backward(0, split=True)
    for _ in range(rank + 1):
        v.weights()
    return v.order
