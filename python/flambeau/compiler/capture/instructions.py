"""Instructions that loop, call, raise and import; `values` has the others."""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
import types
from typing import Any

from flambeau.compiler.capture import polyfills
from flambeau.compiler.capture.attributes import find, instance_dict
from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.decode import Instruction, decode
from flambeau.compiler.capture.frames import NULL, Generator, Returns
from flambeau.compiler.capture.operators import UNARY
from flambeau.compiler.capture.values import Values


class Instructions(Values):
    """One method per instruction; `self.at` is the instruction's index."""

    # --- loops and generators -----------------------------------------------------------------------

    def GET_ITER(self, i: Instruction) -> None:
        value = self.pop()
        if self.is_native:
            self.push(iter(value))
            return
        self.iterate(value)
        top = self.frames[-1].stack[-1] if self.frames[-1].stack else None
        step = find(type(top), "__next__")[0]
        if isinstance(step, types.FunctionType) and not isinstance(top, Generator):
            self.enter(polyfills.stepped, (self.pop(),), {})

    def GET_YIELD_FROM_ITER(self, i: Instruction) -> None:
        self.GET_ITER(i)

    def FOR_ITER(self, i: Instruction) -> None:
        iterator = self.frame.stack[-1]
        if not self.is_native:
            if isinstance(iterator, Generator):
                self.resume_frame(iterator, None)
                return
            if self.tracker.origin_of(iterator) is not None:
                raise Break("a loop over an iterator that existed before")
            if isinstance(find(type(iterator), "__next__")[0], types.FunctionType):
                self.pop()
                self.frame.ip = self.at
                self.enter(polyfills.stepped, (iterator,), {})
                return
        try:
            value = next(iterator)
        except StopIteration:
            self.pop()
            self.frame.ip = i.target
            return
        self.push(value)

    def resume_frame(self, generator: Generator, value: Any) -> None:
        """Continue a generator as the innermost frame."""
        if self.tracker.origin_of(generator) is not None:
            raise Break("a generator that existed before")
        frame = generator.frame
        if frame is None:
            self.end_generator(None)
            return
        if generator.is_running:
            raise ValueError("generator already executing")
        generator.is_running = generator.is_started = True
        frame.stack[-1] = value
        self.frames.append(frame)

    def end_generator(self, result: Any) -> None:
        """Pass the result of a finished generator to the instruction that resumed it."""
        i = self.frame.decoded.instructions[self.frame.at]
        if i.name == "FOR_ITER":
            self.pop()
            self.frame.ip = i.target
        elif i.name == "SEND":
            self.pop()
            self.push(result)
            self.frame.ip = i.target
        else:
            raise StopIteration(result)

    def SEND(self, i: Instruction) -> None:
        value = self.pop()
        receiver = self.frame.stack[-1]
        if isinstance(receiver, Generator) and not self.is_native:
            self.resume_frame(receiver, value)
            return
        try:
            result = next(receiver) if value is None else receiver.send(value)
        except StopIteration as end:
            self.pop()
            self.push(end.value)
            self.frame.ip = i.target
            return
        self.push(result)

    def YIELD_VALUE(self, i: Instruction) -> None:
        frame = self.frame
        value = frame.stack[-1]
        frame.stack[-1] = None
        frame.generator.is_running = False
        self.frames.pop()
        if self.frames:
            self.push(value)
        else:
            self.finish(value)

    # --- calls --------------------------------------------------------------------------------------

    def KW_NAMES(self, i: Instruction) -> None:
        self.frame.keywords = self.frame.code.co_consts[i.arg]

    def CALL(self, i: Instruction) -> None:
        frame = self.frame
        names, frame.keywords = frame.keywords, ()
        self._call(names, self._popped(i.arg))

    def CALL_KW(self, i: Instruction) -> None:
        names = self.pop()
        self._call(names, self._popped(i.arg))

    def _call(self, names: tuple[str, ...], values: list[Any]) -> None:
        """Call the callable on the stack: a function above or below NULL, or a method below its object."""
        second = self.pop()
        first = self.pop()
        function = second if first is NULL else first
        if first is not NULL and second is not NULL:
            values = [second, *values]
        count = len(values) - len(names)
        self.call(function, tuple(values[:count]), dict(zip(names, values[count:], strict=True)))

    def CALL_FUNCTION_EX(self, i: Instruction) -> None:
        kwargs = self.pop() if i.arg & 1 else {}
        args = self.pop()
        if not self.is_native and (self.needs_python(args) or not isinstance(kwargs, dict)):
            raise Break("arguments that Python code unpacks")
        if not self.is_native:
            self.tracker.expand(args)
            self.tracker.expand(kwargs)
        function = self.pop()
        if function is NULL:
            function = self.pop()
        elif self.frame.stack and self.frame.stack[-1] is NULL:
            self.pop()
        self.call(function, tuple(args), dict(kwargs))

    def MAKE_FUNCTION(self, i: Instruction) -> None:
        code = self.pop()
        flags = [flag for flag in (8, 4, 2, 1) if i.arg & flag]
        given = {flag: self.pop() for flag in flags}
        closure = given.pop(8, None) or tuple(types.CellType() for _ in code.co_freevars)
        self.push(self.tracker.keep(self._function(code, closure)))
        for flag, value in given.items():
            self._set_attribute_of_function(flag, value)

    def SET_FUNCTION_ATTRIBUTE(self, i: Instruction) -> None:
        function = self.pop()
        value = self.pop()
        self.push(function)
        self._set_attribute_of_function(i.arg, value)

    def _function(self, code: types.CodeType, closure: tuple[types.CellType, ...]) -> types.FunctionType:
        outer = self.frame.function
        function = types.FunctionType(code, outer.__globals__, code.co_name, None, closure)
        function.__module__ = outer.__module__
        return function

    def _set_attribute_of_function(self, flag: int, value: Any) -> None:
        function = self.frame.stack[-1]
        if flag == 1:
            function.__defaults__ = value
        elif flag == 2:
            function.__kwdefaults__ = value
        elif flag == 4:
            pairs = zip(value[::2], value[1::2], strict=True)
            function.__annotations__ = dict(pairs) if isinstance(value, tuple) else value
        else:
            made = self._function(function.__code__, value)
            made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
            made.__annotations__ = function.__annotations__
            self.pop()
            self.push(self.tracker.keep(made))

    def RETURN_VALUE(self, i: Instruction) -> None:
        self.leave(self.pop())

    def leave(self, value: Any) -> None:
        """End the current frame with a result."""
        frame = self.frames.pop()
        if frame.generator is not None:
            frame.generator.frame, frame.generator.is_running = None, False
        if not self.frames:
            self.finish(value)
        elif frame.returns is Returns.PUSH:
            self.push(value)
        elif frame.returns is Returns.INSTANCE:
            self.push(frame.result)
        elif frame.returns is Returns.RESUME:
            self.end_generator(value)

    def can_interpret(self, code: types.CodeType) -> bool:
        """Whether all instructions of a code object are known."""
        return has_known_instructions(code)

    def finish(self, value: Any) -> None:
        """End the outermost frame."""
        raise NotImplementedError

    # --- exceptions and contexts --------------------------------------------------------------------

    def LOAD_BUILD_CLASS(self, i: Instruction) -> None:
        self.push(builtins.__build_class__)

    def LOAD_ASSERTION_ERROR(self, i: Instruction) -> None:
        self.push(AssertionError)

    def RAISE_VARARGS(self, i: Instruction) -> None:
        cause = self.pop() if i.arg == 2 else None
        if i.arg == 0:
            error = self._handled()
            if error is None:
                raise RuntimeError("No active exception to reraise")
            raise error
        error = self.pop()
        if isinstance(error, type) and issubclass(error, BaseException):
            error = error()
        if i.arg == 2:
            raise error from cause
        raise error

    def _handled(self) -> BaseException | None:
        return next((f.handled for f in reversed(self.frames) if f.handled is not None), None)

    def RERAISE(self, i: Instruction) -> None:
        error = self.pop()
        raise error

    def STOPITERATION_ERROR(self, i: Instruction) -> None:
        """Replace a StopIteration that leaves a generator by RuntimeError."""
        error = self.pop()
        if isinstance(error, StopIteration):
            changed = RuntimeError("generator raised StopIteration")
            changed.__cause__ = changed.__context__ = error
            error = self.tracker.keep(changed)
        self.push(error)

    def CLEANUP_THROW(self, i: Instruction) -> None:
        """End ``yield from`` after an exception that was thrown into it."""
        error = self.pop()
        if not isinstance(error, StopIteration):
            raise error
        self.pop()
        self.pop()
        self.push(error.value)

    def PUSH_EXC_INFO(self, i: Instruction) -> None:
        error = self.pop()
        self.push(self.frame.handled)
        self.push(error)
        self.frame.handled = error

    def POP_EXCEPT(self, i: Instruction) -> None:
        self.frame.handled = self.pop()

    def CHECK_EXC_MATCH(self, i: Instruction) -> None:
        kinds = self.pop()
        self.push(isinstance(self.frame.stack[-1], kinds))

    def BEFORE_WITH(self, i: Instruction) -> None:
        manager = self.pop()
        if self.is_native:
            end = manager.__exit__
            self.push(end)
            self.push(manager.__enter__())
            return
        enter, leave = find(type(manager), "__enter__")[0], find(type(manager), "__exit__")[0]
        if not isinstance(enter, types.FunctionType) or not isinstance(leave, types.FunctionType):
            raise Break(f"the context manager {type(manager).__qualname__}")
        self._adopt_method(manager, "__enter__")
        self._adopt_method(manager, "__exit__")
        self.push(types.MethodType(leave, manager))
        self.call(enter, (manager,), {})

    def WITH_EXCEPT_START(self, i: Instruction) -> None:
        error = self.frame.stack[-1]
        leave = self.frame.stack[-4]
        self.call(leave, (type(error), error, error.__traceback__), {})

    # --- imports ------------------------------------------------------------------------------------

    def IMPORT_NAME(self, i: Instruction) -> None:
        names, level = self.pop(), self.pop()
        if not self.is_native and i.value not in sys.modules and not level:
            raise Break(f"the first import of {i.value}")
        self.push(__import__(i.value, self.frame.function.__globals__, {}, names, level))

    def IMPORT_FROM(self, i: Instruction) -> None:
        module = self.frame.stack[-1]
        try:
            self.push(getattr(module, i.value))
        except AttributeError:
            self.push(importlib.import_module(f"{module.__name__}.{i.value}"))

    # --- matching -----------------------------------------------------------------------------------

    def GET_LEN(self, i: Instruction) -> None:
        value = self.frame.stack[-1]
        self.tracker.expand(value)
        self.push(len(value))

    def MATCH_MAPPING(self, i: Instruction) -> None:
        self.push(isinstance(self.frame.stack[-1], dict))

    def MATCH_SEQUENCE(self, i: Instruction) -> None:
        self.push(isinstance(self.frame.stack[-1], list | tuple | range))

    def MATCH_KEYS(self, i: Instruction) -> None:
        keys, value = self.frame.stack[-1], self.frame.stack[-2]
        self.tracker.expand(value)
        self.push(tuple(value[key] for key in keys) if all(key in value for key in keys) else None)

    def MATCH_CLASS(self, i: Instruction) -> None:
        names, kind, value = self.pop(), self.pop(), self.pop()
        own = instance_dict(value) or {}
        names = (*getattr(kind, "__match_args__", ())[: i.arg], *names)
        if not isinstance(value, kind):
            self.push(None)
        elif i.arg and not getattr(kind, "__match_args__", ()):
            self.push((value,) if i.arg == 1 else None)
        elif all(name in own for name in names):
            depth = len(self.frame.stack)
            for name in names:
                self.load_attribute(value, name)
            self.push(tuple(self._popped(len(self.frame.stack) - depth)))
        else:
            raise Break(f"a match of {kind.__qualname__}")


SUPPORTED = (
    frozenset(name for name in dir(Instructions) if name.isupper()) | frozenset(UNARY) | {"RETURN_GENERATOR"}
)


@functools.lru_cache(maxsize=4096)
def has_known_instructions(code: types.CodeType) -> bool:
    """Whether the interpreter knows each instruction of a code object."""
    return all(i.name in SUPPORTED for i in decode(code).instructions)
