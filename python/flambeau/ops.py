"""Operators by their PyTorch name: `ops.aten.add(a, b)`, `ops.aten.add.Tensor(a, b)`.

The namespace `aten` looks a name up among all operators of the specification, internal ones too, and among
the functions and methods that are written in Python. An overload takes the arguments of its own schema only.
Other namespaces hold what `flambeau.library` has defined, and the operators of extensions that are generated
from YAML files.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from flambeau import _C
from flambeau._arguments.schemas import Parameter, _fits, _given, _is_convertible, parameters_of

Function = Callable[..., Any]

# (Namespace, name) -> overload -> operator: what `flambeau.library` has defined; "" is the default overload.
CUSTOM: dict[tuple[str, str], dict[str, Any]] = {}


_OF_THE_CALL = 0  # the keys of the arguments and the thread


class Overload(_C._OperatorHandle):
    """One overload of an operator: refuses arguments that its schema does not take."""

    def __init__(self, packet: OverloadPacket, name: str) -> None:
        self._packet = packet
        self._overloadname = name
        self._parameters: tuple[Parameter, ...] | None = None
        self._read: Any = None  # its schema, once it was asked for
        self._tags: list[Any] | None = None  # likewise
        #: Functions that `py_impl` has registered, by dispatch key or class.
        self.py_kernels: dict[Any, Function] = {}
        base = packet.__name__
        #: The operator's name in the dispatcher; "" for what is written in Python.
        self._entry = entry_name(base, name, packet.namespace)
        self.__name__ = f"{packet.__name__}.{name}"
        self._call_entry(self._entry)

    @property
    def namespace(self) -> str:
        """The library's name."""
        return self._packet.namespace

    _namespace = namespace

    @property
    def _opname(self) -> str:
        return self._packet.__name__

    @property
    def op(self) -> Function:
        """What a call runs."""
        return self.__call__

    def __reduce__(self) -> tuple[Any, ...]:
        return overload_of, (self.qualified,)

    def __deepcopy__(self, memo: Any) -> Overload:
        return self

    @property
    def qualified(self) -> str:
        """``namespace::name.overload``."""
        return f"{self._packet.qualified}.{self._overloadname}"

    def name(self) -> str:
        """Return ``namespace::name``, with the overload if it has one."""
        return self.qualified.removesuffix(".default")

    @property
    def overloadpacket(self) -> OverloadPacket:
        """The operator with all its overloads."""
        return self._packet

    @property
    def _schema(self) -> Any:
        custom = self._packet.custom()
        if custom:
            return custom[self._overloadname.replace("default", "")].schema
        if self._read is None:
            from flambeau.library._schemas import read

            text = _schemas(self.namespace).get((self._packet.__name__, self._overloadname))
            if text is None:
                raise AttributeError(f"{self!r} is written in Python: it has no schema")
            self._read = read(text, self.namespace)
        return self._read

    @property
    def tags(self) -> list[Any]:
        """The tags with which a program defined it; those of the specification's operators are derived."""
        custom = self._packet.custom()
        if custom:
            return list(custom[self._overloadname.replace("default", "")].tags)
        if not self._entry:
            raise AttributeError(f"{self!r} is written in Python: it has no tags")
        if self._tags is None:
            from flambeau.library._tags import tags_of

            self._tags = tags_of(self._entry, self._schema)
        return list(self._tags)

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        """Whether a kernel is registered for exactly this key."""
        from flambeau._surface.dispatch_questions import _dispatch_has_kernel_for_dispatch_key

        return _dispatch_has_kernel_for_dispatch_key(self.name(), key)

    def _call_slowly(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the operator where C++ does not: the first time, and under overrides and modes."""
        custom = self._packet.custom()
        if custom:
            return _followed(self, self._defined())(*args, **kwargs)
        if not self._entry and self.namespace != "aten" and self._packet._function is None:
            raise _absent(self)
        if not self._entry:
            return self._packet(*args, **kwargs)
        return self._called(_OF_THE_CALL, args, kwargs)

    def _defined(self) -> Any:
        found = self._packet.custom().get(self._overloadname.replace("default", ""))
        if found is None:
            raise _absent(self)
        return found

    def _called(self, keys: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = (*args, *kwargs.values())
        if _C._has_torch_function(given):
            return _C._call_overrides(self, given, args, kwargs, False)
        result = _C._call_operator(self._entry, args, kwargs, keys)
        if result is not NotImplemented:
            return result
        who = f"{self.namespace}::{self.__name__}()"
        if self._parameters is None:
            schema = _schemas(self.namespace)[self._packet.__name__, self._overloadname]
            self._parameters = parameters_of(schema)
        _given(who, self._parameters, args, kwargs)
        raise RuntimeError(f"{who}: expected arguments that fit {self._schema}, got others")

    def redispatch(self, /, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel of the outermost of these dispatch keys, as a kernel does that passes a call on.

        Args:
            keyset: a `DispatchKeySet` or one `DispatchKey`: "CPU", "Meta", "Autograd", ...
            args: the operator's arguments by position.
            kwargs: its arguments by name.
        """
        if not self._entry:
            return self(*args, **kwargs)
        from flambeau._surface.dispatch_keys import bits_of

        return self._called(bits_of(keyset), args, kwargs)

    def py_impl(self, k: Any) -> Callable[[Function], Function]:
        """Return a decorator that registers a Python function for a dispatch key, a mode or a class.

        A function for a class of modes or tensors answers in place of its ``__torch_dispatch__``; that of
        `CompositeImplicitAutograd` is what `decompose` runs. Functions of other keys are kept in
        `py_kernels`; `library.Library.impl` replaces kernels.

        Args:
            k: a `DispatchKey`, or a class with ``__torch_dispatch__``.
        """
        from flambeau._surface.dispatch_keys import DispatchKey

        if not isinstance(k, DispatchKey | type):
            raise AssertionError(f"py_impl: expected DispatchKey or a class, got {type(k).__name__}")

        def register(function: Function) -> Function:
            if k in self.py_kernels:
                raise RuntimeError(
                    f"py_impl: expected no function of {k}, got one: override of {self.name()}"
                )
            if isinstance(k, type):
                from flambeau.library import register_torch_dispatch

                register_torch_dispatch(
                    self,
                    k,
                    lambda mode, op, types, args, kwargs: function(
                        *((mode,) if isinstance(mode, k) else ()), *args, **(kwargs or {})
                    ),
                )
            self.py_kernels[k] = function
            return function

        return register

    def has_kernel_for_any_dispatch_key(self, keys: Any) -> bool:
        """Whether a kernel is registered for one of the keys."""
        return any(self.has_kernel_for_dispatch_key(key) for key in keys)

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operators that this one is made of; NotImplemented where it is not a composite."""
        from flambeau._surface.dispatch_keys import DispatchKey

        own = self.py_kernels.get(DispatchKey.CompositeImplicitAutograd)
        if own is not None:
            return own(*args, **kwargs)
        if not self._entry or not _C._is_composite(self._entry):
            return NotImplemented
        return self._called(_OF_THE_CALL, args, kwargs)

    @property
    def is_view(self) -> bool:
        """Whether a result shares the memory of an argument that is not written to."""
        return any("(" in part and "!" not in part for part in self._schema.results)

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._packet._qualified}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self._packet._qualified}.{self._overloadname}"


def _followed(caller: _C._OperatorHandle, operator: Any) -> Any:
    """Let C++ pass the caller's calls to a defined operator, until it is removed."""
    operator.callers.append(caller)
    caller._call_target(operator)
    return operator


def _absent(caller: Any) -> RuntimeError:
    return RuntimeError(f"{caller.qualified}: expected a defined operator, got one that has been removed")


class OverloadPacket(_C._OperatorHandle):
    """An operator with all its overloads; calling it chooses one by the arguments."""

    def __init__(self, namespace: str, name: str, function: Function | None) -> None:
        self.__name__, self.namespace = name, namespace
        self._qualified, self.qualified = f"{namespace}.{name}", f"{namespace}::{name}"
        self._function = function

    def custom(self) -> dict[str, Any]:
        """The overloads that `flambeau.library` has defined; none for operators of the specification."""
        return CUSTOM.get((self.namespace, self.__name__), {})

    def _call_slowly(self, /, *args: Any, **kwargs: Any) -> Any:
        """Choose an overload and call it."""
        if self._function is None:
            return self._chosen(args, kwargs)(*args, **kwargs)
        try:
            return self._function(*args, **kwargs)
        except TypeError as error:  # PyTorch tells arguments that do not fit from those that are wrong
            if self._takes(args, kwargs):
                raise
            raise RuntimeError(
                f"ops.aten.{self.__name__}: the arguments failed to match any schema: {error}"
            ) from error

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first defined overload that takes the arguments; a single one reports what does not fit."""
        if not self.custom():  # an operator of the specification that has no function in Python
            return self._internal(args, kwargs)
        defined = list(self.custom().values())
        if len(defined) == 1:
            return _followed(self, defined[0])
        for found in defined:
            if _fits(found.schema.parameters, args, kwargs, _is_convertible):
                return found
        raise RuntimeError(
            f"{self.qualified}: the arguments failed to match any schema of {self.overloads()}"
        )

    def _internal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Overload:
        names = _overloads(self.namespace).get(self.__name__)
        if names is None:
            raise _absent(self)
        for name in names:
            if _fits(parameters_of(_schemas(self.namespace)[self.__name__, name]), args, kwargs):
                return getattr(self, name)
        return getattr(self, names[0])

    def _takes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether an overload's schema takes the arguments; functions written in Python have none."""
        schemas = [_schemas().get((self.__name__, name)) for name in self.overloads()]
        return None in schemas or any(
            _fits(parameters_of(schema), args, kwargs) for schema in schemas if schema is not None
        )

    def __getattr__(self, name: str) -> Overload:
        if name.startswith("__") or (name != "default" and name not in self.overloads()):
            raise AttributeError(f"the operator '{self._qualified}' has no overload name '{name}'")
        overload = Overload(self, name)
        setattr(self, name, overload)
        return overload

    def overloads(self) -> list[str]:
        """Return the names of the overloads; "default" is the one without."""
        if self._function is None and self.custom():
            return [overload or "default" for overload in self.custom()]
        if question := _questions().get((self.namespace, self.__name__)):
            return question[1]
        return _overloads(self.namespace).get(self.__name__, ["default"])

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._qualified}')>"

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __reduce__(self) -> tuple[Any, ...]:
        return packet_of, (self.qualified,)

    def __deepcopy__(self, memo: Any) -> OverloadPacket:
        return self

    @property
    def op(self) -> Function:
        """What a call runs."""
        return self.__call__

    @property
    def _qualified_op_name(self) -> str:
        return self.qualified

    @property
    def _overload_names(self) -> list[str]:
        return self.overloads()

    @property
    def _schemas(self) -> dict[str, Any]:
        return {name.replace("default", ""): getattr(self, name)._schema for name in self.overloads()}

    def __str__(self) -> str:
        return self._qualified


