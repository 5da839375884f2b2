"""Inputs of traced programs: placeholders, and arguments with fixed values."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau import Tensor
from flambeau.fx.node import base_types
from flambeau.utils import _pytree as pytree

if TYPE_CHECKING:
    from flambeau.fx._symbolic_trace import Tracer


class PHBase:
    """Marks an input inside a container of `concrete_args`."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A `PH` whose attributes are copied to the node of the placeholder.

    Args:
        ph_key: a name for the input, kept as an attribute.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


def specialised(tracer: Tracer, name: str, default: tuple[Any, ...], value: Any) -> Any:
    """Make placeholders for an argument in `concrete_args`; the graph checks fixed values at run time."""
    count = 0

    def replaced(leaf: Any) -> Any:
        nonlocal count
        count += 1
        out = tracer.create_proxy("placeholder", f"{name}_{count}", default, {})
        if isinstance(leaf, PHBase):
            if isinstance(leaf, PHWithMeta):
                out.node.meta.update({k: v for k, v in vars(leaf).items() if v is not None})
                for key, entry in vars(leaf).items():
                    setattr(out.node, key, entry)
            return out
        _check_value(tracer, name, out, leaf)
        return leaf

    return pytree.tree_map(replaced, value)


def _check_value(tracer: Tracer, name: str, given: Any, fixed: Any) -> None:
    from flambeau.fx._symbolic_trace import _assert_is_none

    message = f"{name} is specialized to have value {fixed}, got another"
    if fixed is None:
        tracer.create_proxy("call_function", _assert_is_none, (given, message), {})
    elif isinstance(fixed, base_types) and not isinstance(fixed, Tensor):
        tracer.create_proxy("call_function", flambeau._assert, (given == fixed, message), {})
    else:
        warnings.warn(
            f"the argument {name} is fixed to a {type(fixed).__name__}, which cannot be checked at run time",
            stacklevel=4,
        )


def with_positional_arguments(function: Any, analysed: Any, count: int) -> Any:
    """Return a function that takes all arguments by position, with ``*args`` as one value.

    Args:
        function: the function.
        analysed: the undecorated function.
        count: the number of arguments.
    """
    code = getattr(analysed, "__code__", None)
    if code is None:
        return function
    stars = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if not stars and not code.co_kwonlyargcount:
        return function
    if analysed is not function and not stars:
        return _by_keyword(function, code)
    changed = code.replace(
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        co_argcount=count if not isinstance(analysed, types.MethodType) else count + 1,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
    )
    target = getattr(analysed, "__func__", analysed)
    made: Any = types.FunctionType(changed, target.__globals__, target.__name__, None, target.__closure__)
    made.__annotations__ = target.__annotations__
    return types.MethodType(made, analysed.__self__) if isinstance(analysed, types.MethodType) else made


def _by_keyword(function: Any, code: types.CodeType) -> Any:
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        positional = args[: len(args) - len(names)]
        return function(*positional, **dict(zip(names, args[len(positional) :], strict=True)))

    return call
