"""Programs as plain data, the contents of files that `jit.save` writes.

A value is a pair of a kind and its content. Modules and sources are in lists, and values refer to them by
number, so that shared objects stay shared.
"""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.fx._names import home_of
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.jit._restricted import Window, is_allowed_name, path_of, window_of
from flambeau.jit._script import ScriptFunction
from flambeau.jit._sources import class_source, free_names, function_source, is_own_class
from flambeau.jit.frontend import NotSupportedError
from flambeau.nn import Module

FORMAT = "flambeau.jit 1"
PLAIN = (type(None), bool, int, float, complex, str, Tensor, flambeau.dtype, flambeau.device)
_TABLES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training")


class Writer:
    """Turns a program into plain data."""

    def __init__(self) -> None:
        self.modules: list[dict[str, Any]] = []
        self.units: list[dict[str, Any]] = []
        self._module_numbers: dict[int, int] = {}
        self._unit_numbers: dict[Any, int] = {}
        self._kept: list[Any] = []  # kept alive because `ids` identifies objects by id

    def archive(self, program: Any) -> dict[str, Any]:
        """Return the data of a scripted or traced program."""
        if isinstance(program, ScriptFunction):
            graph = program._graph_module
            root = self.value(graph if graph is not None else program._function)
            kind = "traced function" if graph is not None else "function"
        else:
            root, kind = self.value(program), "module"
        return {"format": FORMAT, "kind": kind, "root": root, "modules": self.modules, "units": self.units}

    # --- values ---------------------------------------------------------------------------------------

    def value(self, value: Any) -> Any:
        """Return the data of a value.

        Raises: NotSupportedError for a value that cannot be saved.
        """
        if isinstance(value, Module):
            return ("module", self.module(value))
        if isinstance(value, PLAIN):
            return ("plain", value)
        if value is ...:
            return ("ellipsis", None)
        if isinstance(value, slice):
            return ("slice", [self.value(part) for part in (value.start, value.stop, value.step)])
        if isinstance(value, flambeau.Size):
            return ("tuple", [self.value(int(item)) for item in value])
        for kind, cls in (("tuple", tuple), ("list", list), ("set", set | frozenset)):
            if isinstance(value, cls) and not hasattr(value, "_fields"):
                return (kind, [self.value(item) for item in value])
        if isinstance(value, dict):
            return ("dict", [[self.value(key), self.value(item)] for key, item in value.items()])
        return self._reference(value)

    def _reference(self, value: Any) -> Any:
        import types

        if isinstance(value, types.ModuleType) and (path := window_of(value)) is not None:
            return ("window", path)
        if isinstance(value, Window):  # a loaded program contains windows
            return ("window", value._path)
        if isinstance(value, flambeau.layout | flambeau.memory_format):
            return ("constant", str(value).rpartition(".")[2])
        if (path := path_of(value)) is not None:
            return ("object", path)
        if isinstance(value, ScriptFunction):
            return self.value(value._function)
        if isinstance(value, types.FunctionType):
            return ("unit", self.function(value))
        if isinstance(value, type) and is_own_class(value):
            return ("unit", self.class_unit(value, {"forward"}))
        raise NotSupportedError(
            f"jit.save: a value of type {type(value).__name__} cannot be saved: {value!r:.80}"
        )

    # --- sources ----------------------------------------------------------------------------------------

    def function(self, function: Any) -> int:
        """Add a function's source and return its number."""
        import inspect

        function = inspect.unwrap(function)
        if function not in self._unit_numbers:
            unit = self._new_unit(function)
            unit["source"] = function_source(function)
            self._add_names(unit, function)
        return self._unit_numbers[function]

    def class_unit(self, cls: type, wanted: set[str]) -> int:
        """Add a class's source and return its number; bases come first."""
        if cls in self._unit_numbers:
            return self._unit_numbers[cls]
        names: dict[str, Any] = {}
        for number, base in enumerate(cls.__bases__):
            if not issubclass(base, Module):
                raise NotSupportedError(
                    f"jit.save: expected Modules as bases, got {base.__name__} as base of {cls.__name__}"
                )
            own = is_own_class(base)
            names[f"Base{number}"] = ("unit", self.class_unit(base, wanted)) if own else layer_path(base)
        source, functions = class_source(cls, wanted, list(names))
        unit = self._new_unit(cls)
        unit.update(source=source, names=names, constants=self._class_constants(cls))
        unit["exports"] = sorted(exported(cls) & set(vars(cls)))
        for function in functions:
            self._add_names(unit, function)
        return self._unit_numbers[cls]

    def _new_unit(self, key: Any) -> dict[str, Any]:
        unit: dict[str, Any] = {"names": {}, "constants": {}}
        self._unit_numbers[key] = len(self.units)
        self.units.append(unit)
        return unit

    def _add_names(self, unit: dict[str, Any], function: Any) -> None:
        for name, value in free_names(unit["source"], function):
            if name not in unit["names"]:
                unit["names"][name] = self.value(value)

    def _class_constants(self, cls: type) -> dict[str, Any]:
        found = {}
        for name, value in vars(cls).items():
            if (
                is_allowed_name(name)
                and isinstance(value, (*PLAIN, tuple, list, dict))
                and not callable(value)
            ):
                found[name] = self.value(value)
        return found

    # --- modules ----------------------------------------------------------------------------------------

    def module(self, module: Module) -> int:
        """Add a module and return its number."""
        if id(module) in self._module_numbers:
            return self._module_numbers[id(module)]
        number = self._module_numbers[id(module)] = len(self.modules)
        self._kept.append(module)
        record: dict[str, Any] = {"training": module.training}
        self.modules.append(record)
        record["class"] = self._class_of(module, record)
        record["parameters"] = dict(module._parameters)
        record["buffers"] = dict(module._buffers)
        record["hidden"] = sorted(module._non_persistent_buffers_set)
        record["modules"] = {
            name: None if child is None else self.module(child) for name, child in module._modules.items()
        }
        record["attributes"] = self._attributes(module)
        return number

    def _class_of(self, module: Module, record: dict[str, Any]) -> Any:
        if isinstance(module, GraphModule):
            record["graph"] = self.graph(module)
            record["methods"] = {
                name: self.module(method) for name, method in vars(module).get("_traced_methods", {}).items()
            }
            return ("graph", type(module).__name__)
        cls = vars(type(module)).get("_original_class") or type(module)
        if not is_own_class(cls):
            return layer_path(cls)
        return ("unit", self.class_unit(cls, {"forward", *exported(cls)}))

    def _attributes(self, module: Module) -> dict[str, Any]:
        """Return the plain attributes that can be saved; a loaded program that uses another one fails."""
        found = {}
        for name, value in module.__dict__.items():
            hooks = name.endswith("_hooks") or name.startswith(("_load_state", "_state_dict", "_is_full"))
            if name in _TABLES or hooks or not is_allowed_name(name) or name in _OF_GRAPHS:
                continue
            try:
                found[name] = self.value(value)
            except NotSupportedError:
                continue
        return found

    # --- graphs -----------------------------------------------------------------------------------------

    def graph(self, module: GraphModule) -> list[Any]:
        """Return the nodes of a graph."""
        from flambeau.fx.node import map_aggregate

        places = {node: place for place, node in enumerate(module.graph.nodes)}

        class Reference:
            def __init__(self, node: Node) -> None:
                self.place = places[node]

        def data(arg: Any) -> Any:
            if isinstance(arg, Reference):
                return ("node", arg.place)
            if isinstance(arg, tuple | list) and not hasattr(arg, "_fields"):
                return ("tuple" if isinstance(arg, tuple) else "list", [data(item) for item in arg])
            if isinstance(arg, dict):
                return ("dict", [[self.value(key), data(item)] for key, item in arg.items()])
            if isinstance(arg, slice):
                return ("slice", [data(part) for part in (arg.start, arg.stop, arg.step)])
            return self.value(arg)

        def marked(arg: Any) -> Any:
            return map_aggregate(arg, lambda leaf: Reference(leaf) if isinstance(leaf, Node) else leaf)

        nodes = []
        for node in module.graph.nodes:
            target = node.target if isinstance(node.target, str) else self.value(node.target)
            kwargs = {key: data(marked(arg)) for key, arg in node.kwargs.items()}
            nodes.append([node.name, node.op, target, [data(marked(arg)) for arg in node.args], kwargs])
        return nodes


_OF_GRAPHS = frozenset(
    "_graph _code _lineno_map _tracer_cls _tracer_extras meta _in_spec _out_spec _traced_methods "
    "_original_name".split()
)


def exported(cls: type) -> set[str]:
    """Return the names of methods that are marked as exported."""
    from flambeau._surface import jit_internal as marks

    names = [name for name in dir(cls) if callable(getattr(cls, name, None))]
    return {
        n for n in names if marks.get_torchscript_modifier(getattr(cls, n)) == marks.FunctionModifiers.EXPORT
    }


def layer_path(cls: type) -> Any:
    """Return the data of a layer's class."""
    return ("layer", f"{home_of(cls)}.{cls.__qualname__}")