_Schemas = dict[tuple[str, str], str]
# Namespace -> (base name, overload) -> schema: the operators of extensions, as they are loaded.
_extensions: dict[str, _Schemas] = {}


@functools.cache
def _specification() -> _Schemas:
    """(Base name, overload) -> schema, from the table of operators."""
    return {_split(schema): schema for schema in _C._operator_schemas()}


def _split(schema: str) -> tuple[str, str]:
    base, _, overload = schema.partition("(")[0].rpartition("::")[2].partition(".")
    return base, overload or "default"


def _schemas(namespace: str = "aten") -> _Schemas:
    """(Base name, overload) -> schema of the operators of a namespace."""
    if namespace == "aten":
        return _specification()
    schemas = _C._library_schemas()
    if len(schemas) != sum(map(len, _extensions.values())):
        for schema in schemas:
            _extensions.setdefault(schema.partition("::")[0], {})[_split(schema)] = schema
    return _extensions.get(namespace, {})


def entry_name(base: str, overload: str, namespace: str = "aten") -> str:
    """Return an operator's name in the dispatcher; "" for what is not generated from a specification."""
    if (base, overload or "default") not in _schemas(namespace):
        return ""
    name = base if overload in ("", "default") else f"{base}.{overload}"
    return name if namespace == "aten" else f"{namespace}::{name}"


