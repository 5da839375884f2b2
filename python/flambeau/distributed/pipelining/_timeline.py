"""Tables of actions: when each action runs, what is wrong with a table, and how long ranks wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flambeau.distributed.pipelining._actions import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    COMPUTES,
    FORWARD,
    FULL_BACKWARD,
    MESSAGES,
    RECV_B,
    RECV_F,
    SEND_B,
    SEND_F,
    Table,
    _Action,
    _ComputationType,
    owners,
    parts_of,
)

Actions = Mapping[int, Sequence[_Action | None]]
Key = tuple[int, _ComputationType, int | None]
_COSTS: dict[_ComputationType, float] = {**dict.fromkeys(COMPUTES, 1), FULL_BACKWARD: 2}


def _key(action: _Action) -> Key:
    kind = action.computation_type
    # Either form of backward gives the gradients that the stage before needs.
    return action.stage_index, BACKWARD_INPUT if kind is FULL_BACKWARD else kind, action.microbatch_index


class _Needs:
    """What must have happened before an action.

    Args:
        owner: stage -> rank.
        has_messages: whether the table also says when tensors are sent and received.
    """

    def __init__(self, owner: Mapping[int, int], has_messages: bool) -> None:
        self._owner, self._last, self._has_messages = owner, max(owner, default=0), has_messages

    def of(self, action: _Action) -> Iterator[Key]:
        stage, kind, number = action.stage_index, action.computation_type, action.microbatch_index
        if kind is FORWARD and stage > 0:
            yield from self._arrived(stage, stage - 1, number, FORWARD)
        elif kind in (FULL_BACKWARD, BACKWARD_INPUT):
            yield stage, FORWARD, number
            if stage < self._last:
                yield from self._arrived(stage, stage + 1, number, BACKWARD_INPUT)
        elif kind is BACKWARD_WEIGHT:
            yield stage, BACKWARD_INPUT, number
        elif kind is SEND_F:
            yield stage, FORWARD, number
        elif kind is SEND_B:
            yield stage, BACKWARD_INPUT, number

    def _arrived(self, stage: int, other: int, number: Any, kind: _ComputationType) -> Iterator[Key]:
        if not self._has_messages or self._owner[stage] == self._owner[other]:
            yield other, kind, number
            return
        forward = kind is FORWARD
        yield other, SEND_F if forward else SEND_B, number
        yield stage, RECV_F if forward else RECV_B, number


def duration(action: _Action) -> float:
    """Return how long an action takes; forward, and the gradients of inputs and of weights, take 1 each.

    Zero-bubble schedules are built on these being about equal (arXiv:2401.10241, table 1).
    """
    return sum(_COSTS.get(part.computation_type, 0) for part in parts_of([action]))


def start_times(table: Actions, takes: Callable[[_Action], float] = duration) -> dict[int, list[float]]:
    """Return when each action starts, if each rank runs its actions in order and as early as possible.

    Sending takes no time and does not wait; an action that needs a tensor waits until it was sent.

    Args:
        table: rank -> its actions.
        takes: the time of an action.
    Raises: ValueError if ranks wait for each other, or an action needs one that the table lacks.
    """
    orders = {rank: [action for action in actions if action is not None] for rank, actions in table.items()}
    messages = any(a.computation_type in MESSAGES for order in orders.values() for a in parts_of(order))
    needs = _Needs(owners(orders), messages)
    clock: dict[int, float] = dict.fromkeys(orders, 0)
    done: dict[Key, float] = {}
    starts: dict[int, list[float]] = {rank: [] for rank in orders}
    moved = True
    while moved:
        moved = False
        for rank, order in orders.items():
            while len(starts[rank]) < len(order):
                parts = list(parts_of([order[len(starts[rank])]]))
                wanted = [key for part in parts for key in needs.of(part)]
                if any(key not in done for key in wanted):
                    break
                begin = max([clock[rank], *(done[key] for key in wanted)])
                clock[rank] = begin + takes(order[len(starts[rank])])
                done.update((_key(part), clock[rank]) for part in parts)
                starts[rank].append(begin)
                moved = True
    stuck = [f"{orders[r][len(starts[r])]} on rank {r}" for r in orders if len(starts[r]) < len(orders[r])]
    if stuck:
        raise ValueError(
            f"schedule: expected each action after those that it needs, got a deadlock: {', '.join(stuck)}"
        )
    return starts


def timed(orders: Actions) -> Table:
    """Return a table in which each action takes one time step; None: the rank waits."""
    table: Table = {}
    for rank, starts in start_times(orders, lambda action: 1).items():
        row: list[_Action | None] = [None] * (int(starts[-1]) + 1 if starts else 0)
        for start, action in zip(starts, (a for a in orders[rank] if a is not None), strict=True):
            row[int(start)] = action
        table[rank] = row
    return table


def waiting(table: Actions) -> dict[int, tuple[float, float]]:
    """Return how long each rank waits: in all until the last one ends, and between its own actions."""
    starts = start_times(table)
    busy = {rank: sum(duration(a) for a in row if a is not None) for rank, row in table.items()}
    ends = {}
    for rank, row in table.items():
        actions = [a for a in row if a is not None]
        ends[rank] = starts[rank][-1] + duration(actions[-1]) if actions else 0
    last = max(ends.values(), default=0)
    return {r: (last - busy[r], ends[r] - busy[r] - starts[r][0] if starts[r] else 0) for r in table}


def check(table: Actions, stages: int, microbatches: int) -> None:
    """Raise ValueError unless a table is a schedule.

    Each stage is on one rank, and runs each micro-batch forward once, and backward once, whole or in two
    parts. Each action comes after those that it needs. What is sent is received, in the order of sending.

    Args:
        table: rank -> its actions.
        stages: how many stages there are.
        microbatches: how many micro-batches there are.
    """
    owner = owners(table)
    if list(owner) != list(range(stages)):
        raise ValueError(f"schedule: expected actions of the stages 0 to {stages - 1}, got {list(owner)}")
    count = Counter(
        (a.stage_index, a.computation_type, a.microbatch_index)
        for actions in table.values()
        for a in parts_of(actions)
        if a.computation_type in COMPUTES
    )
    for stage in range(stages):
        for number in range(microbatches):
            kinds = {k: count.pop((stage, k, number), 0) for k in COMPUTES}
            _check_kinds(stage, number, kinds)
    if count:
        stage, kind, wrong = next(iter(count))
        raise ValueError(
            f"schedule: expected micro-batches 0 to {microbatches - 1}, got {_Action(stage, kind, wrong)}"
        )
    _check_messages(table, owner)
    start_times(table)


def _check_kinds(stage: int, number: int, kinds: Mapping[_ComputationType, int]) -> None:
    forward, full = kinds[FORWARD], kinds[FULL_BACKWARD]
    parts = (kinds[BACKWARD_INPUT], kinds[BACKWARD_WEIGHT])
    if forward != 1 or (full, *parts) not in ((1, 0, 0), (0, 1, 1)):
        got = ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n)
        raise ValueError(
            f"schedule: expected one F, and one B or one I and one W, for stage {stage} and micro-batch "
            f"{number}, got {got or 'none'}"
        )


def _check_messages(table: Actions, owner: Mapping[int, int]) -> None:
    lists: dict[_ComputationType, dict[int, list[int | None]]] = {kind: {} for kind in MESSAGES}
    for actions in table.values():
        for action in parts_of(actions):
            if action.computation_type in MESSAGES:
                found = lists[action.computation_type].setdefault(action.stage_index, [])
                found.append(action.microbatch_index)
    if not any(lists.values()):
        return
    for first in range(max(owner)):
        second = first + 1
        directions = ((SEND_F, first, RECV_F, second), (SEND_B, second, RECV_B, first))
        for send, sender, receive, receiver in directions:
            sent, received = lists[send].get(sender, []), lists[receive].get(receiver, [])
            if sent != received:
                raise ValueError(
                    f"schedule: expected {receiver}{receive} in the order of {sender}{send}, {sent}, got "
                    f"{received}"
                )
            if sent and owner[first] == owner[second]:
                raise ValueError(
                    f"schedule: expected no message between stages {first} and {second}, which are on rank "
                    f"{owner[first]}, got {sender}{send}{sent[0]}"
                )
