"""Names in generated code: qualified names of functions, and unused names in a scope."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
import types
from collections import Counter
from typing import Any

from flambeau._types import naming

_METHOD_TYPES = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


def root_name() -> str:
    """Return the package's name in generated code: "torch" while `flambeau.compat` is active."""
    return naming.root


def home_of(obj: Any) -> str:
    """Return the ``__module__`` of a class or function, under the package's own name."""
    home = getattr(obj, "__module__", None) or ""
    head, dot, rest = home.partition(".")
    return f"flambeau{dot}{rest}" if head == "torch" and root_name() == "torch" else home


def with_root(qualified: str) -> str:
    """Replace the package's own name at the head of a dotted name by `root_name()`."""
    head, dot, rest = qualified.partition(".")
    return f"{root_name()}{dot}{rest}" if head in ("flambeau", "torch") else qualified


def is_method(function: Any) -> bool:
    """Whether a function is a method of a class written in C, such as ``Tensor.add``."""
    return isinstance(function, _METHOD_TYPES)


def module_of(function: Any) -> str:
    """Return the public module that exports the function under its own name.

    A function of ``flambeau.nn.functional._activation`` is found in ``flambeau.nn.functional``.
    """
    name = function.__name__
    own = home_of(function)
    parts = own.split(".")
    if parts[0] != "flambeau":
        return own
    for end in range(1, len(parts) + 1):
        candidate = ".".join(parts[:end])
        module = sys.modules.get(candidate)
        if module is not None and vars(module).get(name) is function:
            return candidate
    return own


def qualified_name(function: Any) -> str:
    """Return the dotted name under which generated code finds the function.

    >>> import operator
    >>> qualified_name(operator.add), qualified_name(len)
    ('operator.add', 'len')
    """
    name: str = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    if is_method(function):
        return with_root(f"flambeau.Tensor.{name}")
    if isinstance(function, types.MethodType):
        return f"{with_root(module_of(function.__func__))}.{function.__func__.__qualname__}"
    if hasattr(function, "_qualified") or hasattr(function, "_packet"):  # operators of flambeau.ops
        packet = getattr(function, "_packet", function)
        overload = f".{function._overloadname}" if packet is not function else ""
        return with_root(f"flambeau.ops.{packet._qualified}{overload}")
    module = module_of(function)
    if module == "_operator":
        module = "operator"
    if name == "<lambda>":
        name = getattr(function, "__qualname__", name).rpartition(".")[2]
    return f"{with_root(module)}.{name}" if module else name


def snake_case(text: str) -> str:
    """Return a class name in snake case.

    >>> snake_case("fooBar")
    'foo_bar'
    """
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", text).lower()


def identifier(text: str) -> str:
    """Replace characters that identifiers cannot contain by underscores.

    >>> identifier("seq.0"), identifier("0")
    ('seq_0', '_0')
    """
    text = re.sub(r"[^0-9a-zA-Z_]+", "_", text)
    return f"_{text}" if not text or text[0].isdigit() else text


# Names that generated code can use, in addition to builtins.
RELIED_UPON = frozenset(
    ("flambeau", "torch", "inf", "nan", "NoneType", "device", "fx_pytree", "pytree", "self")
)


class Namespace:
    """Names of one scope; each object gets a unique name.

    >>> names = Namespace()
    >>> names.create_name("add", None), names.create_name("add", None), names.create_name("sum", None)
    ('add', 'add_1', 'sum_1')
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}  # by id of the named object
        self._used: set[str] = set()
        self._highest: Counter[str] = Counter()

    def create_name(self, candidate: str, obj: object | None) -> str:
        """Return the object's name; a new name is `candidate`, with a number appended if it is taken."""
        if obj is not None and id(obj) in self._names:
            return self._names[id(obj)]
        candidate = identifier(candidate)
        base, number = candidate, 0
        match = re.fullmatch(r"(.*)_(\d+)", candidate)
        if match:
            base, number = match[1], int(match[2])
        if candidate in self._used:
            number = max(number, self._highest[base] + 1)
            candidate = f"{base}_{number}"
        while candidate in self._used or self._is_reserved(candidate, obj):
            number = max(number, self._highest[base]) + 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._highest[base] = max(self._highest[base], number)
        if obj is not None:
            self._names[id(obj)] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Register a name that the object already has."""
        self._names.setdefault(id(obj), name)
        self._used.add(name)

    def _rename_object(self, obj: object, name: str) -> None:
        self._names[id(obj)] = name
        self._used.add(name)

    @staticmethod
    def _is_reserved(name: str, obj: object | None) -> bool:
        if keyword.iskeyword(name) or name in RELIED_UPON:
            return True
        return hasattr(builtins, name) and getattr(builtins, name) is not obj
