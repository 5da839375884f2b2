"""Adds messages to a table of computations, and reads and writes tables as CSV."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from flambeau.distributed.pipelining._actions import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    FULL_BACKWARD,
    RECV_B,
    RECV_F,
    REDUCE_GRAD,
    SEND_B,
    SEND_F,
    Order,
    Table,
    _Action,
    owners,
    parts_of,
)

Actions = Mapping[int, Sequence[_Action | None]]


def forward_only(table: Actions) -> dict[int, Order]:
    """Return the forward passes of a table, in its order."""
    return {
        rank: [action for action in parts_of(actions) if action.computation_type is FORWARD]
        for rank, actions in table.items()
    }


def with_messages(table: Actions) -> dict[int, Order]:
    """Return the orders of a table with sends and receives.

    A result is sent directly after its computation. A receive stands before the computation that precedes its
    use, so that the transfer overlaps with it, and next to the sends of the computation before. Receives of a
    stage are in the order in which the other rank sends. After its last gradients, a stage reduces them.
    """
    owner = owners(table)
    orders = {rank: [a for a in actions if a is not None] for rank, actions in table.items()}
    sent = _sent(orders, owner)
    return {rank: _one_rank(order, owner, sent) for rank, order in orders.items()}


def _send_after(part: _Action, owner: Mapping[int, int]) -> _Action | None:
    stage, kind = part.stage_index, part.computation_type
    if kind is FORWARD and owner.get(stage + 1, owner[stage]) != owner[stage]:
        return part._replace(computation_type=SEND_F)
    backward = kind in (FULL_BACKWARD, BACKWARD_INPUT)
    if backward and owner.get(stage - 1, owner[stage]) != owner[stage]:
        return part._replace(computation_type=SEND_B)
    return None


def _receive_before(part: _Action, owner: Mapping[int, int]) -> _Action | None:
    stage, kind = part.stage_index, part.computation_type
    if kind is FORWARD and owner.get(stage - 1, owner[stage]) != owner[stage]:
        return part._replace(computation_type=RECV_F)
    backward = kind in (FULL_BACKWARD, BACKWARD_INPUT)
    if backward and owner.get(stage + 1, owner[stage]) != owner[stage]:
        return part._replace(computation_type=RECV_B)
    return None


def _sent(orders: Mapping[int, Order], owner: Mapping[int, int]) -> dict[tuple[int, bool], list[int | None]]:
    """Return (receiving stage, whether forward) -> micro-batches in the order of sending."""
    found: dict[tuple[int, bool], list[int | None]] = {}
    for order in orders.values():
        for part in parts_of(order):
            send = _send_after(part, owner)
            if send is not None:
                forward = send.computation_type is SEND_F
                to = part.stage_index + (1 if forward else -1)
                found.setdefault((to, forward), []).append(part.microbatch_index)
    return found


def _one_rank(
    order: Order, owner: Mapping[int, int], sent: Mapping[tuple[int, bool], list[int | None]]
) -> Order:
    queues = {key: list(numbers) for key, numbers in sent.items()}

    def receives(action: _Action) -> Order:
        found: Order = []
        for part in parts_of([action]):
            wanted = _receive_before(part, owner)
            if wanted is None:
                continue
            queue = queues[part.stage_index, wanted.computation_type is RECV_F]
            while wanted.microbatch_index in queue:
                found.append(wanted._replace(microbatch_index=queue.pop(0)))
        return found

    last = {
        part.stage_index: place
        for place, action in enumerate(order)
        for part in parts_of([action])
        if part.computation_type in (FULL_BACKWARD, BACKWARD_WEIGHT)
    }
    result: Order = receives(order[0]) if order else []
    for place, action in enumerate(order):
        if place + 1 < len(order):
            result += receives(order[place + 1])
        result.append(action)
        sends = (_send_after(part, owner) for part in parts_of([action]))
        result += [send for send in sends if send is not None]
        result += [_Action(stage, REDUCE_GRAD) for stage, final in last.items() if final == place]
    return result


def write_csv(table: Actions, path: str) -> None:
    """Write one row per rank."""
    with Path(path).open("w", newline="") as file:
        rows = csv.writer(file)
        for rank in sorted(table):
            rows.writerow(["" if action is None else str(action) for action in table[rank]])


def read_csv(path: str) -> Table:
    """Read what `write_csv` wrote; the first row is rank 0."""
    with Path(path).open(newline="") as file:
        return {rank: [_Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(file))}
