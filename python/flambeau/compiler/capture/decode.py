"""Instructions and exception tables of code objects."""

from __future__ import annotations

import dis
import functools
import types
from dataclasses import dataclass
from typing import Any

# Instructions without an effect on an interpreter.
_SILENT = frozenset({"CACHE", "RESUME", "NOP", "PRECALL", "EXTENDED_ARG", "COPY_FREE_VARS"})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: jumps name the index of their target in the list of instructions."""

    name: str
    arg: int
    value: Any
    target: int
    offset: int
    line: int


@dataclass(frozen=True, slots=True)
class Handler:
    """Where an exception continues: the depth of the stack there, and whether it holds the position."""

    target: int
    depth: int
    keeps_position: bool


@dataclass(frozen=True, slots=True)
class Decoded:
    """A code object as an interpreter reads it."""

    code: types.CodeType
    instructions: tuple[Instruction, ...]
    handlers: dict[int, Handler]  # index of an instruction -> the innermost handler
    slots: tuple[str, ...]  # local variables, then cells, then free variables
    first_free: int

    def slot_count(self) -> int:
        """Return the number of places for variables."""
        return len(self.slots)


@functools.lru_cache(maxsize=4096)
def decode(code: types.CodeType) -> Decoded:
    """Return the instructions of a code object, without those that have no effect."""
    found = [i for i in dis.get_instructions(code) if i.opname not in _SILENT]
    offsets = [i.offset for i in found]
    everything = [i.offset for i in dis.get_instructions(code)]
    index_at: dict[int, int] = {}
    at = len(found)
    for offset in reversed(everything):
        if at and offsets[at - 1] >= offset:
            at -= 1
        index_at[offset] = at
    line, decoded = code.co_firstlineno, []
    for i in found:
        position = i.positions.lineno if i.positions else None
        line = position or line
        is_jump = i.opcode in dis.hasjrel or i.opcode in dis.hasjabs
        target = index_at[i.argval] if is_jump else -1
        decoded.append(Instruction(i.opname, i.arg or 0, i.argval, target, i.offset, line))
    extra = [name for name in code.co_cellvars if name not in code.co_varnames]
    slots = (*code.co_varnames, *extra, *code.co_freevars)
    first_free = len(slots) - len(code.co_freevars)
    return Decoded(code, tuple(decoded), _handlers(code, offsets, index_at), slots, first_free)


def _handlers(code: types.CodeType, offsets: list[int], index_at: dict[int, int]) -> dict[int, Handler]:
    table: dict[int, Handler] = {}
    parse: Any = dis._parse_exception_table  # type: ignore[attr-defined]
    for entry in parse(code):
        handler = Handler(index_at[entry.target], entry.depth, entry.lasti)
        for index, offset in enumerate(offsets):
            if entry.start <= offset < entry.end:
                table.setdefault(index, handler)
    return table
