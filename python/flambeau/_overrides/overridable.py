"""Public functions written in Python, made overridable by __torch_function__.

One table says which modules' functions are offered to overriding arguments and to modes; `offer` replaces
them in their modules and in the namespace that shows them. Generated functions are offered by the argument
parser, the handwritten members of Tensor by guards in C++.
"""

from __future__ import annotations

import functools
import inspect
import sys
from types import FunctionType
from typing import Any

from flambeau import _C
from flambeau._C import Tensor

# Module -> whether overrides receive a call with its defaults filled in: parameters without a default by
# position, the others by keyword. As PyTorch's functions of Python do; those of C pass what was written.
_MODULES = {
    "_operators.calculus": False,
    "_object.conversion": False,
    "_operators.einsum": True,
    "_operators.grouping": True,
    "_object.inquiry": False,
    "_operators.linear_algebra": True,
    "_operators.lobpcg": True,
    "_operators.recurrent": False,
    "_operators.stft": True,
    "_types.symbols": False,
    "_object.memory": False,
    "_object.sparse": False,
    "functional": True,
    "nn.functional": True,
    "nn.init": True,
}
# Functions whose tensors may come as one list, which overrides receive one by one: the list's position.
_LISTS = {"einsum": 1}
# Only modes can override these, which make tensors from other data.
_MODES_ONLY = frozenset("tensor as_tensor asarray from_file".split())
# Functions of the modules above that cannot be overridden.
NOT_OFFERED = frozenset(
    (
        "is_tensor is_storage typename broadcast_shapes from_numpy frombuffer from_dlpack "
        "calculate_gain sigmoid tanh hardsigmoid hardswish upsample upsample_bilinear upsample_nearest "
        "grouped_mm"
    ).split()
)
_OFFERED_INITIALIZERS = frozenset("constant_ kaiming_uniform_ normal_ uniform_".split())
# Members of Tensor that only forward to another, which is seen, or that make the object what it is.
NOT_OFFERED_MEMBERS = frozenset(
    (
        "__abs__ __pos__ __nonzero__ __long__ __div__ __idiv__ __init__ __new__ __iter__ __hash__ __dir__ "
        "__copy__ __torch_function__ __array_namespace__ __class_getitem__ as_subclass new"
    ).split()
)
# Members with an underscore that programs use and overrides see, as in PyTorch.
OFFERED_PRIVATE = frozenset("_base _coalesced_ _dimI _dimV _indices _is_view _nnz _values _version".split())


def _home_of(function: FunctionType) -> str | None:
    """Return the row of the table for a function, by the longest module name."""
    module = function.__module__.removeprefix("flambeau.")
    while module and module not in _MODULES:
        module = module.rpartition(".")[0]
    return module or None


def _filled(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Split the arguments of a call into those without a default, by position, and the others."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= value
        elif parameter.kind is parameter.KEYWORD_ONLY or parameter.default is not parameter.empty:
            named[name] = value
        else:
            positional.append(value)
    return tuple(positional), named


def _items(values: Any) -> list[Any]:
    """Return the arguments that may be tensors: also the items of lists and tuples."""
    found: list[Any] = []
    for value in values:
        found.append(value)
        if isinstance(value, tuple | list):
            found.extend(value)  # `+=` would ask the `Size`
    return found


def _offered_call(public: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    place = _LISTS.get(public.__name__)
    if place is not None and len(args) == place + 1 and isinstance(args[place], tuple | list):
        args = (*args[:place], *args[place])
    relevant = () if public._only_modes else _items((*args, *kwargs.values()))
    if public._fills_defaults:
        try:
            args, kwargs = _filled(public.__wrapped__, args, kwargs)
        except TypeError:
            return public.__wrapped__(*args, **kwargs)  # raises the TypeError of a wrong call
    seen = public._seen_as or public
    return _C._call_overrides(seen, tuple(relevant), args, kwargs, public._fills_defaults)


def overridable(function: Any, *, fills: bool = False, only_modes: bool = False) -> Any:
    """Return the function as an object that offers its calls to overrides first."""
    made = _C._overridable(function, _offered_call, only_modes)
    functools.update_wrapper(made, function)
    made._fills_defaults, made._only_modes, made._seen_as = fills, only_modes, None
    return made


def _is_offered(name: str, value: Any) -> bool:
    if name.startswith("_") or name in NOT_OFFERED or not isinstance(value, FunctionType):
        return False
    home = _home_of(value)
    return home is not None and (home != "nn.init" or name in _OFFERED_INITIALIZERS)


def offer(namespace: dict[str, Any]) -> None:
    """Make the functions of a public namespace overridable, there and in the modules that define them."""
    for name, value in list(namespace.items()):
        if not _is_offered(name, value):
            continue
        own = vars(sys.modules[value.__module__])
        made = own.get(name)
        if getattr(made, "__wrapped__", None) is not value:
            fills = _MODULES[_home_of(value) or ""]
            made = overridable(value, fills=fills, only_modes=name in _MODES_ONLY)
            if own.get(name) is value:
                own[name] = made
        namespace[name] = made


def _offered_property(given: property) -> property:
    accessors = [f and overridable(f) for f in (given.fget, given.fset, given.fdel)]
    made = property(*accessors)
    made.__doc__ = given.__doc__
    for accessor, name in zip(accessors, ("__get__", "__set__", "__delete__"), strict=True):
        if accessor:
            accessor._seen_as = getattr(made, name)
    return made


def offer_members() -> None:
    """Make the methods and properties of Tensor that are written in Python overridable."""
    for name, value in list(vars(Tensor).items()):
        is_private = name.startswith("_") and not name.startswith("__") and name not in OFFERED_PRIVATE
        if name in NOT_OFFERED_MEMBERS or is_private:
            continue
        if isinstance(value, FunctionType):
            setattr(Tensor, name, overridable(value))
        elif isinstance(value, property):
            setattr(Tensor, name, _offered_property(value))
