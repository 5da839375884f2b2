"""script: a module or function that runs as it is written, shows its code, and can be saved."""

from __future__ import annotations

import functools
import inspect
import sys
import textwrap
import weakref
from typing import Any

from flambeau._surface import jit_internal as marks
from flambeau.fx import symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.jit import _state
from flambeau.nn import Module
from flambeau.nn.parameter import is_lazy

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptModule", "script", "script_method"]

_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


class Error(RuntimeError):
    """Exception for calls that a scripted module does not allow, such as those of methods marked as unused.

    Example:
        >>> class Partial(flambeau.nn.Module):
        ...     def forward(self, x):
        ...         return self.missing(x)
        ...     @flambeau.jit.unused
        ...     def missing(self, x):
        ...         return x
        >>> try:
        ...     flambeau.jit.script(Partial())(flambeau.ones(1))
        ... except flambeau.jit.Error:
        ...     print("unused")
        unused
    """


def _traced(program: Any) -> Any:
    with marks.running("scripting"):
        return symbolic_trace(program)


class answer:
    """A property that parameters, buffers and modules of the same name override."""

    def __init__(self, function: Any) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        for table in ("_parameters", "_buffers", "_modules"):
            if self.name in instance.__dict__.get(table, ()):
                return instance.__dict__[table][self.name]
        return self.function(instance)


class _Shown:
    """Code and graph of a scripted object."""

    _source: str | None = None

    def _python(self) -> Any:
        """The Python function that calls run."""
        raise NotImplementedError

    def _as_graph(self) -> Any:
        return _traced(self)

    @answer
    def graph(self) -> Graph:
        """The program as a graph of `flambeau.fx`.

        Raises: RuntimeError if its control flow depends on values, so that no graph shows it.
        """
        try:
            found: Graph = self._as_graph().graph
        except Exception as error:
            raise RuntimeError(
                f"graph: this program runs as Python, since it cannot be shown as a graph: {error}"
            ) from error
        return found

    @answer
    def inlined_graph(self) -> Graph:
        """The graph; calls of modules are not inlined."""
        return self.graph

    @answer
    def code(self) -> str:
        """The program as Python: generated from its graph, or the original source if it has no graph."""
        try:
            text: str = self._as_graph().code
            return text
        except Exception:
            return self._written()

    @answer
    def code_with_constants(self) -> tuple[str, Any]:
        """The code and a table of constants, which is empty: the code contains them."""
        return self.code, {}

    def _written(self) -> str:
        try:
            return self._source or textwrap.dedent(inspect.getsource(inspect.unwrap(self._python())))
        except (OSError, TypeError):
            return f"# {self._python()!r}: the source is not available"

    def save(self, f: Any, **kwargs: Any) -> None:
        """Write the program to a file for `jit.load`; `jit.save` describes the keyword _extra_files."""
        from flambeau.jit._serialization import save

        save(self, f, **kwargs)

    def save_to_buffer(self, *args: Any, **kwargs: Any) -> bytes:
        """Return the contents of the file that `save` would write; the argument is `_extra_files`."""
        import io

        from flambeau.jit._serialization import save

        buffer = io.BytesIO()
        save(self, buffer, *args, **kwargs)
        return buffer.getvalue()

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """Return the graph; it is the same for all inputs."""
        return self.graph


