"""Instructions that move, make and unpack values."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.compiler.capture import known, polyfills
from flambeau.compiler.capture.attributes import find
from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.decode import Instruction
from flambeau.compiler.capture.frames import NULL, UNBOUND, Frame
from flambeau.compiler.capture.operators import Operators
from flambeau.compiler.capture.origins import Constant, Item
from flambeau.compiler.capture.tracker import is_constant
from flambeau.compiler.symbolic.numbers import fixed


class Values(Operators):
    """One method per instruction; `self.at` is the instruction's index."""

    at: int

    # --- the stack ----------------------------------------------------------------------------------

    def POP_TOP(self, i: Instruction) -> None:
        self.pop()

    def PUSH_NULL(self, i: Instruction) -> None:
        self.push(NULL)

    def SWAP(self, i: Instruction) -> None:
        stack = self.frame.stack
        stack[-1], stack[-i.arg] = stack[-i.arg], stack[-1]

    def COPY(self, i: Instruction) -> None:
        self.push(self.frame.stack[-i.arg])

    def LOAD_CONST(self, i: Instruction) -> None:
        self.push(i.value)

    def read_slot(self, frame: Frame, index: int) -> None:
        """Note that a variable is read."""
        raise NotImplementedError

    def move_to_slot(self, frame: Frame, index: int) -> None:
        """Move the top of the stack to a variable."""
        raise NotImplementedError

    # --- variables ----------------------------------------------------------------------------------

    def LOAD_FAST(self, i: Instruction) -> None:
        self.read_slot(self.frame, i.arg)
        value = self.frame.slots[i.arg]
        if value is UNBOUND:
            raise UnboundLocalError(
                f"cannot access local variable '{i.value}' where it is not associated with a value"
            )
        self.push(value)

    LOAD_CLOSURE = LOAD_FAST

    def STORE_FAST(self, i: Instruction) -> None:
        self.move_to_slot(self.frame, i.arg)

    def DELETE_FAST(self, i: Instruction) -> None:
        self.read_slot(self.frame, i.arg)
        self.frame.slots[i.arg] = UNBOUND

    def MAKE_CELL(self, i: Instruction) -> None:
        self.read_slot(self.frame, i.arg)
        value = self.frame.slots[i.arg]
        cell = types.CellType() if value is UNBOUND else types.CellType(value)
        self.frame.slots[i.arg] = self.tracker.keep(cell)

    def LOAD_DEREF(self, i: Instruction) -> None:
        self.read_slot(self.frame, i.arg)
        cell = self.frame.slots[i.arg]
        try:
            value = cell.cell_contents
        except ValueError:
            raise NameError(
                f"cannot access free variable '{i.value}' where it is not associated with a value"
            ) from None
        self.tracker.read_cell(cell)
        self.push(value)

    LOAD_CLASSDEREF = LOAD_DEREF

    def STORE_DEREF(self, i: Instruction) -> None:
        self.read_slot(self.frame, i.arg)
        cell = self.frame.slots[i.arg]
        self.tracker.write(cell, "")
        cell.cell_contents = self.pop()

    def DELETE_DEREF(self, i: Instruction) -> None:
        self.read_slot(self.frame, i.arg)
        cell = self.frame.slots[i.arg]
        self.tracker.write(cell, "")
        del cell.cell_contents

    def LOAD_FAST_AND_CLEAR(self, i: Instruction) -> None:
        """Save a variable on the stack while a comprehension uses its place; it may be unbound."""
        self.read_slot(self.frame, i.arg)
        self.push(self.frame.slots[i.arg])
        self.frame.slots[i.arg] = UNBOUND

    def LOAD_GLOBAL(self, i: Instruction) -> None:
        names = self.frame.function.__globals__
        if i.value in names:
            value = names[i.value]
            if not self.is_native:
                self._adopt_global(names, i.value, value)
        else:
            builtin: dict[str, Any] = getattr(self.frame.function, "__builtins__")  # noqa: B009 - unknown to mypy
            if i.value not in builtin:
                raise NameError(f"name '{i.value}' is not defined")
            value = builtin[i.value]
        self.push(value)

    def _adopt_global(self, names: dict[str, Any], name: str, value: Any) -> None:
        is_own = known.is_own(self.frame.function)
        if is_own and (known.module_of(self.frame.function), name) not in known.CHANGING:
            return
        if is_own and isinstance(value, dict):  # flambeau changes its tables in place
            self.tracker.hold(value, name)
        elif not self.tracker.is_written(names, name):
            place = self.tracker.constant(names)
            self.tracker.adopt(value, Item(Constant(place, "G"), name))

    def STORE_GLOBAL(self, i: Instruction) -> None:
        names = self.frame.function.__globals__
        if not self.is_native:
            self.tracker.origins.setdefault(id(names), Constant(self.tracker.constant(names), "G"))
            self.tracker.write(names, i.value)
        names[i.value] = self.pop()

    def DELETE_GLOBAL(self, i: Instruction) -> None:
        if not self.is_native:
            raise Break("the deletion of a global variable")
        del self.frame.function.__globals__[i.value]

    # --- attributes and elements --------------------------------------------------------------------

    def LOAD_ATTR(self, i: Instruction) -> None:
        self.load_attribute(self.pop(), i.value)

    def LOAD_METHOD(self, i: Instruction) -> None:
        value = self.pop()
        self.push(NULL)
        self.load_attribute(value, i.value)

    def LOAD_SUPER_ATTR(self, i: Instruction) -> None:
        """``super().name``: call the class and read its attribute, as a method or as a plain value."""
        instance, kind, function = self.pop(), self.pop(), self.pop()
        if not self.is_native and function is not super:
            raise Break("a class that replaces super")
        if i.arg & 1:
            self.push(NULL)
        self.load_attribute(function(kind, instance), i.value)

    def STORE_ATTR(self, i: Instruction) -> None:
        owner = self.pop()
        self.store_attribute(owner, i.value, self.pop())

    def DELETE_ATTR(self, i: Instruction) -> None:
        self.delete_attribute(self.pop(), i.value)

    def BINARY_SUBSCR(self, i: Instruction) -> None:
        key = self.pop()
        self.load_item(self.pop(), key)

    def STORE_SUBSCR(self, i: Instruction) -> None:
        key, owner = self.pop(), self.pop()
        self.store_item(owner, key, self.pop())

    def DELETE_SUBSCR(self, i: Instruction) -> None:
        key, owner = self.pop(), self.pop()
        self.delete_item(owner, key)

    def BUILD_SLICE(self, i: Instruction) -> None:
        self.push(slice(*self._popped(i.arg)))

    # --- operators ----------------------------------------------------------------------------------

    def BINARY_OP(self, i: Instruction) -> None:
        import dis

        b = self.pop()
        self.binary(dis._nb_ops[i.arg][1], self.pop(), b)  # type: ignore[attr-defined]

    def COMPARE_OP(self, i: Instruction) -> None:
        b = self.pop()
        self.binary(i.value, self.pop(), b)

    def IS_OP(self, i: Instruction) -> None:
        b = self.pop()
        self.push((self.pop() is b) is not bool(i.arg))

    def CONTAINS_OP(self, i: Instruction) -> None:
        values = self.pop()
        self.contains(self.pop(), values, bool(i.arg))

    def _unary(self, i: Instruction) -> None:
        self.unary(i.name, self.pop())

    UNARY_NEGATIVE = UNARY_POSITIVE = UNARY_INVERT = _unary

    def UNARY_NOT(self, i: Instruction) -> None:
        depth = len(self.frames)
        is_true = self.truth(self.frame.stack[-1])
        if is_true is None:
            self.frames[depth - 1].ip = self.at
            return
        self.pop()
        self.push(not is_true)

    # --- jumps --------------------------------------------------------------------------------------

    def _jump(self, i: Instruction) -> None:
        self.frame.ip = i.target

    JUMP_FORWARD = JUMP_BACKWARD = JUMP_BACKWARD_NO_INTERRUPT = _jump

    def _jump_if(self, i: Instruction, wanted: bool, keeps: bool) -> None:
        depth = len(self.frames)
        is_true = self.truth(self.frame.stack[-1])
        if is_true is None:  # the result of the class's method is tested next
            self.frames[depth - 1].ip = self.at
            return
        if is_true is wanted:
            self.frame.ip = i.target
        if is_true is not wanted or not keeps:
            self.pop()

    def _pop_jump_if_true(self, i: Instruction) -> None:
        self._jump_if(i, True, False)

    def _pop_jump_if_false(self, i: Instruction) -> None:
        self._jump_if(i, False, False)

    POP_JUMP_IF_TRUE = POP_JUMP_FORWARD_IF_TRUE = POP_JUMP_BACKWARD_IF_TRUE = _pop_jump_if_true
    POP_JUMP_IF_FALSE = POP_JUMP_FORWARD_IF_FALSE = POP_JUMP_BACKWARD_IF_FALSE = _pop_jump_if_false

    def JUMP_IF_TRUE_OR_POP(self, i: Instruction) -> None:
        self._jump_if(i, True, True)

    def JUMP_IF_FALSE_OR_POP(self, i: Instruction) -> None:
        self._jump_if(i, False, True)

    def _pop_jump_if_none(self, i: Instruction) -> None:
        if self.pop() is None:
            self.frame.ip = i.target

    def _pop_jump_if_not_none(self, i: Instruction) -> None:
        if self.pop() is not None:
            self.frame.ip = i.target

    POP_JUMP_IF_NONE = POP_JUMP_FORWARD_IF_NONE = POP_JUMP_BACKWARD_IF_NONE = _pop_jump_if_none
    POP_JUMP_FORWARD_IF_NOT_NONE = POP_JUMP_BACKWARD_IF_NOT_NONE = _pop_jump_if_not_none
    POP_JUMP_IF_NOT_NONE = _pop_jump_if_not_none

    # --- containers ---------------------------------------------------------------------------------

    def _popped(self, count: int) -> list[Any]:
        stack = self.frame.stack
        found = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        return found

    def BUILD_TUPLE(self, i: Instruction) -> None:
        self.push(tuple(self._popped(i.arg)))

    def BUILD_LIST(self, i: Instruction) -> None:
        self.push(self.tracker.keep(self._popped(i.arg)))

    def BUILD_SET(self, i: Instruction) -> None:
        self.push(self.tracker.keep(set(map(fixed, self._popped(i.arg)))))

    def BUILD_MAP(self, i: Instruction) -> None:
        found = self._popped(2 * i.arg)
        self.push(self.tracker.keep(dict(zip(map(fixed, found[::2]), found[1::2], strict=True))))

    def BUILD_CONST_KEY_MAP(self, i: Instruction) -> None:
        keys = self.pop()
        self.push(self.tracker.keep(dict(zip(keys, self._popped(i.arg), strict=True))))

    def BUILD_STRING(self, i: Instruction) -> None:
        self.push("".join(self._popped(i.arg)))

    def FORMAT_VALUE(self, i: Instruction) -> None:
        form = self.pop() if i.arg & 4 else ""
        value = self._as_text(self.pop(), i.arg & 3)
        self.push(format(value, form))

    def CONVERT_VALUE(self, i: Instruction) -> None:
        self.push(self._as_text(self.pop(), i.arg))

    def _as_text(self, value: Any, conversion: int) -> Any:
        """Convert a value for formatting by str, repr or ascii (1, 2, 3)."""
        if not self.is_native and not is_constant(value):
            from flambeau.compiler.capture.recording import has_tensor

            is_python = isinstance(find(type(value), "__repr__")[0], types.FunctionType)
            if has_tensor(value) or is_python:
                raise Break(f"the text of {type(value).__qualname__}")
            self.tracker.expand_all((value,))
        value = fixed(value)
        convert: dict[int, Callable[[Any], Any]] = {1: str, 2: repr, 3: ascii}
        return convert[conversion](value) if conversion else value

    def _growing(self, i: Instruction) -> Any:
        """Return the container on the stack that the instruction adds to."""
        container = self.frame.stack[-i.arg]
        self.tracker.mutate(container)
        return container

    def LIST_APPEND(self, i: Instruction) -> None:
        value = self.pop()
        self._growing(i).append(value)

    def SET_ADD(self, i: Instruction) -> None:
        value = fixed(self.pop())
        self._growing(i).add(value)

    def MAP_ADD(self, i: Instruction) -> None:
        value, key = self.pop(), fixed(self.pop())
        self._growing(i)[key] = value

    def LIST_EXTEND(self, i: Instruction) -> None:
        values = self.pop()
        target = self._growing(i)
        if not self.is_native and self.needs_python(values):
            self.call_and_drop(polyfills.extended, (target, values))
            return
        self._check_unpacked(values)
        target.extend(values)

    def _check_unpacked(self, values: Any) -> None:
        if not self.is_native:
            if isinstance(values, flambeau.Tensor):
                raise Break("a tensor that is unpacked")
            self.tracker.expand(values)

    def LIST_TO_TUPLE(self, i: Instruction) -> None:
        self.push(tuple(self.pop()))

    def SET_UPDATE(self, i: Instruction) -> None:
        values = self.pop()
        if not self.is_native and self.needs_python(values):
            raise Break("a set that is updated by Python code")
        self._check_unpacked(values)
        self._growing(i).update(values)

    def DICT_UPDATE(self, i: Instruction) -> None:
        values = self.pop()
        self._check_mapping(values)
        self._growing(i).update(values)

    def DICT_MERGE(self, i: Instruction) -> None:
        values = self.pop()
        self._check_mapping(values)
        target = self._growing(i)
        twice = set(target) & set(values)
        if twice:
            raise TypeError(f"got multiple values for keyword argument {min(map(str, twice))!r}")
        target.update(values)

    def _check_mapping(self, values: Any) -> None:
        if not self.is_native:
            if not isinstance(values, dict) or self.needs_python(values):
                raise Break(f"a mapping of type {type(values).__qualname__} that is unpacked")
            self.tracker.expand(values)

    def UNPACK_SEQUENCE(self, i: Instruction) -> None:
        values = self._sequence_to_unpack()
        if values is None:
            return
        found = list(values)
        if len(found) != i.arg:
            few = len(found) < i.arg
            text = f"not enough values to unpack (expected {i.arg}, got {len(found)})"
            raise ValueError(text if few else f"too many values to unpack (expected {i.arg})")
        self.frame.stack.extend(reversed(found))

    def _sequence_to_unpack(self) -> Any:
        """Pop a value as a sequence; None if Python code must iterate over it first."""
        values = self.frame.stack[-1]
        if not self.is_native:
            if isinstance(values, flambeau.Tensor):
                self.pop()
                self.leaf("call_method", "unbind", (values, 0), {}, "unbind")
            elif self.needs_python(values):
                self.pop()
                self.frame.ip = self.at
                self.enter(polyfills.collected, (list, values), {})
                return None
            else:
                self.tracker.expand(values)
        return self.pop()

    def UNPACK_EX(self, i: Instruction) -> None:
        values = self._sequence_to_unpack()
        if values is None:
            return
        found = list(values)
        before, after = i.arg & 0xFF, i.arg >> 8
        if len(found) < before + after:
            raise ValueError(
                f"not enough values to unpack (expected at least {before + after}, got {len(found)})"
            )
        middle = found[before : len(found) - after]
        parts = [*found[:before], middle, *found[len(found) - after :]]
        self.frame.stack.extend(reversed(parts))
