"""Instructions and exception tables of code objects of CPython 3.11, 3.12 and 3.13.

The interpreter implements one set of instructions, mostly those of 3.11. `_FORMS` translates instructions of
later versions to equivalent ones in this set.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# Instructions without an effect on this interpreter. TO_BOOL: the next instruction tests the truth of any
# value. END_FOR, END_SEND: the last step of the iterator has already popped it.
_SILENT = frozenset("CACHE RESUME NOP PRECALL EXTENDED_ARG COPY_FREE_VARS TO_BOOL END_FOR END_SEND".split())


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
    """A handler of exceptions: its target, the stack depth there, and whether the position is pushed too."""

    target: int
    depth: int
    keeps_position: bool


@dataclass(frozen=True, slots=True)
class Decoded:
    """A code object in the form that the interpreter reads."""

    code: types.CodeType
    instructions: tuple[Instruction, ...]
    handlers: dict[int, Handler]  # index of an instruction -> the innermost handler
    slots: tuple[str, ...]  # local variables, then cells, then free variables
    first_free: int

    def slot_count(self) -> int:
        """Return the number of slots for variables."""
        return len(self.slots)


Part = tuple[str, int, Any]  # name, argument and value of an instruction


def _attribute(i: dis.Instruction) -> list[Part]:
    is_method = sys.version_info >= (3, 12) and (i.arg or 0) & 1
    return [("LOAD_METHOD" if is_method else "LOAD_ATTR", i.arg or 0, i.argval)]


def _global(i: dis.Instruction) -> list[Part]:
    null: list[Part] = [("PUSH_NULL", 0, None)] if (i.arg or 0) & 1 else []
    return [*null, ("LOAD_GLOBAL", 0, i.argval)]


def _two(first: str, second: str) -> Callable[[dis.Instruction], list[Part]]:
    def parts(i: dis.Instruction) -> list[Part]:
        assert i.arg is not None
        return [(first, i.arg >> 4, i.argval[0]), (second, i.arg & 15, i.argval[1])]

    return parts


def _slice_and(name: str) -> Callable[[dis.Instruction], list[Part]]:
    return lambda i: [("BUILD_SLICE", 2, None), (name, 0, None)]


# CPython's intrinsic functions of one argument, by number.
_INTRINSICS = {3: "STOPITERATION_ERROR", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}

_FORMS: dict[str, Callable[[dis.Instruction], list[Part]]] = {
    "LOAD_ATTR": _attribute,
    "LOAD_GLOBAL": _global,
    # 3.12
    "BINARY_SLICE": _slice_and("BINARY_SUBSCR"),
    "STORE_SLICE": _slice_and("STORE_SUBSCR"),
    "CALL_INTRINSIC_1": lambda i: [(_INTRINSICS.get(i.arg or 0, i.opname), 0, None)],
    "LOAD_FAST_CHECK": lambda i: [("LOAD_FAST", i.arg or 0, i.argval)],
    "RETURN_CONST": lambda i: [("LOAD_CONST", 0, i.argval), ("RETURN_VALUE", 0, None)],
    # 3.13
    "FORMAT_SIMPLE": lambda i: [("FORMAT_VALUE", 0, None)],
    "FORMAT_WITH_SPEC": lambda i: [("FORMAT_VALUE", 4, None)],
    "LOAD_FAST_LOAD_FAST": _two("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": _two("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": _two("STORE_FAST", "STORE_FAST"),
}


def _effective(code: types.CodeType) -> Iterator[dis.Instruction]:
    """Yield the instructions that have an effect on this interpreter."""
    before = ""
    for i in dis.get_instructions(code):
        is_end = before == "END_FOR" and i.opname == "POP_TOP"  # 3.13: the second half of END_FOR
        if i.opname not in _SILENT and not is_end:
            yield i
        before = i.opname


def _parts(i: dis.Instruction) -> list[Part]:
    form = _FORMS.get(i.opname)
    return form(i) if form else [(i.opname, i.arg or 0, i.argval)]


@functools.lru_cache(maxsize=4096)
def decode(code: types.CodeType) -> Decoded:
    """Return the instructions of a code object, without those that have no effect."""
    found = [(i, part) for i in _effective(code) for part in _parts(i)]
    offsets = [i.offset for i, _ in found]
    index_at = _indices(code, offsets)
    line, decoded = code.co_firstlineno, []
    for i, (name, arg, value) in found:
        position = i.positions.lineno if i.positions else None
        line = position or line
        is_jump = i.opcode in dis.hasjrel or i.opcode in dis.hasjabs
        target = index_at[i.argval] if is_jump else -1
        decoded.append(Instruction(name, arg, value, target, i.offset, line))
    extra = [name for name in code.co_cellvars if name not in code.co_varnames]
    slots = (*code.co_varnames, *extra, *code.co_freevars)
    first_free = len(slots) - len(code.co_freevars)
    return Decoded(code, tuple(decoded), _handlers(code, offsets, index_at), slots, first_free)


def _indices(code: types.CodeType, offsets: list[int]) -> dict[int, int]:
    """Map each instruction's offset to the index of the first instruction with an effect at or after it."""
    index_at: dict[int, int] = {}
    at = len(offsets)
    for i in reversed(list(dis.get_instructions(code))):
        while at and offsets[at - 1] >= i.offset:
            at -= 1
        index_at[i.offset] = at
    return index_at


def _handlers(code: types.CodeType, offsets: list[int], index_at: dict[int, int]) -> dict[int, Handler]:
    table: dict[int, Handler] = {}
    parse: Any = dis._parse_exception_table  # type: ignore[attr-defined]
    for entry in parse(code):
        handler = Handler(index_at[entry.target], entry.depth, entry.lasti)
        for index, offset in enumerate(offsets):
            if entry.start <= offset < entry.end:
                table.setdefault(index, handler)
    return table
