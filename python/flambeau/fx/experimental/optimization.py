"""fuse: batch norms folded into the convolutions before them."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from flambeau import nn
from flambeau.fx._symbolic_trace import Tracer, symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.nn import Module
from flambeau.nn.utils.fusion import fuse_conv_bn_eval

__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]

_PATTERNS = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node and its first argument are calls of modules of these two classes."""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    for expected, current in zip(pattern, (node.args[0], node), strict=True):
        if current.op != "call_module" or type(modules.get(str(current.target))) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Replace the module that a node calls."""
    path, _, name = str(node.target).rpartition(".")
    modules[str(node.target)] = new_module
    setattr(modules[path], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """Fold each batch norm into the convolution before it; both must be in evaluation mode.

    Args:
        model: the network.
        inplace: change the network's modules instead of copies.
        no_trace: whether `model` is a GraphModule already.
    Returns: a GraphModule that returns the same values.
    """
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for pattern in _PATTERNS:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            convolution, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats or convolution.training or norm.training:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(convolution, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model: Module) -> Module:
    """Return the network, as a GraphModule, without its dropout layers."""
    from flambeau.fx.interpreter import Transformer

    class WithoutDropout(Transformer):
        def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return WithoutDropout(symbolic_trace(model)).transform()


def extract_subgraph(
    orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """Copy some nodes of a graph into a new module."""
    graph = Graph()
    known = {used: graph.placeholder(used.name) for used in inputs}
    for node in nodes:
        known[node] = graph.node_copy(node, lambda n: known[n])
    graph.output([known[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(
    model: Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> Module:
    """Return a network for inference, as a GraphModule: batch norms folded, dropout removed.

    Args:
        model: the network, in evaluation mode.
        pass_config: ``conv_bn_fuse`` and ``remove_dropout`` (bool): whether these passes run.
        tracer: the class of the tracer.
    """
    config = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    recorder = tracer()
    graph = recorder.trace(model)
    return GraphModule(recorder.root, graph)
