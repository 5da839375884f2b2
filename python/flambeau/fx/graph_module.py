"""GraphModule: a Module whose forward is generated from a graph."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.fx._attributes import assign_attribute as _assign_attr_at
from flambeau.fx._attributes import copy_attribute as _copy_attr
from flambeau.fx._folder import write_folder
from flambeau.fx._names import with_root
from flambeau.fx._wrapping import GENERATED_NAMES
from flambeau.fx.graph import Graph, PythonCode, _BoxedCodeGen, _PyTreeCodeGen
from flambeau.nn import Module

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]

_serial = itertools.count()
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # in a module's meta: attributes for its copies
_HOOKS = ("_create_node_hooks", "_erase_node_hooks", "_replace_hooks", "_deepcopy_hooks")


class _Sources:
    """Generated source texts, registered for tracebacks and debuggers."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, text: str) -> str:
        """Register a text, and return its virtual file name."""
        name = f"<eval_with_key>.{next(_serial)}"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        return name

    def drop(self, name: str | None) -> None:
        if name is not None:
            linecache.cache.pop(name, None)


_loader = _Sources()


def _exec_with_source(src: str, globals: dict[str, Any], co_fields: Any = None) -> str:
    name = _loader.add(src)
    exec(compile(src, name, "exec"), globals)
    return name


def _method_from_src(method_name: str, src: str, globals: dict[str, Any], co_fields: Any = None) -> Any:
    scope = {**globals, GENERATED_NAMES: set(), "__name__": "flambeau.fx.generated"}
    name = _exec_with_source(src, scope, co_fields)
    method = scope[method_name]
    method.__dict__["_source_name"] = name
    return method


def _forward_from_src(src: str, globals: dict[str, Any], co_fields: Any = None) -> Any:
    return _method_from_src("forward", src, globals, co_fields)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    _assign_attr_at(from_obj, to_module, target)


