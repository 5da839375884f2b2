"""Makes programs from plain data; the inverse of `_archive`."""

from __future__ import annotations

import importlib
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._surface import jit_internal as marks
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.jit._archive import FORMAT, PLAIN
from flambeau.jit._restricted import Window, require_name, require_path, resolve, run
from flambeau.jit._script import ScriptFunction, scripted_class
from flambeau.jit._trace import TopLevelTracedModule
from flambeau.jit.frontend import NotSupportedError
from flambeau.nn import Module, Parameter


def _bad(what: str) -> NotSupportedError:
    return NotSupportedError(f"jit.load: the file is damaged, or was not written by jit.save: {what}")


class Reader:
    """Makes a program from plain data, all of which it checks."""

    def __init__(self, data: Any) -> None:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise _bad("it holds no program")
        self.data = data
        self._modules: dict[int, Any] = {}
        self._units: dict[int, Any] = {}

    def program(self) -> Any:
        """Return the program."""
        found = self.value(self.data.get("root"))
        kind = self.data.get("kind")
        if kind == "traced function" and isinstance(found, GraphModule):
            return ScriptFunction(found.forward, graph_module=found)
        if kind == "function" and callable(found):
            return ScriptFunction(found, source=getattr(found, "_jit_definition", None))
        if kind == "module" and isinstance(found, Module):
            return found
        raise _bad(f"unknown kind {str(kind)[:40]!r}")

    def _entry(self, table: str, number: Any) -> dict[str, Any]:
        entries = self.data.get(table)
        if not isinstance(entries, list) or type(number) is not int or not 0 <= number < len(entries):
            raise _bad(f"no {table} {str(number)[:40]}")
        if not isinstance(entries[number], dict):
            raise _bad(f"{table} {number} is not a record")
        found: dict[str, Any] = entries[number]
        return found

    def _dict(self, record: dict[str, Any], name: str) -> dict[str, Any]:
        found = record.get(name, {})
        if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
            raise _bad(f"{name} is not a table of names")
        return found

    # --- values -------------------------------------------------------------------------------------

    def value(self, data: Any, nodes: list[Any] | None = None) -> Any:
        """Make a value from its data; `nodes` are the nodes of the graph that contains the value."""
        if not isinstance(data, tuple | list) or len(data) != 2 or not isinstance(data[0], str):
            raise _bad("a value is not a pair")
        kind, content = data
        if kind == "plain" and isinstance(content, PLAIN):
            return content
        if kind == "ellipsis":
            return ...
        if kind in ("tuple", "list", "set", "slice", "dict") and isinstance(content, list):
            return self._container(kind, content, nodes)
        if kind == "node" and nodes is not None and type(content) is int and 0 <= content < len(nodes):
            return nodes[content]
        if kind == "constant" and content in _CONSTANTS:
            return getattr(flambeau, content)
        makers: dict[str, Any] = {
            "window": Window, "object": resolve, "unit": self.unit, "module": self.module, "layer": _layer
        }  # fmt: skip
        if kind in makers and isinstance(content, str | int):
            return makers[kind](content)
        raise _bad(f"unknown value {kind[:40]!r}")

    def _container(self, kind: str, content: list[Any], nodes: list[Any] | None) -> Any:
        if kind == "dict":
            if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in content):
                raise _bad("a dict is not a list of pairs")
            return {self.value(key, nodes): self.value(item, nodes) for key, item in content}
        items = [self.value(item, nodes) for item in content]
        if kind == "slice":
            if len(items) != 3:
                raise _bad("a slice has three parts")
            return slice(*items)
        return {"tuple": tuple, "list": list, "set": set}[kind](items)

    # --- sources ------------------------------------------------------------------------------------

    def unit(self, number: Any) -> Any:
        """Return the function or class of a source."""
        if number in self._units:
            return self._units[number]
        record = self._entry("units", number)
        source = record.get("source")
        if not isinstance(source, str):
            raise _bad("a source is not a string")
        scope: dict[str, Any] = {}
        named = self._dict(record, "names")
        for name, data in named.items():
            require_name(name, "a variable")
            if name.startswith("Base"):
                scope[name] = self.value(data)
        found = run(source, scope)
        self._units[number] = found
        if isinstance(found, type):
            if not issubclass(found, Module):
                raise _bad("a class is not a Module")
            for name, data in self._dict(record, "constants").items():
                setattr(found, require_name(name, "an attribute"), self.value(data))
            for name in record.get("exports", ()):
                marks.export(vars(found)[name])
        else:
            found._jit_definition = source
        for member in vars(found).values() if isinstance(found, type) else ():
            self._keep_source(member, source)
        for name, data in named.items():  # after the definition: functions may call each other
            scope[name] = self.value(data)
        return found

    def _keep_source(self, member: Any, source: str) -> None:
        """Keep the source of a loaded class, so that it can be saved again."""
        import ast

        function = getattr(member, "fget", getattr(member, "__func__", member))
        if hasattr(function, "__code__"):
            for part in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
                if getattr(part, "name", None) == function.__name__:
                    function._jit_definition = ast.unparse(part)

    # --- modules ------------------------------------------------------------------------------------

    def module(self, number: Any) -> Any:
        """Return a module."""
        if number in self._modules:
            if self._modules[number] is None:
                raise _bad("a module contains itself")
            return self._modules[number]
        record = self._entry("modules", number)
        self._modules[number] = None
        kind = record.get("class")
        if isinstance(kind, tuple | list) and len(kind) == 2 and kind[0] == "graph":
            made = self._traced(record, str(kind[1]))
        else:
            cls = self.value(kind)
            if not isinstance(cls, type) or not issubclass(cls, Module):
                raise _bad("a module's class is not a Module")
            own: Any = scripted_class(cls)
            made = own.__new__(own)
            Module.__init__(made)
            self._fill(made, record)
        made.training = bool(record.get("training", True))
        self._modules[number] = made
        return made

    def _fill(self, made: Module, record: dict[str, Any]) -> None:
        for name, parameter in self._dict(record, "parameters").items():
            if parameter is not None and not isinstance(parameter, Tensor):
                raise _bad("a parameter is not a tensor")
            if parameter is not None and not isinstance(parameter, Parameter):
                parameter = Parameter(parameter)
            made._parameters[require_name(name, "a parameter")] = parameter
        for name, buffer in self._dict(record, "buffers").items():
            if buffer is not None and not isinstance(buffer, Tensor):
                raise _bad("a buffer is not a tensor")
            made._buffers[require_name(name, "a buffer")] = buffer
        made._non_persistent_buffers_set = {str(name) for name in record.get("hidden", ())}
        for name, child in self._dict(record, "modules").items():
            made._modules[require_name(name, "a module")] = None if child is None else self.module(child)
        for name, data in self._dict(record, "attributes").items():
            if require_name(name, "an attribute") in _RESERVED:
                raise _bad(f"an attribute is called {name}")
            made.__dict__[name] = self.value(data)

    def _traced(self, record: dict[str, Any], name: str) -> Any:
        root = Module()
        self._fill(root, record)
        made = TopLevelTracedModule(root, self._graph(record.get("graph")), require_name(name, "a class"))
        for table in ("_parameters", "_buffers", "_modules"):
            made.__dict__[table] = root.__dict__[table]
        made._non_persistent_buffers_set = root._non_persistent_buffers_set
        made.graph.lint()
        methods = self._dict(record, "methods")
        made.__dict__["_traced_methods"] = {
            require_name(n, "a method"): self.module(number) for n, number in methods.items()
        }
        return made

    def _graph(self, data: Any) -> Graph:
        if not isinstance(data, list):
            raise _bad("a graph is not a list")
        graph = Graph()
        nodes: list[Any] = []
        for entry in data:
            if not isinstance(entry, list | tuple) or len(entry) != 5:
                raise _bad("a node has five parts")
            name, op, target, args, kwargs = entry
            if not isinstance(name, str) or not isinstance(args, list) or not isinstance(kwargs, dict):
                raise _bad("a node has a name, arguments, and arguments by name")
            if not all(isinstance(key, str) and key.isidentifier() for key in kwargs):
                raise _bad("an argument has no name")
            positional = tuple(self.value(arg, nodes) for arg in args)
            named = {key: self.value(arg, nodes) for key, arg in kwargs.items()}
            nodes.append(graph.create_node(op, self._target(op, target, positional), positional, named, name))
        graph.lint()
        return graph

    def _target(self, op: Any, target: Any, args: tuple[Any, ...]) -> Any:
        if op == "call_function":
            found = self.value(target)
            if found is getattr and (len(args) != 2 or not isinstance(args[1], str)):
                raise _bad("getattr needs the name of an attribute")
            if found is getattr:
                require_name(args[1], "an attribute")
            if not callable(found):
                raise _bad("a function cannot be called")
            return found
        if op in ("call_module", "get_attr"):
            return require_path(target)
        if op == "call_method":
            return require_name(target, "a method")
        if op == "placeholder" and isinstance(target, str) and target.lstrip("*").isidentifier():
            return target
        if op == "output":
            return "output"
        raise _bad(f"unknown step {str(op)[:40]!r}")


_CONSTANTS = frozenset(
    "strided contiguous_format preserve_format channels_last channels_last_3d sparse_coo".split()
)
_RESERVED = frozenset(("forward", "training", "_parameters", "_buffers", "_modules", "_graph"))


def _layer(path: Any) -> type:
    """Return a layer's class, given the path of its definition."""
    home, _, name = str(path).rpartition(".")
    if home != "flambeau.nn" and not home.startswith("flambeau.nn."):
        raise _bad(f"{str(path)[:80]!r} is not a layer")
    try:
        found = getattr(importlib.import_module(home), name)
    except (ImportError, AttributeError) as error:
        raise _bad(f"there is no layer {str(path)[:80]!r}") from error
    if not isinstance(found, type) or not issubclass(found, Module):
        raise _bad(f"{str(path)[:80]!r} is not a layer")
    return found
