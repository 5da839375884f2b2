"""What a rank of a pipeline does at one time step, and the tables that consist of such actions."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

_PATTERN = re.compile(r"(\d+)(F|I|W|B|SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD)(\d*)")


class _ComputationType(enum.Enum):
    """Kinds of actions; the value is the letter of it in a table."""

    FORWARD = "F"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    FULL_BACKWARD = "B"
    OVERLAP_F_B = "OVERLAP_F_B"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    REDUCE_GRAD = "REDUCE_GRAD"

    def __str__(self) -> str:
        return self.value


FORWARD, FULL_BACKWARD = _ComputationType.FORWARD, _ComputationType.FULL_BACKWARD
BACKWARD_INPUT, BACKWARD_WEIGHT = _ComputationType.BACKWARD_INPUT, _ComputationType.BACKWARD_WEIGHT
OVERLAP_F_B = _ComputationType.OVERLAP_F_B
SEND_F, RECV_F = _ComputationType.SEND_F, _ComputationType.RECV_F
SEND_B, RECV_B = _ComputationType.SEND_B, _ComputationType.RECV_B
UNSHARD, RESHARD = _ComputationType.UNSHARD, _ComputationType.RESHARD
REDUCE_GRAD = _ComputationType.REDUCE_GRAD

COMPUTES = frozenset((FORWARD, FULL_BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT))
MESSAGES = frozenset((SEND_F, RECV_F, SEND_B, RECV_B))


class _Action(NamedTuple):
    """One action: ``2F0`` is the forward pass of stage 2 for micro-batch 0.

    Args:
        stage_index: the stage; -1 for an action that consists of others.
        computation_type: what is done.
        microbatch_index: the micro-batch; None for actions on parameters.
        sub_actions: the parts of ``OVERLAP_F_B``, which run one after another.
    """

    stage_index: int
    computation_type: _ComputationType
    microbatch_index: int | None = None
    sub_actions: tuple[_Action, ...] | None = None

    def __str__(self) -> str:
        if self.sub_actions is not None:
            return f"({';'.join(map(str, self.sub_actions))}){self.computation_type}"
        number = "" if self.microbatch_index is None else self.microbatch_index
        return f"{self.stage_index}{self.computation_type}{number}"

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def from_str(cls, action_string: str) -> Self | None:
        """Return the action that a text names; None for an empty text.

        Raises: RuntimeError for a text that names no action.
        """
        text = action_string.strip()
        if not text:
            return None
        if text.startswith("(") and text.endswith(f"){OVERLAP_F_B}"):
            parts = [cls.from_str(part) for part in text[1 : text.rindex(")")].split(";")]
            return cls(-1, OVERLAP_F_B, None, tuple(part for part in parts if part is not None))
        found = _PATTERN.fullmatch(text)
        if found is None:
            raise RuntimeError(
                f"_Action.from_str: expected <stage><action><micro-batch> such as 2F0, got {text!r}: "
                f"Invalid action string: {text}"
            )
        number = int(found[3]) if found[3] else None
        return cls(int(found[1]), _ComputationType(found[2]), number)


Order = list[_Action]  # what a rank does, one action after another
Table = dict[int, list["_Action | None"]]  # rank -> its action, or None, at each time step


def parts_of(actions: Iterable[_Action | None]) -> Iterator[_Action]:
    """Yield the actions in order, those that consist of others as their parts."""
    for action in actions:
        if action is None:
            continue
        if action.sub_actions is not None:
            yield from parts_of(action.sub_actions)
        else:
            yield action


def owners(table: Mapping[int, Sequence[_Action | None]]) -> dict[int, int]:
    """Return stage -> rank, as a table has it.

    Raises: ValueError if two ranks have actions of one stage.
    """
    found: dict[int, int] = {}
    for rank, actions in table.items():
        for action in parts_of(actions):
            if found.setdefault(action.stage_index, rank) != rank:
                raise ValueError(
                    f"schedule: expected stage {action.stage_index} on one rank, got {action} on rank {rank} "
                    f"and other actions on rank {found[action.stage_index]}"
                )
    return dict(sorted(found.items()))