class ScriptModule(_Shown, Module):
    """Base class of scripted, traced and loaded modules; programs can subclass it like `nn.Module`.

    Its attributes `graph` and `code` show the program, `save` writes it to a file, and `define` adds methods.

    Example:
        >>> class Scale(flambeau.jit.ScriptModule):
        ...     @flambeau.jit.script_method
        ...     def forward(self, x):
        ...         return 2 * x
        >>> Scale()(flambeau.ones(2))
        tensor([2., 2.])
    """

    _original_name: str | None = None
    _original_class: type | None = None

    @answer
    def original_name(self) -> str:
        """The scripted class's name."""
        return self._original_name or type(self).__name__

    def _python(self) -> Any:
        return type(self).forward

    def define(self, src: str) -> None:
        """Add methods that are written in `src`, as this module's own.

        Raises: RuntimeError if the text is not Python, or contains anything except functions.
        """
        from flambeau.jit._defined import methods_of

        frame = sys._getframe(1)
        found = methods_of(src, {**frame.f_globals, **frame.f_locals})
        members = {name: _inside(function) for name, function in found.items()}
        if "forward" in found:
            members["_source"] = textwrap.dedent(src)
        self.__class__ = type(
            type(self).__name__, (type(self),), {"__module__": type(self).__module__, **members}
        )

    def forward_magic_method(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method such as ``__len__`` if the scripted class defines it; else NotImplementedError."""
        found = getattr(type(self), method_name, None)
        if found is None or found is getattr(ScriptModule, method_name, None):
            raise NotImplementedError(f"{self.original_name} does not define {method_name}")
        return found(self, *args, **kwargs)

    def get_debug_state(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error: programs have no graph executor whose state could be shown."""
        raise RuntimeError(
            "get_debug_state: programs run as Python and have no graph executor; inspect the code instead"
        )


class RecursiveScriptModule(ScriptModule):
    """Class of the modules that `script` returns.

    Each scripted class has its own subclass, which derives from this class and the original one.

    Example:
        >>> scripted = flambeau.jit.script(flambeau.nn.ReLU())
        >>> isinstance(scripted, flambeau.jit.RecursiveScriptModule)
        True
    """

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


class ScriptFunction(_Shown):
    """Class of the functions that `script` and `trace` return.

    Args:
        function: the function in Python.
        source: its text, for a function that has no source file.
        graph_module: the recorded program, for a traced function; None: calls run `function`.

    Example:
        >>> traced = flambeau.jit.trace(lambda x: x + 1, flambeau.ones(1))
        >>> isinstance(traced, flambeau.jit.ScriptFunction)
        True
    """

    def __init__(self, function: Any, source: str | None = None, graph_module: Any = None) -> None:
        self._function, self._source, self._graph_module = function, source, graph_module
        functools.update_wrapper(self, function, updated=())
        self.name = getattr(function, "__name__", type(function).__name__)
        self.qualified_name = f"__torch__.{self.name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._graph_module is not None:
            return self._graph_module(*args, **kwargs)
        with marks.running("scripting"):
            return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<ScriptFunction {self.name}>"

    def _python(self) -> Any:
        return self._function

    def _as_graph(self) -> Any:
        return self._graph_module if self._graph_module is not None else _traced(self._function)


_OWN_NAMES = frozenset(name for cls in (_Shown, ScriptModule) for name in vars(cls) if name[:2] != "__")


# --- classes of scripted modules ------------------------------------------------------------------------


def _inside(function: Any) -> Any:
    """Return a method during whose calls `is_scripting()` is True."""

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with marks.running("scripting"):
            return function(self, *args, **kwargs)

    return method


def _as_python(function: Any) -> Any:
    """Return an ignored method, which runs as plain Python."""

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with marks.running("scripting", 0):
            return function(self, *args, **kwargs)

    return method


def _refusing(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise Error(f"{name}: the method is marked as unused, and scripted modules do not have it")

    method.__name__ = name
    return method


def scripted_class(cls: type) -> type:
    """Return the class of scripted modules for a class of modules."""
    if cls not in _classes:
        members: dict[str, Any] = {
            "__module__": cls.__module__,
            "_original_name": cls.__name__,
            "_original_class": cls,
        }
        for name in dir(cls):
            found = inspect.getattr_static(cls, name, None)
            if name in _OWN_NAMES and not issubclass(cls, _Shown):
                members[name] = found
            if not inspect.isfunction(found):
                continue
            modifier = marks.get_torchscript_modifier(found)
            if marks.should_drop(found):
                members[name] = _refusing(name)
            elif modifier == marks.FunctionModifiers.IGNORE:
                members[name] = _as_python(found)
            elif name == "forward" or modifier == marks.FunctionModifiers.EXPORT:
                members[name] = _inside(found)
        _classes[cls] = type("RecursiveScriptModule", (RecursiveScriptModule, cls), members)
    return _classes[cls]


def scripted_module(module: Module, memo: dict[int, Any]) -> Any:
    """Return a scripted module with the same parameters and buffers; submodules are scripted too."""
    if isinstance(module, ScriptModule):
        return module
    if id(module) in memo:
        return memo[id(module)]
    if any(is_lazy(t) for t in (*module._parameters.values(), *module._buffers.values())):
        raise RuntimeError(
            f"script: {type(module).__name__} has uninitialized parameters or buffers; "
            "run a forward pass first"
        )
    cls: Any = scripted_class(type(module))
    made: Any = cls.__new__(cls)
    memo[id(module)] = made
    for name, value in module.__dict__.items():
        made.__dict__[name] = value.copy() if isinstance(value, dict | list | set) else value
    made.__dict__["_modules"] = {
        name: None if child is None else scripted_module(child, memo)
        for name, child in module._modules.items()
    }
    return made


def script(
    obj: Any,
    optimize: None = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """Return a program that computes the same values and can be inspected and saved.

    The program runs as Python, so branches and loops that depend on values behave as without `script`;
    `is_scripting()` is True while it runs. Parameters and buffers are shared with the original; attributes
    are copied when `script` is called.

    Args:
        obj: a module, a function or another callable, a dict or list, or a class.
        optimize: accepted for compatibility.
        _frames_up: accepted for compatibility.
        _rcb: accepted for compatibility.
        example_inputs: accepted for compatibility.
    Returns: a `ScriptModule` for a module, a `ScriptFunction` for a function, a shallow copy of a dict or
        list. A class, a scripted program, and every object while PYTORCH_JIT=0 is set, are returned
        unchanged.
    Raises: RuntimeError for any other object, and for a module with uninitialized parameters.
    See also: jit.trace, jit.save

    Example:
        >>> @flambeau.jit.script
        ... def clipped(x, limit: float = 1.0):
        ...     return x if bool(x.sum() < limit) else x.clamp(max=limit)
        >>> clipped(flambeau.tensor([2.0, 3.0]))
        tensor([1., 1.])
    """
    if not _state._enabled or isinstance(obj, _Shown | type):
        return obj
    if isinstance(obj, Module):
        return scripted_module(obj, {})
    if isinstance(obj, dict | list):
        return type(obj)(obj)
    if inspect.isroutine(obj) or callable(obj):
        if hasattr(obj, "__script_if_tracing_wrapper"):
            obj = obj.__original_fn
        return ScriptFunction(obj)
    raise RuntimeError(f"script: expected a module or a function, got {type(obj).__name__}")


def script_method(fn: Any) -> Any:
    """Mark a method of a subclass of `ScriptModule` as scripted code.

    Args:
        fn: the method.
    Returns: a method that runs `fn`; `is_scripting()` is True while it runs.

    Example:
        >>> class Shift(flambeau.jit.ScriptModule):
        ...     @flambeau.jit.script_method
        ...     def forward(self, x):
        ...         return x + 1
        >>> Shift()(flambeau.zeros(2))
        tensor([1., 1.])
    """
    return _inside(fn)


def interface(obj: Any) -> Any:
    """Mark a class as an interface."""
    return marks.interface(obj)


class CompilationUnit:
    r"""Collection of scripted functions that are defined by source text and read as attributes.

    The text is executed, so it must be trusted.

    Args:
        lang: definitions of functions in Python.
        _frames_up: accepted for compatibility.

    Example:
        >>> unit = flambeau.jit.CompilationUnit("def twice(x):\n    return 2 * x\n")
        >>> unit.twice(flambeau.ones(2))
        tensor([2., 2.])
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._functions: dict[str, Any] = {}
        if lang:
            self.define(lang)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Add definitions. The source is executed, so it must be trusted."""
        import flambeau

        scope: dict[str, Any] = {"torch": flambeau, "flambeau": flambeau}
        exec(compile(textwrap.dedent(lang), "<CompilationUnit>", "exec"), scope)
        functions = {name: f for name, f in scope.items() if inspect.isfunction(f)}
        self._functions.update({name: ScriptFunction(f, lang) for name, f in functions.items()})

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("_functions", {}).get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute {name!r}")
        return found
