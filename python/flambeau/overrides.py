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
    """Return the result of a call from the active mode, or from the first argument that overrides it.

    Args:
        public_api: the called function, which overrides receive.
        relevant_args: the arguments that may override it.
        *args: the positional arguments of the call.
        **kwargs: the keyword arguments of the call.
    Returns: the result.
    Raises: TypeError if all overrides return NotImplemented.

    Example:
        >>> from flambeau.overrides import handle_torch_function, has_torch_function_unary
        >>> def double(x):
        ...     if has_torch_function_unary(x):
        ...         return handle_torch_function(double, (x,), x)
        ...     return x + x
        >>> double(flambeau.ones(2))
        tensor([2., 2.])
    """
    return _C._call_overrides(public_api, tuple(relevant_args), args, kwargs, True)


def wrap_torch_function(
    dispatcher: Callable[_P, Iterable[Any]],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorate a function so that its arguments can override it.

    Args:
        dispatcher: the function from the same arguments to those that may override it.
    Returns: the decorator.

    Example:
        >>> @flambeau.overrides.wrap_torch_function(lambda x: (x,))
        ... def double(x):
        ...     return x + x
        >>> double(flambeau.ones(2))
        tensor([2., 2.])
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
    """Call a function without checking its arguments for overrides; functions inside it check again.

    Args:
        func: the function.
        types: no effect.
        args: its positional arguments.
        kwargs: its keyword arguments. None means none.
    Returns: what the function returns.

    Example:
        >>> from flambeau.overrides import redispatch_function
        >>> redispatch_function(flambeau.add, (), (flambeau.ones(2), 1), None)
        tensor([2., 2.])
    """
    _C._set_skip_next_torch_function(True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _C._set_skip_next_torch_function(False)


def is_tensor_like(inp: Any) -> bool:
    """Return whether an object is a tensor or overrides functions of tensors.

    Args:
        inp: the object.
    Returns: True or False.

    Example:
        >>> flambeau.overrides.is_tensor_like(3.0)
        False
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Any]:
    """Return the functions whose results the default ``__torch_function__`` does not convert to the subclass.

    Returns: a set.

    Example:
        >>> isinstance(flambeau.overrides.get_default_nowrap_functions(), set)
        True
    """
    from flambeau._object.tensor import NOT_CONVERTED

    return set(NOT_CONVERTED)


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Allow dispatch from the start for the calls of a block, inside an override.

    flambeau removes no state while an override runs, so that this changes nothing.

    Returns: a context manager.

    Example:
        >>> hasattr(flambeau.overrides.enable_reentrant_dispatch(), "__enter__")
        True
    """
    yield


# --- modes ---------------------------------------------------------------------------------------


class TorchFunctionMode:
    """Context manager whose ``__torch_function__`` receives every call of a public function in the block.

    It also receives calls with plain tensors, and of factories. While it runs, the mode is inactive and the
    next outer mode receives its calls. Modes nest, and an active mode can be entered again.

    Example:
        >>> class Log(flambeau.overrides.TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     x = flambeau.sin(flambeau.zeros(1))
        zeros
        sin
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
    """Mode that calls each function unchanged; the base of modes that override few functions.

    Example:
        >>> with flambeau.overrides.BaseTorchFunctionMode():
        ...     flambeau.ones(2) + 1
        tensor([2., 2.])
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchFunctionMode) -> None:
    _push_on_torch_function_stack(mode)


def _pop_mode() -> Any:
    return _pop_torch_function_stack()


def _get_current_function_mode_stack() -> list[Any]:
    """Return the active modes, innermost last."""
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
