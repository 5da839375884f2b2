"""Which public functions __torch_function__ can override, by namespace, with their names and signatures."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, ClassMethodDescriptorType, ModuleType
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._overrides.overridable import OFFERED_PRIVATE

_ROOT = "flambeau"
# In the order of names that resolve_name prefers: the last one that shows a function gives its name.
_NAMESPACES = ("", "functional", "nn.functional", "nn.init", "Tensor", "linalg", "fft", "special")
_GENERATED = f"{_ROOT}._C._"
_OFFERED_TYPE = type(_C._overridable(len, None, False))


def _namespaces() -> Iterator[tuple[str, Any]]:
    import flambeau
    from flambeau import fft, functional, linalg, special
    from flambeau.nn import functional as nn_functional
    from flambeau.nn import init

    shown = (flambeau, functional, nn_functional, init, Tensor, linalg, fft, special)
    for name, namespace in zip(_NAMESPACES, shown, strict=True):
        yield f"{_ROOT}.{name}".rstrip("."), namespace


def _names_of(namespace: Any) -> list[str]:
    names = set(dir(namespace)) | set(getattr(namespace, "_ELSEWHERE", ()))
    if namespace.__name__ == f"{_ROOT}.nn.functional":
        names |= set(vars(_C._nn))
    return sorted(name for name in names if hasattr(namespace, name))


def _is_public(namespace: Any, name: str) -> bool:
    """Whether a name stands for a function of its own; in-place functions repeat methods."""
    if namespace is Tensor:
        is_shown = name.startswith("__") or not name.startswith("_") or name in OFFERED_PRIVATE
        return name != "__weakref__" and is_shown
    is_inplace = name.endswith("_") and not namespace.__name__.endswith("init")
    return name[0].islower() and not is_inplace


def _is_property(member: Any) -> bool:
    return not callable(member) and hasattr(member, "__get__")


# Static members, and what the class of classes keeps for itself.
_NO_FUNCTIONS = (ModuleType, type, staticmethod, classmethod, ClassMethodDescriptorType)
_OF_OBJECTS = frozenset(
    (
        "__class__ __delattr__ __dict__ __dictoffset__ __getattribute__ __hash__ __init__ __setattr__ "
        "__weaklistoffset__"
    ).split()
)


def _is_repeated(namespace: Any, name: str, member: Any) -> bool:
    """Whether a name is inherited from `object` or repeats its namespace, as linalg.linalg_inv does."""
    if namespace is Tensor:
        return name in _OF_OBJECTS or getattr(object, name, None) is member
    short = name.removeprefix(f"{namespace.__name__.rpartition('.')[2]}_")
    return short != name and getattr(namespace, short, None) is member


def _members(namespace: Any) -> Iterator[tuple[str, Any]]:
    for name in _names_of(namespace):
        member = inspect.getattr_static(namespace, name) if namespace is Tensor else getattr(namespace, name)
        if isinstance(member, _NO_FUNCTIONS) or _is_repeated(namespace, name, member):
            continue
        yield name, member


@functools.cache
def _index() -> dict[Any, str]:
    """Map every function, method and accessor to its public name."""
    index: dict[Any, str] = {}
    for space, namespace in _namespaces():
        for name, member in _members(namespace):
            if _is_property(member):
                for accessor in ("__get__", "__set__", "__delete__"):
                    if hasattr(member, accessor):
                        index[getattr(member, accessor)] = f"{space}.{name}.{accessor}"
            elif callable(member) and (namespace is Tensor or not name.startswith("__")):
                with contextlib.suppress(TypeError):  # not hashable
                    index[member] = f"{space}.{name}"
    return index


def resolve_name(f: Any) -> str | None:
    """Return the public name of a function, method or accessor; None for another object.

    >>> import flambeau as fb
    >>> resolve_name(fb.Tensor.shape.__get__)
    'flambeau.Tensor.shape.__get__'
    """
    try:
        return _index().get(f)
    except TypeError:  # not hashable
        return None


def _takes_tensors(function: Any) -> bool:
    """Whether a parameter of a generated function is a tensor, other than the result's place."""
    lines = _written_signatures(function) or ["Tensor self"]
    return any(re.search(r"\bTensors?\b\S* (?!out\b)", line) for line in lines)


def _is_offered(namespace: Any, member: Any) -> bool:
    if isinstance(member, _OFFERED_TYPE):
        return not member._only_modes
    if namespace is Tensor:
        return not inspect.isfunction(member) and not inspect.isbuiltin(member)
    is_generated = isinstance(member, BuiltinFunctionType) and member.__module__.startswith(_GENERATED)
    return is_generated and _takes_tensors(member)


