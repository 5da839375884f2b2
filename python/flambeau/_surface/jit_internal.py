"""Marks on functions and classes that `flambeau.jit` reads."""

from __future__ import annotations

import builtins
import sys
import threading
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, List, TypeVar, Union  # noqa: UP035

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
_state = threading.local()

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List  # noqa: UP006
LEGACY_BROADCASTING = Final


class FunctionModifiers:
    """Values of a function's attribute `_torchscript_modifier`, which decorators set."""

    UNUSED = "unused"
    IGNORE = "ignore"
    EXPORT = "export"
    DEFAULT = "default"
    COPY_TO_SCRIPT_WRAPPER = "copy_to_script_wrapper"
    _DROP = "drop"


# --- what is running ---------------------------------------------------------------------------------


def is_scripting() -> bool:
    """Tell whether a scripted function or module is running in this thread.

    Returns: a bool.

    Example:
        >>> flambeau.jit.is_scripting()
        False
    """
    return getattr(_state, "scripting", 0) > 0


def is_tracing() -> bool:
    """Tell whether `jit.trace` is recording in this thread.

    Returns: a bool.

    Example:
        >>> flambeau.jit.is_tracing()
        False
        >>> states = []
        >>> def step(x):
        ...     states.append(flambeau.jit.is_tracing())
        ...     return x + 1
        >>> traced = flambeau.jit.trace(step, flambeau.ones(1))
        >>> states[0]
        True
    """
    return getattr(_state, "tracing", 0) > 0


@contextmanager
def running(kind: str, value: int | None = None) -> Iterator[None]:
    """Make `is_scripting` ("scripting") or `is_tracing` ("tracing") True within a block.

    Args:
        kind: which of the two.
        value: 0 makes it False within the block, as in ignored functions.
    """
    before = getattr(_state, kind, 0)
    setattr(_state, kind, before + 1 if value is None else value)
    try:
        yield
    finally:
        setattr(_state, kind, before)


# --- decorators ----------------------------------------------------------------------------------------


def _outside(fn: _F, modifier: str) -> _F:
    """Make a function run as plain Python even if scripted code calls it."""
    target: Any = fn.fget if isinstance(fn, property) else fn
    target._torchscript_modifier = modifier
    return fn


def export(fn: _F) -> _F:
    """Keep a method in the files of a scripted module, even if `forward` does not call it.

    Args:
        fn: the method.
    Returns: the method itself, marked.
    See also: jit.ignore, jit.unused

    Example:
        >>> class Both(flambeau.nn.Module):
        ...     def forward(self, x):
        ...         return x + 1
        ...     @flambeau.jit.export
        ...     def back(self, x):
        ...         return x - 1
        >>> flambeau.jit.script(Both()).back(flambeau.ones(1))
        tensor([0.])
    """
    return _outside(fn, FunctionModifiers.EXPORT)


def unused(fn: _F) -> _F:
    """Keep a method out of scripted modules, where a call of it raises an error.

    Args:
        fn: the method.
    Returns: the method itself, marked; unscripted modules run it as usual.
    See also: jit.ignore, jit.export

    Example:
        >>> class Partial(flambeau.nn.Module):
        ...     def forward(self, x):
        ...         return x + 1
        ...     @flambeau.jit.unused
        ...     def debug(self, x):
        ...         return x.tolist()
        >>> Partial().debug(flambeau.ones(1))
        [1.0]
        >>> flambeau.jit.script(Partial())(flambeau.ones(1))
        tensor([2.])
    """
    return _outside(fn, FunctionModifiers.UNUSED)


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Leave a method as plain Python: a scripted module runs it, with `is_scripting()` False.

    Args:
        drop: the method, where the decorator is written without parentheses; or whether to keep the method
            out of scripted modules, as `unused` does. Default: False.
        **kwargs: ``drop_on_export=True`` has the effect of ``drop=True``.
    Returns: the method itself, marked; or a decorator that marks it.
    Raises: RuntimeError if `drop` is neither a bool nor a function.
    See also: jit.unused, jit.export

    Example:
        >>> class Logged(flambeau.nn.Module):
        ...     def forward(self, x):
        ...         self.log("forward")
        ...         return x + 1
        ...     @flambeau.jit.ignore
        ...     def log(self, text: str) -> None:
        ...         print(text)
        >>> flambeau.jit.script(Logged())(flambeau.ones(1))
        forward
        tensor([2.])
    """
    if callable(drop):
        return _outside(drop, FunctionModifiers.IGNORE)
    if not isinstance(drop, bool):
        raise RuntimeError(f"ignore: expected a bool or a function, got {type(drop).__name__}")
    dropped = drop or kwargs.get("drop_on_export", False)
    modifier = FunctionModifiers.UNUSED if dropped else FunctionModifiers.IGNORE
    return lambda fn: _outside(fn, modifier)


def _drop(fn: _F) -> _F:
    return _outside(fn, FunctionModifiers._DROP)


def _copy_to_script_wrapper(fn: _F) -> _F:
    return _outside(fn, FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)


def get_torchscript_modifier(fn: Any) -> str:
    """Return the `FunctionModifiers` value that a decorator set on a function."""
    fn = getattr(fn, "__func__", fn)
    return getattr(fn, "_torchscript_modifier", FunctionModifiers.DEFAULT)


def should_drop(fn: Any) -> bool:
    """Whether a scripted module leaves the method out."""
    return get_torchscript_modifier(fn) in (FunctionModifiers.UNUSED, FunctionModifiers._DROP)


def is_ignored_fn(fn: Any) -> bool:
    """Whether a scripted module leaves the method out, or runs it as plain Python."""
    return should_drop(fn) or get_torchscript_modifier(fn) == FunctionModifiers.IGNORE


def module_has_exports(mod: Any) -> bool:
    """Whether a module has methods that are exported."""
    names = (name for name in dir(type(mod)) if callable(getattr(type(mod), name, None)))
    return any(
        get_torchscript_modifier(getattr(type(mod), name)) == FunctionModifiers.EXPORT for name in names
    )


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str | None,
    func_name: str | None,
) -> Callable[..., Any]:
    """Return a function that calls one of two functions, depending on a boolean argument."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    fn.__name__ = func_name or fn.__name__
    fn.__module__ = module_name or fn.__module__
    return fn


