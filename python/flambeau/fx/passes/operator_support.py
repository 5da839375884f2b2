"""Rules that decide which nodes a backend supports."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

from flambeau.fx.node import Node
from flambeau.fx.passes.shape_prop import TensorMetadata
from flambeau.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target
from flambeau.nn import Module

__all__ = [
    "OpSupports",
    "OperatorSupport",
    "OperatorSupportBase",
    "any_chain",
    "chain",
    "create_op_support",
]

TargetTypeName = str
SupportedArgumentDTypes = Any
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """Base class of rules that decide which nodes a backend supports."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether the node is supported; `submodules` are the module's, by path."""


class OperatorSupport(OperatorSupportBase):
    """Supports the operators in a table.

    Args:
        support_dict: name of an operator, as `get_node_target` returns it -> None for all dtypes, or a pair
            of the dtypes that are supported for positional and for keyword arguments.
    """

    _support_dict: SupportDict = {}  # noqa: RUF012  (subclasses replace it)

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or self._support_dict

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        dtypes = self._support_dict[target]
        if dtypes is None:
            return True
        places, names = dtypes
        by_place = [(allowed, node.args[n]) for n, allowed in enumerate(places) if n < len(node.args)]
        by_name = [(allowed, node.kwargs[n]) for n, allowed in names.items() if n in node.kwargs]
        return all(_dtype_of(arg) in allowed for allowed, arg in [*by_place, *by_name])


def _dtype_of(arg: Any) -> Any:
    found = arg.meta.get("tensor_meta") if isinstance(arg, Node) else None
    return found.dtype if isinstance(found, TensorMetadata) else None


class _FunctionalSupport(OperatorSupportBase):
    def __init__(self, function: IsNodeSupported) -> None:
        self._function = function

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        return self._function(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Make an OperatorSupport from a function of submodules and node."""
    return _FunctionalSupport(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Support the nodes that all of the given objects support."""
    return create_op_support(lambda mods, node: all(s.is_node_supported(mods, node) for s in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Support the nodes that at least one of the given objects supports."""
    return create_op_support(lambda mods, node: any(s.is_node_supported(mods, node) for s in op_support))


class OpSupports:
    """Ready-made rules."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: Any) -> OperatorSupportBase:
        """Decline nodes with an input of this dtype."""
        return create_op_support(
            lambda mods, node: all(_dtype_of(used) != dtype for used in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Decline nodes with these names."""
        return create_op_support(lambda mods, node: node.name not in disallow_set)
