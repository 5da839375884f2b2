"""Normal forms of graphs: arguments by name, and functions of the package instead of Python's operators."""

from __future__ import annotations

import operator
from typing import Any

import flambeau
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Transformer
from flambeau.fx.node import Node
from flambeau.fx.operator_schemas import create_type_hint
from flambeau.fx.proxy import Proxy

_FUNCTIONS: dict[Any, Any] = {
    getattr(operator, name): getattr(flambeau, own)
    for name, own in (
        ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "true_divide"), ("eq", "eq"),
        ("ne", "ne"), ("lt", "lt"), ("gt", "gt"), ("le", "le"), ("ge", "ge"), ("matmul", "matmul"),
        ("pow", "pow"), ("floordiv", "floor_divide"), ("mod", "remainder"), ("neg", "neg"),
    )
}  # fmt: skip


class NormalizeArgs(Transformer):
    """Rewrites the arguments of operators and layers to those of their signatures.

    Args:
        module: the module.
        normalize_to_only_use_kwargs: pass all arguments by name, instead of only those that were before.
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op in ("call_function", "call_module"):
            types = tuple(create_type_hint(_type_of(arg)) for arg in n.args)
            named = {key: create_type_hint(_type_of(arg)) for key, arg in n.kwargs.items()}
            found = n.normalized_arguments(self.module, types, named, self.normalize_to_only_use_kwargs)
            if found is not None:
                args, kwargs = (self.map_nodes_to_values(part, n) for part in found)
        out = getattr(self, n.op)(n.target, args, kwargs)
        if isinstance(out, Proxy):
            out.node.meta = dict(n.meta)
            self.node_map[out] = n
        return out


def _type_of(arg: Any) -> Any:
    if isinstance(arg, Node):
        return arg.meta.get("type") or arg.type or flambeau.Tensor
    return [_type_of(item) for item in arg] if isinstance(arg, list | tuple) else type(arg)


class NormalizeOperators(Transformer):
    """Replaces Python's operators by functions of the package: ``x + y`` becomes ``flambeau.add(x, y)``."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_function(_FUNCTIONS.get(target, target), args, kwargs)
