"""The protocol __torch_function__: objects and modes that take over the calls of public functions.

A class with a classmethod ``__torch_function__(cls, func, types, args=(), kwargs=None)`` is asked for the
result of every public function in whose arguments an instance appears. A `TorchFunctionMode` is asked for
every call of its thread within a ``with`` block.

>>> import flambeau as fb
>>> from flambeau.overrides import TorchFunctionMode, resolve_name
>>> class Log(TorchFunctionMode):
...     def __torch_function__(self, func, types, args=(), kwargs=None):
...         print(resolve_name(func))
...         return func(*args, **(kwargs or {}))
>>> with Log():
...     total = fb.ones(2).sum()
flambeau.ones
flambeau.Tensor.sum
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

from flambeau import _C
from flambeau._C import (
    Tensor,
    _get_function_stack_at,
    _has_torch_function,
    _has_torch_function_unary,
    _has_torch_function_variadic,
    _len_torch_function_stack,
    _pop_torch_function_stack,
    _push_on_torch_function_stack,
)
from flambeau._overrides.inventory import (
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    is_tensor_method_or_property,
    resolve_name,
)

__all__ = (
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
)

_P = ParamSpec("_P")
_R = TypeVar("_R")

has_torch_function = _has_torch_function
has_torch_function_unary = _has_torch_function_unary
has_torch_function_variadic = _has_torch_function_variadic


def _get_overloaded_args(relevant_args: Iterable[Any], get_type_fn: Any = None) -> list[Any]:
    """Return the arguments whose __torch_function__ is asked, in that order: subclasses before bases."""
    given = list(relevant_args)
    if get_type_fn is None:
        return _C._overriding_args(given)
    stand_ins = {id(arg): arg for arg in _C._overriding_args(given)}
    return [arg for arg in given if id(arg) in stand_ins]


def handle_torch_function(public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of a call from the current mode, or from the first argument that overrides it.

    Args:
        public_api: the function that was called, which overrides receive.
        relevant_args: the arguments that may override it.
        args: its positional arguments.
        kwargs: its keywords.
    Raises: TypeError if all of them return NotImplemented.

    >>> def double(x):
    ...     if has_torch_function_unary(x):
    ...         return handle_torch_function(double, (x,), x)
    ...     return x + x
    """
    return _C._call_overrides(public_api, tuple(relevant_args), args, kwargs, True)


def wrap_torch_function(
    dispatcher: Callable[_P, Iterable[Any]],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make a function overridable by those of its arguments that `dispatcher` returns.

    >>> @wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return x + x
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def public(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(public, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return public

    return decorate


def redispatch_function(
    func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """Call a function without its check for overrides; functions that it calls check again."""
    _C._set_skip_next_torch_function(True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _C._set_skip_next_torch_function(False)


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor or overrides functions of tensors.

    >>> is_tensor_like(3.0)
    False
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Any]:
    """Return the functions whose results Tensor's own __torch_function__ leaves in their class."""
    from flambeau._object.tensor import NOT_CONVERTED

    return set(NOT_CONVERTED)


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Within an override, let the calls of the block be dispatched from the start.

    No state of the dispatcher is set aside while an override runs, so the block starts with a full one.
    """
    yield


# --- modes ---------------------------------------------------------------------------------------


class TorchFunctionMode:
    """Sees every call of a public function in a ``with`` block, also those of plain tensors and factories.

    While the mode's ``__torch_function__`` runs, the mode is out of force; the next one outside it sees what
    is called. Modes nest, and one can be entered again while it is in force.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __torch_function__")

    def __enter__(self) -> Any:
        _push_mode(self)
        return self

    def __exit__(self, *_: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a mode; the same as calling the class."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls the functions."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchFunctionMode) -> None:
    _push_on_torch_function_stack(mode)


def _pop_mode() -> Any:
    return _pop_torch_function_stack()


def _get_current_function_mode_stack() -> list[Any]:
    """Return the modes in force, innermost last."""
    return [_get_function_stack_at(i) for i in range(_len_torch_function_stack())]


def _get_current_function_mode() -> Any:
    """Return the innermost mode; None without one."""
    count = _len_torch_function_stack()
    return _get_function_stack_at(count - 1) if count else None


@contextlib.contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """Take the innermost mode out of force for a block."""
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _enable_torch_function() -> Any:
    """Return a context manager within which overrides are enabled."""
    return _C._EnableTorchFunction()
