"""An interpreter of pickles from sources that are not trusted.

Python's own lets a pickle set attributes of classes and functions, call what it likes of what it was given,
and reserve memory by a number. This one knows the opcodes that data needs. Calls and state go through the
caller's tables, values are added to lists and dicts only, and no opcode takes more memory than a
constant times the bytes that the pickle has for it.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from collections.abc import Callable
from typing import Any, Protocol

_LARGEST_KEY = 1_000  # parts of a key of a dict: a tuple of itself, 60 times, takes centuries to hash
_NEWEST = 5


class Rules(Protocol):
    """What a pickle may refer to, call and change."""

    def find(self, module: str, name: str) -> Any:
        """Return what a name stands for."""

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Return the result of a call."""

    def make(self, cls: Any, args: tuple[Any, ...]) -> Any:
        """Return a new object of a class."""

    def set_state(self, obj: Any, state: Any) -> None:
        """Change a new object."""

    def is_list(self, obj: Any) -> bool:
        """Whether items may be appended."""

    def is_dict(self, obj: Any) -> bool:
        """Whether entries may be set."""

    def resolve(self, persistent_id: Any) -> Any:
        """Return what is stored outside the pickle."""


def check_key(key: Any) -> Any:
    """Return a key of a dict or an item of a set if it can be hashed in reasonable time."""
    parts, waiting = 0, [key]
    while waiting:
        part = waiting.pop()
        parts += 1
        if isinstance(part, tuple | frozenset):
            if parts + len(waiting) + len(part) > _LARGEST_KEY:
                raise pickle.UnpicklingError("a key has too many parts")
            waiting += part
    return key


