"""Interpreter runs a graph node by node; Transformer rewrites a graph in the same way."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flambeau.fx.traceback as fx_traceback
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_aggregate, map_arg
from flambeau.fx.proxy import Proxy
from flambeau.nn import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a GraphModule node by node. Subclasses override `run_node` or the method for one kind of node.

    Args:
        module: the module that holds the attributes and submodules.
        garbage_collect_values: drop each value after its last use.
        graph: the graph. Default: the module's.

    Example:
        >>> class Names(flambeau.fx.Interpreter):
        ...     def call_function(self, target, args, kwargs):
        ...         print(target.__name__)
        ...         return super().call_function(target, args, kwargs)
        >>> graph = flambeau.fx.symbolic_trace(lambda x: flambeau.exp(x) + 1)
        >>> Names(graph).run(flambeau.zeros(2))
        exp
        add
        tensor([2., 2.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module: Any = module
        self.submodules = dict(self.module.named_modules())
        self.graph: Graph = self.module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            self._find_last_uses()

    def _find_last_uses(self) -> None:
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True
    ) -> Any:
        """Run the graph and return its result.

        Args:
            args: the inputs, in order.
            initial_env: node -> value, for nodes that should not be computed.
            enable_io_processing: flatten inputs and rebuild the result as the graph's code generator does.
        """
        self.env = dict(initial_env or {})
        inputs = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(inputs)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback and not getattr(error, "_names_node", False):
                    error.add_note(f"while executing {node.format_node()}")
                    error.__dict__["_names_node"] = True
                raise
            for used in self.user_to_last_uses.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on the inputs of a list, and empty the list to free them early."""
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        env = dict(zip(placeholders, args_list, strict=False))
        args_list.clear()
        return self.run(initial_env=env)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """Run one node and return its value."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # --- one method per kind ------------------------------------------------------------------------

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next input; ``*args`` takes all remaining inputs."""
        if isinstance(target, str) and target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Interpreter.run: expected a positional argument for {target}, got none"
            ) from None

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the attribute at a path."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the first argument."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result."""
        return args[0]

    # --- values -----------------------------------------------------------------------------------------

    def fetch_attr(self, target: str) -> Any:
        """Return the attribute of the module at a dotted path.

        Raises: RuntimeError if there is none.
        """
        found, names = self.module, target.split(".")
        for place, name in enumerate(names):
            if not hasattr(found, name):
                raise RuntimeError(
                    f"Interpreter: {target} references nonexistent target {'.'.join(names[: place + 1])}"
                )
            found = getattr(found, name)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the values of a node's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Replace nodes inside an argument by their values."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Interpreter: {n} uses the nonexistent value {node}; Graph.lint() describes the error"
                )
            return self.env[node]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Records a graph again; subclasses override the methods that handle each kind of node.

    Args:
        module: the module of the graph.

    Example:
        >>> class Doubled(flambeau.fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         return 2 * super().call_function(target, args, kwargs)
        >>> graph = flambeau.fx.symbolic_trace(lambda x: flambeau.exp(x))
        >>> Doubled(graph).transform()(flambeau.zeros(2))
        tensor([2., 2.])
    """

    def __init__(self, module: GraphModule) -> None:
        from flambeau.fx._symbolic_trace import Tracer

        super().__init__(module)
        self.new_graph = Graph(tracer_cls=module.graph._tracer_cls)
        self.new_graph.set_codegen(module.graph._codegen)

        class Recording(Tracer):
            def __init__(self, graph: Graph, root: Module) -> None:
                super().__init__()
                self.graph, self.root = graph, root
                self.tensor_attrs = {}

            def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
                return True

        self.tracer = Recording(self.new_graph, module)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Add the input to the new graph."""
        default = next(iter(args), inspect.Signature.empty)
        if default is inspect.Signature.empty:
            return Proxy(self.new_graph.placeholder(target), self.tracer)
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Add a node that reads the attribute to the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add the call to the new graph."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add the call to the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add the call to the new graph."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Run the transformation and return the new module."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            annotation = self.graph.output_node().type

            def node_of(leaf: Any) -> Any:
                return leaf.node if isinstance(leaf, Proxy) else leaf

            output = self.new_graph.output(map_aggregate(result, node_of), annotation)
            output.meta = dict(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)