_overloaded_fns: dict[str, list[Any]] = {}


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    return f"{obj.__module__}.{getattr(obj, '__qualname__', obj.__name__)}"


def _overload(func: _F) -> _F:
    """Record the signature of one overload; the last definition of the function is the one that runs."""
    _overloaded_fns.setdefault(_qualified_name(func), []).append(func)
    return func


_overload_method = _overload


def _get_fn_overloads(qual_name: str) -> list[Any] | None:
    return _overloaded_fns.get(qual_name)


def _clear_fn_overloads(qual_name: str) -> None:
    _overloaded_fns.pop(qual_name, None)


def interface(obj: _T) -> _T:
    """Mark a class as an interface, which lists the methods that a submodule must have.

    Args:
        obj: the class.
    Returns: the class itself; flambeau checks nothing, because programs run as Python.

    Example:
        >>> @flambeau.jit.interface
        ... class Layer(flambeau.nn.Module):
        ...     def forward(self, x: flambeau.Tensor) -> flambeau.Tensor:
        ...         pass
        >>> Layer.__name__
        'Layer'
    """
    obj.__torch_script_interface__ = True  # type: ignore[attr-defined]
    return obj


def annotate(the_type: Any, the_value: _T) -> _T:
    """Return a value unchanged; its type is documentation for the reader.

    Args:
        the_type: the type of the value.
        the_value: the value.
    Returns: `the_value`.

    Example:
        >>> flambeau.jit.annotate(list[int], [1, 2])
        [1, 2]
    """
    return the_value


class Attribute(typing.NamedTuple):
    """Value with its type, for the attributes of a ScriptModule.

    Args:
        value: the value.
        type: its type.

    Example:
        >>> flambeau.jit.Attribute(3, int).value
        3
    """

    value: Any
    type: Any


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Tell whether a value has a type; the elements of containers are checked as well.

    Args:
        obj: the value.
        target_type: a type, a container type such as ``list[int]``, a union, or a tuple of types.
    Returns: a bool.

    Example:
        >>> flambeau.jit.isinstance([1, 2], list[int]), flambeau.jit.isinstance([1, 2], list[str])
        (True, False)
    """
    if builtins.isinstance(target_type, tuple):
        return any(isinstance_(obj, one) for one in target_type)
    origin, inside = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return target_type is Any or (
            obj is None if target_type is None else builtins.isinstance(obj, target_type)
        )
    if origin is Union or type(target_type).__name__ == "UnionType":
        return any(isinstance_(obj, one) for one in inside)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance_(k, inside[0]) and isinstance_(v, inside[1]) for k, v in obj.items())
    if origin is tuple and inside[-1:] != (...,):
        return len(obj) == len(inside) and all(map(isinstance_, obj, inside))
    return all(isinstance_(item, inside[0]) for item in obj)


def _enum(cls: _T) -> _T:
    return cls


def can_compile_class(cls: type) -> bool:
    """Whether all methods of a class are written in Python."""
    return all(not callable(f) or hasattr(f, "__code__") for n, f in vars(cls).items() if n[:2] != "__")


def createResolutionCallbackFromFrame(frames_up: int = 0) -> Callable[[str], Any]:
    """Return a function that looks up names in a caller's frame."""
    frame = sys._getframe(frames_up + 1)

    def find(name: str) -> Any:
        return frame.f_locals.get(name, frame.f_globals.get(name, getattr(builtins, name, None)))

    return find


def _is_exception(obj: Any) -> bool:
    return builtins.isinstance(obj, type) and issubclass(obj, Exception)


def is_final(ann: Any) -> bool:
    """Whether an annotation is Final."""
    return ann is Final or typing.get_origin(ann) is Final


def raise_error_container_parameter_missing(target_type: str) -> None:
    """Raise that a container's element type is missing."""
    raise RuntimeError(
        f"jit: Attempted to use {target_type} without its element type; write {target_type}[...]"
    )