class Interpreter:
    """Runs one pickle.

    Args:
        data: the pickle.
        rules: what it may do.
    """

    def __init__(self, data: bytes, rules: Rules) -> None:
        self.data, self.rules = data, rules
        self.position = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks under each mark
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Return the object.

        Raises: UnpicklingError if the pickle is damaged or does what it may not.
        """
        try:
            while (opcode := self.take(1)) != pickle.STOP:
                action = _ACTIONS.get(opcode)
                if action is None:
                    raise pickle.UnpicklingError(f"Unsupported operand {opcode[0]}")
                action(self)
            if self.below:
                raise pickle.UnpicklingError("the pickle ends within a mark")
            return self.stack.pop()
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, struct.error) as error:
            where = f"the pickle is damaged near byte {self.position}"
            raise pickle.UnpicklingError(f"{where}: {type(error).__name__}: {error}") from error

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        end = self.position + count
        if end > len(self.data):
            raise pickle.UnpicklingError("pickle data was truncated")
        found = self.data[self.position : end]
        self.position = end
        return found

    def number(self, form: str) -> Any:
        """Return the next number."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        """Return the text up to the next end of line."""
        end = self.data.index(b"\n", self.position)
        return self.take(end - self.position + 1)[:-1].decode()

    def pop_mark(self) -> list[Any]:
        """Return what lies above the last mark."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def extend(self, items: list[Any]) -> None:
        """Append to the list on the stack."""
        target = self.stack[-1]
        if not self.rules.is_list(target):
            raise pickle.UnpicklingError(f"cannot append to an object of {type(target).__name__}")
        target.extend(items)

    def update(self, items: list[Any]) -> None:
        """Set entries of the dict on the stack."""
        target = self.stack[-1]
        if not self.rules.is_dict(target):
            raise pickle.UnpicklingError(f"cannot set entries of an object of {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[check_key(key)] = value


Action = Callable[[Interpreter], None]


def _mark(own: Interpreter) -> None:
    own.below.append(own.stack)
    own.stack = []


def _pop(own: Interpreter) -> None:
    if own.stack:
        own.stack.pop()
    else:
        own.pop_mark()


def _pop_to_mark(own: Interpreter) -> None:
    own.pop_mark()


def _frame(own: Interpreter) -> None:
    if own.number("<Q") > len(own.data) - own.position:
        raise pickle.UnpicklingError("pickle data was truncated")


def _protocol(own: Interpreter) -> None:
    if own.take(1)[0] > _NEWEST:
        raise pickle.UnpicklingError("unsupported pickle protocol")


def _constant(value: Any) -> Action:
    return lambda own: own.stack.append(value)


def _empty(kind: Callable[[], Any]) -> Action:
    return lambda own: own.stack.append(kind())


def _number(form: str) -> Action:
    return lambda own: own.stack.append(own.number(form))


def _long(form: str) -> Action:
    def action(own: Interpreter) -> None:
        own.stack.append(int.from_bytes(own.take(_size(own, form)), "little", signed=True))

    return action


def _size(own: Interpreter, form: str) -> int:
    size: int = own.number(form)
    if size < 0:
        raise pickle.UnpicklingError("a size is negative")
    return size


def _text(form: str) -> Action:
    return lambda own: own.stack.append(own.take(_size(own, form)).decode("utf-8", "surrogatepass"))


def _bytes(form: str, kind: Callable[[bytes], Any] = bytes) -> Action:
    return lambda own: own.stack.append(kind(own.take(_size(own, form))))


def _tuple_of(count: int) -> Action:
    def action(own: Interpreter) -> None:
        if len(own.stack) < count:
            raise pickle.UnpicklingError("the stack is too short")
        own.stack[-count:] = [tuple(own.stack[-count:])]

    return action


def _tuple(own: Interpreter) -> None:
    items = own.pop_mark()
    own.stack.append(tuple(items))


def _list(own: Interpreter) -> None:
    items = own.pop_mark()
    own.stack.append(items)


def _dict(own: Interpreter) -> None:
    items = own.pop_mark()
    own.stack.append({})
    own.update(items)


def _frozenset(own: Interpreter) -> None:
    items = own.pop_mark()
    own.stack.append(frozenset(map(check_key, items)))


def _append(own: Interpreter) -> None:
    own.extend([own.stack.pop()])


def _appends(own: Interpreter) -> None:
    own.extend(own.pop_mark())


def _setitem(own: Interpreter) -> None:
    value, key = own.stack.pop(), own.stack.pop()
    own.update([key, value])


def _setitems(own: Interpreter) -> None:
    own.update(own.pop_mark())


def _additems(own: Interpreter) -> None:
    items = own.pop_mark()
    if type(own.stack[-1]) is not set:
        raise pickle.UnpicklingError("cannot add items to what is not a set")
    own.stack[-1].update(map(check_key, items))


def _get(form: str) -> Action:
    return lambda own: own.stack.append(own.memo[own.number(form)])


def _put(form: str) -> Action:
    def action(own: Interpreter) -> None:
        own.memo[own.number(form)] = own.stack[-1]

    return action


def _memoize(own: Interpreter) -> None:
    own.memo[len(own.memo)] = own.stack[-1]


def _global(own: Interpreter) -> None:
    module = own.line()
    own.stack.append(own.rules.find(module, own.line()))


def _stack_global(own: Interpreter) -> None:
    name, module = own.stack.pop(), own.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise pickle.UnpicklingError("expected the names of a global as strings, got others")
    own.stack.append(own.rules.find(module, name))


def _arguments(own: Interpreter) -> tuple[Any, ...]:
    args = own.stack.pop()
    if type(args) is not tuple:
        raise pickle.UnpicklingError(f"expected a tuple of arguments, got {type(args).__name__}")
    return args


def _reduce(own: Interpreter) -> None:
    args = _arguments(own)
    own.stack.append(own.rules.call(own.stack.pop(), args))


def _newobj(own: Interpreter) -> None:
    args = _arguments(own)
    own.stack.append(own.rules.make(own.stack.pop(), args))


def _build(own: Interpreter) -> None:
    state = own.stack.pop()
    own.rules.set_state(own.stack[-1], state)


def _persistent(own: Interpreter) -> None:
    own.stack.append(own.rules.resolve(own.stack.pop()))


_ACTIONS: dict[bytes, Action] = {
    pickle.PROTO: _protocol, pickle.FRAME: _frame,
    pickle.MARK: _mark, pickle.POP: _pop, pickle.POP_MARK: _pop_to_mark,
    pickle.NONE: _constant(None), pickle.NEWTRUE: _constant(True), pickle.NEWFALSE: _constant(False),
    pickle.BININT: _number("<i"), pickle.BININT1: _number("<B"), pickle.BININT2: _number("<H"),
    pickle.BINFLOAT: _number(">d"), pickle.LONG1: _long("<B"), pickle.LONG4: _long("<i"),
    pickle.SHORT_BINSTRING: _text("<B"), pickle.BINSTRING: _text("<i"),
    pickle.SHORT_BINUNICODE: _text("<B"), pickle.BINUNICODE: _text("<I"), pickle.BINUNICODE8: _text("<Q"),
    pickle.SHORT_BINBYTES: _bytes("<B"), pickle.BINBYTES: _bytes("<I"), pickle.BINBYTES8: _bytes("<Q"),
    pickle.BYTEARRAY8: _bytes("<Q", bytearray),
    pickle.EMPTY_LIST: _empty(list), pickle.EMPTY_DICT: _empty(dict), pickle.EMPTY_SET: _empty(set),
    pickle.EMPTY_TUPLE: _constant(()), pickle.TUPLE1: _tuple_of(1), pickle.TUPLE2: _tuple_of(2),
    pickle.TUPLE3: _tuple_of(3), pickle.TUPLE: _tuple, pickle.LIST: _list, pickle.DICT: _dict,
    pickle.FROZENSET: _frozenset, pickle.APPEND: _append, pickle.APPENDS: _appends,
    pickle.SETITEM: _setitem, pickle.SETITEMS: _setitems, pickle.ADDITEMS: _additems,
    pickle.BINGET: _get("<B"), pickle.LONG_BINGET: _get("<I"), pickle.BINPUT: _put("<B"),
    pickle.LONG_BINPUT: _put("<I"), pickle.MEMOIZE: _memoize, pickle.GLOBAL: _global,
    pickle.STACK_GLOBAL: _stack_global, pickle.REDUCE: _reduce, pickle.NEWOBJ: _newobj,
    pickle.BUILD: _build, pickle.BINPERSID: _persistent,
}  # fmt: skip


def names_in(text: bytes) -> list[tuple[str, str]]:
    """Return the modules and names to which a pickle refers, in their order, without running it."""
    found: list[tuple[str, str]] = []
    memo: dict[Any, Any] = {}
    strings: list[Any] = []  # and None for whatever else is pushed
    for opcode, argument, _ in pickletools.genops(text):
        if opcode.name in ("GLOBAL", "INST"):
            module, _, name = str(argument).partition(" ")
            found.append((module, name))
        elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
            found.append((str(strings[-2]), str(strings[-1])))
        if opcode.name == "MEMOIZE":
            memo[len(memo)] = strings[-1] if strings else None
        elif opcode.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = strings[-1] if strings else None
        elif opcode.name in ("GET", "BINGET", "LONG_BINGET"):
            strings.append(memo.get(argument))
        else:
            strings.append(argument if isinstance(argument, str) else None)
    return found
