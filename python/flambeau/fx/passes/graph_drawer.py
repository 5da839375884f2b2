"""FxGraphDrawer: draws graphs with the package pydot."""

from __future__ import annotations

from typing import Any

from flambeau.fx._abbreviations import of_tensor
from flambeau.fx._attributes import get_attribute
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, _format_arg

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue",
    "call_module": "LemonChiffon1",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
    "call_function": "Honeydew",
    "call_method": "MistyRose",
}


class FxGraphDrawer:
    """Draws a GraphModule and the GraphModules inside it.

    Args:
        graph_module: the module.
        name: the picture's name.
        ignore_getattr: omit attributes.
        ignore_parameters_and_buffers: omit the sizes of layers' parameters.
        skip_node_names_in_args: show only the arguments that are not nodes.
        parse_stack_trace: show the source line that recorded a node.
        dot_graph_shape: the shape of nodes. Default: "record".
        normalize_args: show arguments by name.
    Raises: RuntimeError if pydot is not installed.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        try:
            import pydot  # type: ignore[import-not-found]
        except ImportError as error:
            raise RuntimeError(
                "FxGraphDrawer: FXGraphDrawer requires pydot, which is missing; pip install pydot"
            ) from error
        self._pydot, self._name = pydot, name
        self._shape = dot_graph_shape or "record"
        self._ignore_getattr, self._ignore_parameters = ignore_getattr, ignore_parameters_and_buffers
        self._skip_nodes, self._traces, self._by_name = (
            skip_node_names_in_args,
            parse_stack_trace,
            normalize_args,
        )
        self._dot_graphs = {name: self._draw(graph_module, name)}
        for path, module in graph_module.named_modules():
            if path and isinstance(module, GraphModule):
                title = f"{name}_{path}".replace(".", "_")
                self._dot_graphs[title] = self._draw(module, title)

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """Return the picture, a pydot.Dot, of the module, or of the GraphModule `submod_name` inside it."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> Any:
        """Return the picture of the whole module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """Return the picture of a GraphModule inside the module."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """Return all pictures by name."""
        return self._dot_graphs

    def _draw(self, module: GraphModule, title: str) -> Any:
        picture = self._pydot.Dot(title, rankdir="TB")
        shown = [n for n in module.graph.nodes if not (self._ignore_getattr and n.op == "get_attr")]
        for node in shown:
            style = {"shape": self._shape, "fillcolor": _COLORS[node.op], "style": '"filled,rounded"'}
            label = f'"{self._label(module, node)}"'
            picture.add_node(self._pydot.Node(node.name, label=label, fontcolor="#000000", **style))
        for node in shown:
            for user in node.users:
                picture.add_edge(self._pydot.Edge(node.name, user.name))
        return picture

    def _label(self, module: GraphModule, node: Node) -> str:
        parts = [
            f"name=%{node.name}",
            f"op_code={node.op}",
            f"target={node._pretty_print_target(node.target)}",
        ]
        if node.op == "call_module":
            layer = get_attribute(module, str(node.target))
            parts.append(layer.extra_repr() or type(layer).__name__)
            if not self._ignore_parameters:
                parts += [f"{name}: {of_tensor(value)}" for name, value in layer.named_parameters()]
        args, kwargs = self._arguments(module, node)
        parts += [f"args={_format_arg(args, 10)}"] if args else []
        parts += [f"kwargs={_format_arg(kwargs, 10)}"] if kwargs else []
        parts.append(f"num_users={len(node.users)}")
        found = of_tensor(node.meta.get("tensor_meta"))
        parts += [found] if found else []
        if self._traces and node.stack_trace:
            parts.append(node.stack_trace.strip().splitlines()[-1].strip())
        inside = "|".join(_escaped(part) for part in parts)
        return f"{{{inside}}}" if self._shape == "record" else "\\n".join(map(_escaped, parts))

    def _arguments(self, module: GraphModule, node: Node) -> tuple[Any, Any]:
        args, kwargs = node.args, dict(node.kwargs)
        if self._by_name and (found := _named(module, node)) is not None:
            args, kwargs = found
        if self._skip_nodes:
            args = tuple(arg for arg in args if not isinstance(arg, Node))
            kwargs = {key: arg for key, arg in kwargs.items() if not isinstance(arg, Node)}
        return args, kwargs


def _named(module: GraphModule, node: Node) -> Any:
    try:
        return node.normalized_arguments(module, normalize_to_only_use_kwargs=True)
    except RuntimeError:  # several overloads accept the arguments
        return None


def _escaped(text: str) -> str:
    for letter in '\\{}<>|"':
        text = text.replace(letter, f"\\{letter}")
    return text.replace("\n", "\\l")
