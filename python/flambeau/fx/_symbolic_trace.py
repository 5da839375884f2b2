"""Tracer: runs a program on proxies and records its operations as a graph."""

from __future__ import annotations

import functools
import inspect
import math
import threading
import types
import typing
from collections import OrderedDict
from collections.abc import Callable
from itertools import chain
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.fx import _placeholders
from flambeau.fx._names import home_of
from flambeau.fx._placeholders import PH, PHBase, PHWithMeta
from flambeau.fx._wrapping import Patches, generated_names, recording, registered, wrap
from flambeau.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import map_aggregate
from flambeau.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from flambeau.nn import Module, Parameter
from flambeau.nn.modules.module import native_slots
from flambeau.utils import _pytree as pytree

__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap"]

_tracing = threading.local()
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_proxyable_classes: dict[type, None] = {}


def is_fx_tracing() -> bool:
    """Whether a program is being traced in this thread."""
    return getattr(_tracing, "depth", 0) > 0


is_fx_symbolic_tracing = is_fx_tracing


def is_fx_tracing_warning() -> None:
    """Do nothing: `is_fx_tracing` needs no warning here."""


def _assert_is_none(value: Any, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


def _find_proxy(*values: Any) -> Proxy | None:
    """Return a proxy inside the values, or None."""
    found: list[Proxy] = []

    def look(leaf: Any) -> Any:
        if isinstance(leaf, Proxy):
            found.append(leaf)
        return leaf

    map_aggregate(values, look)
    return found[0] if found else None


class ProxyableClassMeta(type):
    """Metaclass of classes whose construction from proxies is recorded as one call.

    Args:
        name: the name of the class.
        bases: its base classes.
        attrs: its attributes.

    Example:
        >>> class Pair(metaclass=flambeau.fx.ProxyableClassMeta):
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> Pair(1, 2).b
        2
    """

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class Tracer(TracerBase):
    """Records the operations of a module or function as a graph.

    Args:
        autowrap_modules: Python modules whose functions become nodes when they are called with proxies.
        autowrap_functions: further functions that become nodes when they are called with proxies.
        param_shapes_constant: sizes of parameters are numbers instead of nodes, so that programs can
            branch on them.

    Example:
        >>> class Shallow(flambeau.fx.Tracer):
        ...     def is_leaf_module(self, m, module_qualified_name):
        ...         return True
        >>> layers = flambeau.nn.Sequential(flambeau.nn.Sequential(flambeau.nn.ReLU()))
        >>> [node.target for node in Shallow().trace(layers).nodes]
        ['input', '0', 'output']
    """

    root: Any
    root_module_name: str
    tensor_attrs: dict[Tensor, str]

    def __init__(
        self,
        autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        named = chain.from_iterable(vars(module).items() for module in autowrap_modules)
        public = [(name, f) for name, f in named if not name.startswith("_") and callable(f)]
        self._autowrap_function_ids = {id(f) for _, f in public} | {id(f) for f in autowrap_functions}
        self._autowrap_search: list[types.ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    # --- what subclasses override -----------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of this module is one node; otherwise the tracer traces its forward.

        Default: True for layers of `flambeau.nn` except Sequential.
        """
        home = home_of(type(m))
        ours = home == "flambeau.nn" or home.startswith(("flambeau.nn.", "flambeau.ao.nn."))
        return ours and not isinstance(m, flambeau.nn.Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the dotted path of a module inside the root.

        Raises: NameError if the root does not contain it.
        """
        if self.submodule_paths is not None and mod in self.submodule_paths:
            path = self.submodule_paths[mod]
            if path:
                return path
        for name, child in self.root.named_modules():
            if child is mod:
                return str(name)
        raise NameError(
            "Tracer.path_of_module: expected a module installed as a submodule of the root, got "
            f"{type(mod).__name__}"
        )

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Handle the call of a module: add a node, or run its `forward`.

        Args:
            m: the module.
            forward: runs it.
            args: its arguments.
            kwargs: its keyword arguments.
        """
        path = self.path_of_module(m)
        calls = self.num_calls.get(path, 0)
        self.num_calls[path] = calls + 1
        key = path if calls == 0 else f"{path}@{calls}"
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return the value of a module's attribute, or a proxy of it, while a program is traced.

        Args:
            attr: its name.
            attr_val: its value.
            parameter_proxy_cache: proxies that were made already, by path.
        """
        if isinstance(attr_val, Parameter):
            return self._proxy_of(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._proxy_of(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _proxy_of(self, value: Any, named: Any, cache: dict[str, Proxy]) -> Any:
        for path, candidate in named:
            if candidate is value:
                if path not in cache:
                    cache[path] = self._attribute_proxy(path, value)
                return cache[path]
        return value

    def _attribute_proxy(self, path: str, value: Any) -> Any:
        # Subclasses may override create_proxy with the parameters it had before it took a factory.
        options: dict[str, Any] = {}
        if self.param_shapes_constant and isinstance(value, Parameter):
            options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, path, value)
        return self.create_proxy("get_attr", path, (), {}, **options)

    def create_arg(self, a: Any) -> Any:
        """Turn a value into an argument of a node; tensors and modules become attributes of the root."""
        if isinstance(a, Parameter):
            for path, parameter in self.root.named_parameters():
                if parameter is a:
                    return self.create_node("get_attr", path, (), {})
            return self._constant(a, "_param_constant")
        if isinstance(a, Tensor):
            for path, buffer in self.root.named_buffers():
                if buffer is a:
                    return self.create_node("get_attr", path, (), {})
            return self._constant(a, "_tensor_constant")
        if isinstance(a, Module):
            return self.create_node("get_attr", self._path_or_constant(a), (), {})
        if isinstance(a, _C._CustomObject):
            return self._object(a)
        if type(a) in _proxyable_classes:
            return self._constant(a, f"_{type(a).__name__}_constant_")
        return super().create_arg(a)

    def _path_or_constant(self, module: Module) -> str:
        try:
            return self.path_of_module(module)
        except NameError:
            return self._new_attribute("_module_constant", module)

    def _object(self, value: Any) -> Any:
        """Make an object of a class of C++ an attribute of the root, unless it is one."""
        wanted = _C._custom_object_id(value)
        for name, held in vars(self.root).items():
            if isinstance(held, _C._CustomObject) and _C._custom_object_id(held) == wanted:
                return self.create_node("get_attr", name, (), {})
        return self._constant(value, "_torchbind_obj")

    def _constant(self, value: Any, prefix: str) -> Any:
        path = self.tensor_attrs.get(value) if isinstance(value, Tensor) else None
        if path is None:
            path = self._new_attribute(prefix, value)
            if isinstance(value, Tensor):
                self.tensor_attrs[value] = path
        return self.create_node("get_attr", path, (), {})

    def _new_attribute(self, prefix: str, value: Any) -> str:
        name = self.get_fresh_qualname(prefix)
        setattr(self.root, name, value)
        return name

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name that no attribute of the root has: `prefix` and a number."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # --- tracing ------------------------------------------------------------------------------------

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """Run a module or function on proxies and return the graph.

        Args:
            root: the program.
            concrete_args: values of arguments that are not inputs of the graph, by name; `PH` inside a
                container marks an input.
        Raises: TraceError if control flow depends on values.
        """
        is_module = isinstance(root, Module)
        if is_module:
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"Tracer.trace: expected a root with a method {self.traced_func_name!r}, got "
                    f"{type(root).__name__}"
                )
            function = getattr(type(root), self.traced_func_name)
            self.root, self.root_module_name = root, root._get_name()  # type: ignore[union-attr]
            self.submodule_paths = {module: name for name, module in self.root.named_modules()}
        else:
            function = root
            self.root, self.root_module_name = Module(), getattr(root, "__name__", type(root).__name__)
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        if hasattr(function, "__code__"):
            self.graph._co_fields = {"co_name": function.__code__.co_name}  # type: ignore[attr-defined]
        self._collect_tensors()
        _tracing.depth = getattr(_tracing, "depth", 0) + 1
        try:
            self._record(function, is_module, concrete_args)
        finally:
            _tracing.depth -= 1
            self.submodule_paths = None
        return self.graph

    def _collect_tensors(self) -> None:
        """Note the tensors that are plain attributes of modules."""
        self.tensor_attrs = {}
        for path, module in self.root.named_modules():
            for name, value in module.__dict__.items():
                if isinstance(value, Tensor):
                    self.tensor_attrs[value] = f"{path}.{name}".lstrip(".")

    def _record(self, function: Any, is_module: bool, concrete_args: Any) -> None:
        function, args = self.create_args_for_root(function, is_module, concrete_args)
        parameter_proxies: dict[str, Proxy] = {}
        try:
            with Patches() as patches:
                self._patch_modules(patches, parameter_proxies)
                self._patch_functions(patches, function)
                result = self.create_arg(function(*args))
        finally:
            native_slots.use(Module)
        annotation = _annotations(function).get("return")
        self.create_node("output", "output", (result,), {}, type_expr=annotation)

    def _patch_modules(self, patches: Patches, cache: dict[str, Proxy]) -> None:
        """Redirect calls of modules and reads of their attributes to this tracer."""
        call, read, thread = Module.__call__, Module.__getattr__, threading.get_ident()
        tracer = self

        @functools.wraps(read)
        def getattr_of_module(mod: Module, attr: str) -> Any:
            value = read(mod, attr)
            return tracer.getattr(attr, value, cache) if threading.get_ident() == thread else value

        @functools.wraps(call)
        def call_of_module(mod: Module, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread:
                return call(mod, *args, **kwargs)

            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(mod, *args, **kwargs)

            tracer._patch_functions(patches, getattr(mod, "forward", mod))
            return tracer.call_module(mod, forward, args, kwargs)

        patches.attribute(Module, "__getattr__", getattr_of_module)
        patches.attribute(Module, "__call__", call_of_module)

    def _patch_functions(self, patches: Patches, function: Any) -> None:
        """Make wrapped functions record their calls, in the globals of the function and of Python modules."""
        for scope, name in chain(registered(), generated_names(function)):
            self._patch_name(patches, scope, name)
        own: dict[str, Any] = getattr(function, "__globals__", {})
        for name, value in list(own.items()):
            if id(value) in self._autowrap_function_ids and callable(value):
                self._patch_name(patches, own, name)
        for module in self._autowrap_search:
            for name, value in list(vars(module).items()):
                if id(value) in self._autowrap_function_ids:
                    patches.attribute(module, name, recording(value, _find_proxy))

    def _patch_name(self, patches: Patches, scope: Any, name: str) -> None:
        import builtins

        value = scope.get(name, getattr(builtins, name, None))
        if value is not None and not getattr(value, "_is_recording", False):
            patches.in_scope(scope, name, recording(value, _find_proxy))

    # --- arguments of the root ------------------------------------------------------------------------

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Return a function and proxies for its positional arguments.

        Args:
            root_fn: the traced function.
            is_module: whether its first argument is the module.
            concrete_args: see `trace`.
        """
        analysed = inspect.unwrap(root_fn)
        # In the order of the function's local variables: *args and **kwargs come last.
        named = inspect.signature(analysed).parameters.values()
        parameters = sorted(named, key=lambda p: len(_STARS.get(p.kind, "")))
        args: list[Any] = []
        if is_module:
            if not parameters:
                raise RuntimeError(
                    f"Tracer.trace: expected a method that takes self, got {root_fn} without arguments"
                )
            args.append(self.root)
            parameters = parameters[1:]
        concrete = _by_name(concrete_args, parameters)
        args += [self._placeholder(p, concrete, analysed) for p in parameters]
        call = _placeholders.with_positional_arguments(root_fn, analysed, len(args))
        inputs = args[1:] if is_module else args
        if concrete and not all(pytree.tree_is_leaf(arg) for arg in inputs):
            call = self._flattening(call, [p.name for p in parameters], inputs)
        return call, args

    def _placeholder(self, parameter: inspect.Parameter, concrete: dict[str, Any], fn: Any) -> Any:
        name = parameter.name
        default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
        if name in concrete:
            return _placeholders.specialised(self, name, default, concrete[name])
        stars = _STARS.get(parameter.kind, "")
        annotation = None if stars else _annotations(fn).get(name)
        return self.create_proxy("placeholder", f"{stars}{name}", default, {}, type_expr=annotation)

    def _flattening(self, function: Any, names: list[str], inputs: list[Any]) -> Any:
        """Make the generated code flatten containers like `inputs`, and rebuild the result."""
        in_spec = pytree.tree_structure(tuple(inputs))
        tracer = self

        @functools.wraps(function)
        def flat(*args: Any) -> Any:
            leaves, out_spec = pytree.tree_flatten(function(*args))
            tracer.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, in_spec, out_spec))
            return leaves

        return flat


def _by_name(concrete_args: Any, parameters: list[inspect.Parameter]) -> dict[str, Any]:
    if isinstance(concrete_args, tuple):
        if len(concrete_args) != len(parameters):
            raise RuntimeError(
                f"trace: expected {len(parameters)} concrete arguments, got {len(concrete_args)}"
            )
        return {p.name: value for p, value in zip(parameters, concrete_args, strict=True)}
    return dict(concrete_args or {})


def _annotations(function: Any) -> dict[str, Any]:
    """Return the annotations by name, with annotations in text form resolved where possible."""
    function = inspect.unwrap(function)
    raw = getattr(function, "__annotations__", {})
    if home_of(function).startswith("flambeau."):  # Any gives no information
        raw = {name: value for name, value in raw.items() if value not in ("Any", Any)}
    if not any(isinstance(value, str) for value in raw.values()):
        return dict(raw)
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # the text may use names that exist only for type checkers
        return {name: value for name, value in raw.items() if not isinstance(value, str)}
    return {name: hint for name, hint in hints.items() if name in raw}


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Create the graph of a module or function as a GraphModule.

    Args:
        root: the program; its control flow must not depend on the values of its inputs.
        concrete_args: values that arguments are fixed to, by name.

    Returns: the GraphModule.

    Raises: TraceError where control flow depends on values.

    Example:
        >>> print(flambeau.fx.symbolic_trace(lambda x: flambeau.relu(x) + 1).code.strip())
        def forward(self, x):
            relu = flambeau.relu(x);  x = None
            add = relu + 1;  relu = None
            return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)