@functools.cache
def _overridable() -> dict[Any, tuple[Any, ...]]:
    found: dict[Any, list[Any]] = {}
    for _, namespace in _namespaces():
        for name, member in _members(namespace):
            if not _is_public(namespace, name):
                continue
            if _is_property(member):
                found.setdefault(namespace, []).append(member.__get__)
            elif callable(member) and _is_offered(namespace, member):
                found.setdefault(namespace, []).append(member)
    return {namespace: tuple(functions) for namespace, functions in found.items()}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions that __torch_function__ can override, by the namespace that shows them.

    >>> import flambeau as fb
    >>> fb.add in get_overridable_functions()[fb]
    True
    """
    return {namespace: list(functions) for namespace, functions in _overridable().items()}


@functools.cache
def _ignored() -> frozenset[Any]:
    overridable = {f for functions in _overridable().values() for f in functions}
    found: set[Any] = {getattr(Tensor, name) for name in ("__new__", "__init_subclass__", "__subclasshook__")}
    for _, namespace in _namespaces():
        for name, member in _members(namespace):
            if callable(member) and not name.startswith("_") and member not in overridable:
                found.add(member)
    members = "__delattr__ __getattribute__ __init__ __setattr__ __iter__ __hash__ __dir__".split()
    return frozenset(found | {getattr(Tensor, name) for name in members})


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return public functions that no argument can override: they take no tensors, or ask about state.

    >>> import flambeau as fb
    >>> fb.manual_seed in get_ignored_functions()
    True
    """
    return set(_ignored())


# --- signatures ----------------------------------------------------------------------------------


def _written_signatures(function: Any) -> list[str]:
    """Return the signatures at the start of a generated function's text: "add(Tensor input, ...)"."""
    name = getattr(function, "__name__", "")
    text = (getattr(function, "__doc__", None) or "").partition("\n\n")[0]
    return [line for line in text.splitlines() if re.match(r"\w+\(.*\)$", line) and name]


def _parameters(line: str) -> Iterator[inspect.Parameter]:
    """Read "Tensor input, *, Number alpha=1"; the values of defaults are dropped."""
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for text in re.split(r", (?![^\[(]*[\])])", line[line.index("(") + 1 : -1]):
        if text == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        elif text:
            head, equals, _ = text.partition("=")
            name = head.split()[-1].lstrip("*")
            default = None if equals else inspect.Parameter.empty
            yield inspect.Parameter("input_" if name == "self_" else name, kind, default=default)


def _signature_of(function: Any, is_method: bool) -> inspect.Signature:
    """Return the parameters of the first signature, and those of the others as further keywords."""
    lines = _written_signatures(function)
    if not lines:
        try:
            return inspect.signature(function)
        except (TypeError, ValueError):
            kinds = inspect.Parameter
            return inspect.Signature(
                [
                    kinds("self", kinds.POSITIONAL_ONLY),
                    kinds("args", kinds.VAR_POSITIONAL),
                    kinds("kwargs", kinds.VAR_KEYWORD),
                ]
            )
    found: dict[str, inspect.Parameter] = {}
    for i, line in enumerate(lines):
        for parameter in _parameters(line):
            if i:
                parameter = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=None)
            found.setdefault(parameter.name, parameter)
    ordered = sorted(found.values(), key=lambda p: (p.kind, p.kind < 3 and p.default is not p.empty))
    if is_method and "self" not in found:
        ordered.insert(0, inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD))
    return inspect.Signature(ordered)


def _dummy(function: Any, is_method: bool) -> Callable[..., int]:
    def override(*args: Any, **kwargs: Any) -> int:
        return -1

    override.__signature__ = _signature_of(function, is_method)  # type: ignore[attr-defined]
    return override


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return, for every overridable function, one with the same parameters that returns -1.

    >>> import flambeau as fb
    >>> get_testing_overrides()[fb.add](1, 2)
    -1
    """
    return {
        function: _dummy(function, namespace is Tensor)
        for namespace, functions in _overridable().items()
        for function in functions
    }


@functools.cache
def _tensor_methods() -> frozenset[Any]:
    return frozenset(member for _, member in _members(Tensor) if callable(member))


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function that an override received is a method of Tensor or the getter of a property.

    >>> import flambeau as fb
    >>> is_tensor_method_or_property(fb.Tensor.add), is_tensor_method_or_property(fb.add)
    (True, False)
    """
    return getattr(func, "__name__", "") == "__get__" or func in _tensor_methods()
