"""Functions whose calls are recorded as one node instead of being traced."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

_MISSING = object()
# (id of a module's globals, name) -> the globals.
_registered: dict[tuple[int, str], dict[str, Any]] = {}
GENERATED_NAMES = "__fx_wrapped__"  # key in the globals of generated code: the names that the code wraps


def wrap(fn_or_name: Any) -> Any:
    """Register a function whose calls are recorded as one node.

    Call it, or use it as a decorator, at the top level of a module.

    Args:
        fn_or_name: the function, or its name in the module, such as "len".

    Returns: the argument.

    Raises: NotImplementedError within a function or class, RuntimeError for another type.

    Example:
        >>> flambeau.fx.wrap("len")
        'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"wrap: Unsupported type {type(fn_or_name).__name__}: expected a function or its name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError(
            "fx.wrap: wrap must be called at module level: expected a call outside of functions, got "
            f"one in {frame.f_code.co_name!r}"
        )
    if GENERATED_NAMES in frame.f_globals:
        frame.f_globals[GENERATED_NAMES].add(name)
    else:
        _registered[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def registered() -> Iterator[tuple[dict[str, Any], str]]:
    """Yield globals and names of all wrapped functions."""
    for (_, name), scope in list(_registered.items()):
        yield scope, name


def generated_names(function: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the names that the generated code of a function wraps."""
    scope = getattr(function, "__globals__", {})
    for name in scope.get(GENERATED_NAMES, ()):
        yield scope, name


def found_in(scope: dict[str, Any], name: str) -> Any:
    """Return the object of a name in a module, or None."""
    return scope.get(name, getattr(builtins, name, None))


def is_wrapped(function: Any) -> bool:
    """Whether generated code must wrap the function, so that a second trace records the same graph."""
    if getattr(function, "__module__", None) == "math":
        return True
    for scope, name in registered():
        found = found_in(scope, name)
        if found is function or getattr(found, "__wrapped__", _MISSING) is function:
            return True
    return False


def recording(function: Callable[..., Any], find_proxy: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the function that replaces `function` while a program is traced.

    Args:
        function: the function.
        find_proxy: returns a proxy inside the arguments, or None.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy((args, kwargs))
        if proxy is None:
            return function(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", function, args, kwargs)

    call.__dict__["_is_recording"] = True
    return call


class Patches:
    """Replaced names, which are restored in reverse order at the end of the block."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        self._done: set[tuple[int, str]] = set()

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            place, name, before = self._undo.pop()
            if isinstance(place, dict):
                if before is _MISSING:
                    place.pop(name, None)
                else:
                    place[name] = before
            else:
                setattr(place, name, before)

    def in_scope(self, scope: dict[str, Any], name: str, value: Any) -> None:
        """Replace a name in a module's globals, if it is not replaced already."""
        if (id(scope), name) not in self._done:
            self._done.add((id(scope), name))
            self._undo.append((scope, name, scope.get(name, _MISSING)))
            scope[name] = value

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a class or module."""
        if (id(owner), name) not in self._done:
            self._done.add((id(owner), name))
            self._undo.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)