def _overloads(namespace: str = "aten") -> dict[str, list[str]]:
    """Base name -> overloads."""
    return _names_of_specification() if namespace == "aten" else _grouped(_schemas(namespace))


@functools.cache
def _names_of_specification() -> dict[str, list[str]]:
    return _grouped(_specification())


def _grouped(schemas: _Schemas) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for base, overload in schemas:
        found.setdefault(base, []).append(overload)
    return found


# --- names ---------------------------------------------------------------------------------------


def _tables() -> list[Any]:
    return [getattr(_C, f"_{name}", None) for name in ("functions", "nn", "linalg", "special", "fft")]


def _find(name: str) -> Function | None:
    if name.endswith("_") and not name.endswith("__") and hasattr(_C.Tensor, name):
        return getattr(_C.Tensor, name)  # a function of this name may lack overloads, as pow_ does
    for table in _tables():
        if table is not None and hasattr(table, name):
            return getattr(table, name)
    import flambeau

    if name in vars(flambeau) and not isinstance(vars(flambeau)[name], ModuleType | type):
        return vars(flambeau)[name]
    if name in dir(_C.Tensor):
        return getattr(_C.Tensor, name)
    from flambeau._surface import places

    return places.find("flambeau", name) if name.startswith("_") else None


def _questions() -> dict[tuple[str, str], tuple[Function, list[str]]]:
    """What the class of a wrapper is asked about it."""
    from flambeau._object.questions import OPERATORS

    return OPERATORS