class GraphModule(Module):
    """A Module that runs a graph.

    Each instance has its own class, which holds the generated ``forward``. Call `recompile` after a change of
    the graph.

    Args:
        *args: ``root``, a module whose attributes the graph refers to, or a dict from dotted paths to
            attributes; ``graph``, which is not copied; ``class_name``, the name under which the module is
            printed. Default: "GraphModule".
        **kwargs: the same arguments by name.

    Shape: that of the graph's placeholders and of its output.

    Raises: RuntimeError if the graph refers to something that `root` does not have.

    Example:
        >>> graph = flambeau.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.output(graph.call_function(flambeau.neg, (x,)))
        >>> flambeau.fx.GraphModule({}, graph)(flambeau.ones(2))
        tensor([-1., -1.])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        base = next(c for c in cls.__mro__ if "_is_generated" not in c.__dict__)
        generated = type(base.__name__, (base,), {"_is_generated": True, "__module__": base.__module__})
        generated.__qualname__ = base.__qualname__
        return super().__new__(generated)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            self._take_targets(root, graph)
        else:
            raise RuntimeError(f"GraphModule: expected a Module or a dict as root, got {type(root)}")
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        noted: Any = getattr(root, "meta", None)
        self.meta: dict[str, Any] = dict(noted) if isinstance(noted, dict) else {}
        for name, value in self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(self, name, value)

    def _take_targets(self, root: dict[str, Any], graph: Graph) -> None:
        paths = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module") and node.target not in root:
                raise RuntimeError(
                    f"GraphModule: the target {node.target} of {node} was not provided in ``root``"
                )
        for path in sorted(dict.fromkeys(paths), key=lambda path: path.count(".")):
            _assign_attr_at(root[path], self, path)

    # --- graph and code -----------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph; assigning a graph recompiles the module."""
        found: Graph = self.__dict__["_graph"]
        return found

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"GraphModule.graph: expected a Graph, got {type(g)}")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The generated code."""
        if "_code" not in self.__dict__:
            raise RuntimeError("GraphModule.code: Code has not been generated; call recompile() first")
        text: str = self.__dict__["_code"]
        return text

    @property
    def _boxed_call(self) -> bool:
        return isinstance(self.graph._codegen, _BoxedCodeGen)

    def recompile(self) -> PythonCode:
        """Generate the code of the graph again, and return it."""
        codegen = self.graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self.__dict__["_in_spec"] = codegen.pytree_info.in_spec
            self.__dict__["_out_spec"] = codegen.pytree_info.out_spec
        made = self.graph.python_code("self")
        cls: Any = type(self)
        _loader.drop(getattr(cls.__dict__.get("forward"), "_source_name", None))
        cls.forward = _method_from_src(codegen._func_name, made.src, made.globals)
        self.__dict__["_code"] = made.src
        self.__dict__["_lineno_map"] = made._lineno_map
        return made

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        inner = [
            (name, m) for name, m in self.named_modules() if isinstance(m, GraphModule) and m is not self
        ]
        return [(name, module.recompile()) for name, module in inner]

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """Return and print the code of this module and of the GraphModules inside it, with comments.

        Args:
            print_output: whether to print.
            include_stride: show strides of tensors in addition to dtype and sizes.
            include_device: show devices of tensors.
            colored: accepted for compatibility.
            fast_sympy_print: accepted for compatibility.
            expanded_def: write each parameter on its own line.
            additional_meta: entries of nodes' meta to show.
        """
        made = self.graph.python_code(
            "self",
            verbose=True,
            include_stride=include_stride,
            include_device=include_device,
            expanded_def=expanded_def,
            additional_meta=additional_meta,
        )
        inner = [
            child.print_readable(False, include_stride, include_device, expanded_def=expanded_def)
            for child in self.children()
            if isinstance(child, GraphModule)
        ]
        body = "\n\n".join([made.src.strip("\n "), *inner])
        indented = "\n".join(f"    {line}".rstrip() for line in body.split("\n"))
        text = f"class {self._get_name()}({with_root('flambeau.nn.Module')}):\n{indented}\n"
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        return f"{super().__repr__()}\n{self.code}\n# print_readable() shows more"

    # --- submodules -----------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a dotted path; return False if a part of the path exists and is not a module."""
        *owners, name = target.split(".")
        module: Module = self
        for owner in owners:
            following = getattr(module, owner, None)
            if following is None:
                following = Module()
                setattr(module, owner, following)
            if not isinstance(following, Module):
                return False
            module = following
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a dotted path; return False if there is none."""
        path, _, name = target.rpartition(".")
        try:
            owner = self.get_submodule(path)
        except AttributeError:
            return False
        if not isinstance(getattr(owner, name, None), Module):
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete the modules that the graph neither calls nor reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                names = node.target.split(".")
                used.update(".".join(names[:end]) for end in range(1, len(names) + 1))
            if node.op == "call_module":  # keep the called module's submodules too
                with contextlib.suppress(AttributeError):
                    inside = self.get_submodule(node.target).named_modules()
                    used.update(f"{node.target}.{name}" for name, _ in inside if name)
        for name in [name for name, _ in self.named_modules() if name]:
            if name not in used:
                self.delete_submodule(name)

    # --- copies and files -------------------------------------------------------------------------------

    def _without_code(self) -> dict[str, Any]:
        left_out = {"_graph", "_code", "_lineno_map", *_HOOKS}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        cls = type(self)
        result: GraphModule = cls.__new__(cls)
        memo[id(self)] = result
        result.__class__.__name__ = cls.__name__
        result.__dict__.update(copy.deepcopy(self._without_code(), memo))
        result.graph = copy.deepcopy(self.graph, memo)
        hooks = self.__dict__.get("_deepcopy_hooks", [])
        for name in _HOOKS:
            if name in self.__dict__:
                result.__dict__[name] = list(self.__dict__[name])
        for hook in hooks:
            hook(result)
        return result

    def __copy__(self) -> GraphModule:
        cls = type(self)
        result: GraphModule = cls.__new__(cls)
        result.__class__.__name__ = cls.__name__
        result.__dict__.update(self._without_code())
        result.graph = copy.deepcopy(self.graph)
        return result

    def __reduce__(self) -> Any:
        base = next(c for c in type(self).__mro__ if "_is_generated" not in c.__dict__)
        state = {**self._without_code(), "_tracer_cls": None, "_tracer_extras": {}}
        return _restored, (base, type(self).__name__, state, self.graph)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def _replicate_for_data_parallel(self) -> GraphModule:
        return copy.copy(self)

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a package of Python that can be imported and edited.

        Args:
            folder: the directory of the package; it is made if it does not exist.
            module_name: the name of the class.
        """
        write_folder(self, folder, module_name)

    # --- hooks ------------------------------------------------------------------------------------------

    def _hooks(self, name: str) -> list[Callable[..., object]]:
        found: list[Callable[..., object]] = self.__dict__.setdefault(name, [])
        return found

    def _register_create_node_hook(self, f: Callable[..., object]) -> None:
        self._hooks("_create_node_hooks").append(f)

    def _unregister_create_node_hook(self, f: Callable[..., object]) -> None:
        self._hooks("_create_node_hooks").remove(f)

    def _register_erase_node_hook(self, f: Callable[..., object]) -> None:
        self._hooks("_erase_node_hooks").append(f)

    def _unregister_erase_node_hook(self, f: Callable[..., object]) -> None:
        self._hooks("_erase_node_hooks").remove(f)

    def _register_replace_node_hook(self, f: Callable[..., object]) -> None:
        self._hooks("_replace_hooks").append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., object]) -> None:
        self._hooks("_replace_hooks").remove(f)

    def _register_deepcopy_hook(self, f: Callable[..., object]) -> None:
        self._hooks("_deepcopy_hooks").append(f)

    def _unregister_deepcopy_hook(self, f: Callable[..., object]) -> None:
        self._hooks("_deepcopy_hooks").remove(f)

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., object]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


def _restored(cls: type[GraphModule], name: str, state: dict[str, Any], graph: Graph) -> GraphModule:
    """Make a GraphModule from the contents of its pickle."""
    module: GraphModule = cls.__new__(cls)
    Module.__init__(module)
    module.__class__.__name__ = name
    module.__dict__.update(state)
    module.__dict__["_tracer_cls"] = graph._tracer_cls
    module.graph = graph
    return module


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """Make a GraphModule from attributes and code, by tracing the code.

    Args:
        body: attributes; ``_code`` is the text of forward.
        import_block: import statements for the code.
    """
    from flambeau.fx._symbolic_trace import Tracer

    scope: dict[str, Any] = {}
    exec(f"{import_block}\n{body['_code']}", scope)
    bare = Module()
    bare.__dict__.update({k: v for k, v in body.items() if k not in ("_code", "_graphmodule_cls_name")})
    owner: Any = type("CodeOnlyModule", (Module,), {"forward": scope["forward"]})()
    owner.__dict__.update(bare.__dict__)

    class KeepModules(Tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    return GraphModule(owner, KeepModules().trace(owner), body.get("_graphmodule_cls_name", "GraphModule"))


def reduce_package_graph_module(importer: Any, body: dict[str, Any], generated_module_name: str) -> Module:
    """Do the same as `reduce_graph_module` for code that a package importer provides."""
    body = {**body, "_code": importer.get_source(generated_module_name)}
    return reduce_graph_module(body, "")


class _CodeOnlyModule(Module):
    """A module that has only attributes."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body
