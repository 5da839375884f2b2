"""Graph: the steps of a computation in order of execution."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from flambeau.fx._codegen import CodeGen, TransformCodeFunc
from flambeau.fx._codegen import _BoxedCodeGen as _BoxedCodeGen
from flambeau.fx._codegen import _PyTreeCodeGen as _PyTreeCodeGen
from flambeau.fx._codegen import _PyTreeInfo as _PyTreeInfo
from flambeau.fx._graph_checks import check_graph, table_of
from flambeau.fx._graph_state import restored_graph, state_of
from flambeau.fx._names import Namespace as _Namespace
from flambeau.fx._names import snake_case
from flambeau.fx._source import PythonCode
from flambeau.fx.node import Node, map_arg
from flambeau.fx.node import _get_qualified_name as _get_qualified_name

if TYPE_CHECKING:
    from flambeau.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]
_snake_case = snake_case
_NOTHING = object()


class _node_list:
    """The nodes in order. Nodes may be added and erased during iteration."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        node = getattr(self.graph._root, self.direction)
        while node is not self.graph._root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint(AbstractContextManager[None]):
    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.graph._insert = self.before


class Graph:
    """A list of nodes: placeholders, steps, and one output.

    Args:
        owning_module: the GraphModule that runs the graph.
        tracer_cls: the class of the tracer that recorded it.
        tracer_extras: data that the tracer stores with the graph.

    Example:
        >>> graph = flambeau.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> result = graph.output(graph.call_method("relu", (x,)))
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %relu : [num_users=1] = call_method[target=relu](args = (%x,), kwargs = {})
            return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Any] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._graph_namespace = _Namespace()
        self._root = Node(self, "", "root", "", (), {})
        self._len = 0
        self._numbered = True
        self._insert: Callable[[Node], None] = self._root.prepend
        self._owners = 0
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen: CodeGen = CodeGen()

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that runs this graph; None if there is no such module, or if there are several."""
        return self._owning_module if self._owners <= 1 else None

    @owning_module.setter
    def owning_module(self, module: GraphModule | None) -> None:
        if module is not None:
            self._owners += 0 if module is self._owning_module and self._owners else 1
        self._owning_module = module

    @property
    def nodes(self) -> _node_list:
        """All nodes in order."""
        return _node_list(self)

    # --- making nodes -----------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a node at the insertion point.

        Args:
            op: the kind of step; see `Node`.
            target: the function, the method's name, or a dotted path; see `Node`.
            args: the arguments.
            kwargs: the keyword arguments.
            name: the preferred name of the node. Default: derived from the target.
            type_expr: the annotation of the value.
        """
        candidate = name if name is not None else self._target_to_str(target)
        chosen = self._graph_namespace.create_name(candidate, None)
        node = Node(self, chosen, op, target, args or (), kwargs or {}, type_expr)
        self._graph_namespace.associate_name_with_obj(chosen, node)
        self._insert(node)
        self._len += 1
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        return node

    def _target_to_str(self, target: Any) -> str:
        if not isinstance(target, str):
            target = getattr(target, "__name__", type(target).__name__)
        text: str = target
        if len(text) > 4 and text.startswith("__") and text.endswith("__"):
            text = text[2:-2]
        return snake_case(text)

    def placeholder(self, name: str, type_expr: Any | None = None, default_value: Any = _NOTHING) -> Node:
        """Add an input. The names ``*args`` and ``**kwargs`` take all further inputs."""
        args = () if default_value is _NOTHING else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Add a node that reads an attribute of the module, given as a dotted path."""
        if self.owning_module is not None:
            self._warn_if_absent(qualified_name)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def _warn_if_absent(self, path: str) -> None:
        import warnings

        found: Any = self.owning_module
        for name in path.split("."):
            found = getattr(found, name, _NOTHING)
            if found is _NOTHING:
                warnings.warn(
                    f"get_attr: {path!r} does not reference an attribute of the module that owns the graph; "
                    "add it with GraphModule.add_submodule or register it before the code runs",
                    stacklevel=3,
                )
                return

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of the submodule at a dotted path."""
        if self.owning_module is not None:
            self._warn_if_absent(module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """Add a step that returns a tensor's size along a dimension."""
        return self.call_method("size", (tensor_node, dim))

    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """Add a step that returns a tensor's stride along a dimension."""
        return self.call_method("stride", (tensor_node, dim))

    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """Add a step that returns a tensor's storage offset, in elements."""
        return self.call_method("storage_offset", (tensor_node,))

    def materialize_symints(self, values: Sequence[Any]) -> list[Any]:
        """Return sizes as values of this graph: numbers unchanged, because no size is symbolic."""
        for value in values:
            if not isinstance(value, int):
                raise TypeError(f"materialize_symints: expected integers, got {type(value).__name__}")
        return list(values)

    def materialize_symint(self, value: Any) -> Any:
        """Return a size as a value of this graph; see `materialize_symints`."""
        return self.materialize_symints([value])[0]

    def output(self, result: Any, type_expr: Any | None = None) -> Node:
        """Add the output: a node, or a container of nodes."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def output_node(self) -> Node:
        """Return the output, which is the last node."""
        last = self._root._prev
        if last.op != "output":
            raise AssertionError(f"output_node: expected an output as the last node, got op={last.op}")
        return last

    # --- changing the order -----------------------------------------------------------------------

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes before `n`; None: at the start of the graph.

        In a ``with`` statement, this holds for the block.
        """
        if n is None:
            return self.inserting_after(self._root)
        self._own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert each new node directly after `n`, so that the newest comes first; None: at the end."""
        if n is None:
            return self.inserting_before(self._root)
        self._own(n)
        return _InsertPoint(self, n.append)

    def _own(self, node: Node) -> None:
        if node.graph is not self:
            raise AssertionError(f"Graph: expected a node of this graph, got {node} of another")

    def _order_changed(self, node: Node) -> None:
        if self._numbered and node._next is self._root:
            node._position = node._prev._position + 1
        else:
            self._numbered = False

    def _number_nodes(self) -> None:
        if not self._numbered:
            for position, node in enumerate(self.nodes, 1):
                node._position = position
            self._numbered = True

    # --- removing and copying -----------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Remove an unused node.

        Raises: RuntimeError if other nodes use it.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Graph.erase_node: Tried to erase Node {to_erase}, which has {len(to_erase.users)} "
                f"users: {list(to_erase.users)}; replace its uses first"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"erase_node: {to_erase} is a node of another graph")
        if to_erase._erased:
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs((), {})

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Add a copy of a node of another graph.

        Args:
            node: the node.
            arg_transform: maps nodes in its arguments to nodes of this graph.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        result = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        result.meta = copy.copy(node.meta)
        return result

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Add copies of all nodes of another graph except its output.

        Args:
            g: the other graph.
            val_map: node of `g` -> node of this graph; copied nodes are added.
            return_output_node: return a pair of the value and the output node of `g`.
        Returns: the value that `g` returns, in nodes of this graph; None if `g` has no output.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        graph = Graph(tracer_cls=self._tracer_cls)
        made: dict[Node, Node] = {}
        result = graph.graph_copy(self, made, return_output_node=True)
        for old, new in made.items():
            new.meta = copy.copy(old.meta)
            memo[id(old)] = new
        if result is not None:
            value, old_output = result
            output = graph.create_node("output", "output", (value,), {}, old_output.name, old_output.type)
            output.meta = copy.copy(old_output.meta)
        graph._codegen = copy.deepcopy(self._codegen)
        graph._tracer_extras = self._tracer_extras
        return graph

    def __reduce__(self) -> Any:
        return restored_graph, (type(self), state_of(self))

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove the nodes whose value is not used; return whether any were removed.

        Args:
            is_impure_node: returns True for unused nodes that must stay. Default: `Node.is_impure`.
        """
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            keep = is_impure_node(node) if is_impure_node is not None else self._must_stay(node)
            if not node.users and not keep and node.op not in ("placeholder", "output"):
                self.erase_node(node)
                changed = True
        return changed

    def _must_stay(self, node: Node) -> bool:
        if node.op == "call_module" and self.owning_module is None:
            return False  # without the owning module, calls of modules cannot be checked for effects
        return node.is_impure()

    def find_nodes(self, *, op: str, target: Any | None = None, sort: bool = True) -> list[Node]:
        """Return all nodes of a kind, in order.

        Args:
            op: the kind.
            target: their target. Default: any; a call of a function must name one.
            sort: accepted for compatibility; the order is always that of the graph.
        """
        if op == "call_function" and target is None:
            raise AssertionError("find_nodes: target must not be None, as op is call_function")
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    # --- code -------------------------------------------------------------------------------------

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """Write the graph as a function.

        Args:
            root_module: the variable that holds the module, usually "self".
            verbose: add dtypes and sizes of values, and the source lines that recorded them.
            include_stride: add strides to sizes, if verbose.
            include_device: add devices to sizes, if verbose.
            colored: accepted for compatibility.
            record_func: accepted for compatibility.
            expanded_def: write each parameter on its own line.
            additional_meta: entries of nodes' meta to add as comments, if verbose.
        """
        namespace = _Namespace()
        for node in self.nodes:
            namespace.associate_name_with_obj(node.name, node)
        return self._python_code(
            root_module,
            namespace,
            verbose=verbose,
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            expanded_def=expanded_def,
            additional_meta=additional_meta,
        )

    def _python_code(self, root_module: str, namespace: _Namespace, **options: Any) -> PythonCode:
        return self._codegen._gen_python_code(self.nodes, root_module, namespace, **options)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Set the code generator."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> AbstractContextManager[None]:
        """Register a function that transforms the lines of the body whenever the code is written.

        Args:
            make_transformer: takes the function that is registered now (or None), and returns the new one.
        Returns: a context manager that restores the previous function.
        """
        codegen, before = self._codegen, self._codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        class Registered(AbstractContextManager[None]):
            def __exit__(self, *_: object) -> None:
                codegen._body_transformer = before

        return Registered()

    def process_inputs(self, *args: Any) -> Any:
        """Turn arguments of the generated function into values of the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Turn the value of the output node into the result of the generated function."""
        return self._codegen.process_outputs(out)

    def print_tabular(self) -> None:
        """Print a table of all nodes."""
        print(table_of(self))

    def lint(self) -> None:
        """Check the graph: names, order, targets.

        Raises: RuntimeError or ValueError that describes the first fault.
        """
        check_graph(self)

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(text for node in self.nodes if (text := node.format_node()))])

    # --- hooks --------------------------------------------------------------------------------------

    def _node_was_replaced(self, old: Node, new: str, user: Node) -> None:
        for hook in getattr(self.owning_module, "_replace_hooks", ()):
            hook(old=old, new=new, user=user)

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.users.clear()
            self.erase_node(node)
