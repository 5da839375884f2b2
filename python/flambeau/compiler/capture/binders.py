"""Functions that bind the arguments of a call to the variables of a function, as fast as a Python call."""

from __future__ import annotations

import keyword
import types
from collections.abc import Callable
from typing import Any

from flambeau.compiler.capture.decode import decode
from flambeau.compiler.capture.frames import UNBOUND

Signature = tuple[types.CodeType, Any, Any]


def signature_of(function: types.FunctionType) -> Signature:
    """Return the parts of a function that its binder depends on: code, defaults and keyword defaults."""
    return function.__code__, function.__defaults__, function.__kwdefaults__


def binder(function: types.FunctionType) -> Callable[..., list[Any]] | None:
    """Return a function with the parameters and defaults of `function` that returns its variables.

    Variables are in the order of `frames.variables`. The result is None for code whose parameters are not
    identifiers, such as the body of a generator expression.

    >>> def function(a, /, b=2, *rest, c=3, **more):
    ...     d = a
    >>> binder(function)(1, 5, 6, e=4)
    [1, 5, 3, (6,), {'e': 4}, <unbound variable>]
    """
    code = function.__code__
    decoded = decode(code)
    count = code.co_argcount + code.co_kwonlyargcount
    is_open, takes_more = bool(code.co_flags & 0x04), bool(code.co_flags & 0x08)
    names = code.co_varnames[: count + is_open + takes_more]
    if not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
        return None
    parameters = [*names[: code.co_argcount]]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if is_open or code.co_kwonlyargcount:
        parameters.append(f"*{names[count]}" if is_open else "*")
    parameters += names[code.co_argcount : count]
    if takes_more:
        parameters.append(f"**{names[-1]}")
    unbound, closure = "unbound", "closure"
    while unbound in names or closure in names:
        unbound, closure = f"_{unbound}", f"_{closure}"
    values = [*names, *[unbound] * (decoded.first_free - len(names))]
    values += [f"{closure}[{i}]" for i in range(len(code.co_freevars))]
    source = f"def bind({', '.join(parameters)}): return [{', '.join(values)}]"
    made: dict[str, Any] = {unbound: UNBOUND, closure: function.__closure__}
    exec(source, made)
    bind: Any = made["bind"]
    bind.__defaults__, bind.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    own: Callable[..., list[Any]] = bind
    return own