def _is_defined(namespace: str, name: str) -> bool:
    """Whether Python, or a compiled library, has defined the operator."""
    if (namespace, name) in CUSTOM or name in _overloads(namespace):
        return True
    from flambeau.library._compiled import define_new

    return not name.startswith("__") and define_new() and (namespace, name) in CUSTOM


class Namespace:
    """The operators of one library; `aten` holds those of the specification."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> OverloadPacket:
        question = _questions().get((self._name, name))
        is_of_aten = self._name == "aten" and not name.startswith("__")
        function = question[0] if question else _find(name) if is_of_aten else None
        is_internal = name in _overloads(self._name)
        if not callable(function) and not is_internal and not _is_defined(self._name, name):
            raise AttributeError(f"'{self._name}' object has no attribute '{name}'")
        packet = OverloadPacket(self._name, name, function if callable(function) else None)
        setattr(self, name, packet)
        return packet

    def __dir__(self) -> list[str]:
        return sorted({*_overloads(self._name), *(n for s, n in CUSTOM if s == self._name)})

    def __repr__(self) -> str:
        return f"<operators of {self._name}>"


aten = Namespace("aten")
loaded_libraries: set[str] = set()


def load_library(path: Any) -> None:
    """Load a compiled library, which defines operators by ``TORCH_LIBRARY`` while it is loaded.

    Args:
        path: the file. Those of torchvision and torchaudio are linked against PyTorch's own runtime; their
            operators exist here too, and the file itself is not loaded.

    Raises:
        OSError: the file cannot be loaded, also because it is linked against PyTorch.
        ImportError: it holds operators that were generated from YAML for another version of flambeau.
        RuntimeError: its ``TORCH_LIBRARY`` reports a mistake.
    """
    from flambeau.library._compiled import load

    load(Path(path))
    loaded_libraries.add(str(path))


def _load_beside(library: str, module: str) -> Namespace:
    """Load the compiled operators that lie beside a generated module, and return their namespace."""
    folder = Path(module).parent
    found = sorted(folder.glob("_native*.so"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise ImportError(
            f"{library}: expected one file _native*.so in {folder}, got {names}: build the extension"
        )
    load_library(found[0])
    return __getattr__(library)


def import_module(module: str) -> None:
    """Import a Python module that defines operators."""
    from importlib import import_module

    import_module(module)


def __getattr__(name: str) -> Namespace:
    """Any name is a namespace, which may be empty as yet."""
    if name.startswith("__"):
        raise AttributeError(name)
    made = globals()[name] = Namespace(name)
    return made


def packet_of(name: str) -> OverloadPacket:
    """Return the operator of a name in the dispatcher without an overload: "relu", "my_ops::twice"."""
    space, mark, base = name.rpartition("::")
    return getattr(getattr(sys.modules[__name__], space) if mark else aten, base)


def overload_of(entry: str) -> Overload:
    """Return the overload of an operator of the dispatcher: "add.Tensor", "relu", "my_ops::twice"."""
    name, _, overload = entry.partition(".")
    return getattr(packet_of(name), overload or "default")
