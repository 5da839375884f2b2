"""CapabilityBasedPartitioner: groups the nodes that a backend supports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, _get_qualified_name
from flambeau.fx.passes.operator_support import OperatorSupportBase
from flambeau.fx.passes.utils.fuser_utils import fuse_by_partitions


class Partition:
    """A group of nodes."""

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None) -> None:
        self.id = id
        self.nodes: dict[Node, int | None] = dict.fromkeys(nodes or ())

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node) -> None:
        """Add a node."""
        self.nodes[node] = None

    def remove_node(self, node: Node) -> None:
        """Remove a node."""
        del self.nodes[node]

    def size(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Groups supported nodes into the largest parts that can each become one call.

    Args:
        graph_module: the module.
        operator_support: decides which nodes are supported.
        allows_single_node_partition: keep parts with a single node that computes.
        non_compute_ops: names of functions that do not compute, such as getitem.
        allowed_single_node_partition_ops: names of functions that may form a part alone.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
    ) -> None:
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = list(non_compute_ops or [])
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or [])

    def propose_partitions(self) -> list[Partition]:
        """Return the parts, in the graph's order."""
        modules = dict(self.graph_module.named_modules())
        nodes = list(self.graph_module.graph.nodes)
        part: dict[Node, int] = {}
        needs: dict[Node, set[int]] = {}  # the parts that a node's value depends on
        for node in nodes:
            behind = set().union(*(needs[used] for used in node.all_input_nodes), set())
            calls = node.op not in ("placeholder", "output")
            if calls and self.operator_support.is_node_supported(modules, node):
                part[node] = self._choose(node, part, needs, len(part))
                behind = behind | {part[node]}
            needs[node] = behind
            if node in part:  # the dependencies of the part become dependencies of all its nodes
                for other in nodes:
                    if other in needs and part[node] in needs[other]:
                        needs[other] |= behind
        groups: dict[int, Partition] = {}
        for node, number in part.items():
            groups.setdefault(number, Partition(number)).add_node(node)
        return [group for group in groups.values() if self._is_worth_it(group)]

    def _choose(self, node: Node, part: dict[Node, int], needs: dict[Node, set[int]], new: int) -> int:
        """Return a part that the node can join: no other input of the node depends on that part."""
        for used in node.all_input_nodes:
            candidate = part.get(used)
            if candidate is None:
                continue
            others = [u for u in node.all_input_nodes if part.get(u) != candidate]
            if all(candidate not in needs[other] for other in others):
                return candidate
        return new

    def _is_worth_it(self, partition: Partition) -> bool:
        if self.allows_single_node_partition:
            return True
        calls = [node for node in partition.nodes if node.op == "call_function"]
        other = [node for node in partition.nodes if node.op in ("call_module", "call_method")]
        names = [_get_qualified_name(node.target) for node in calls]
        if any(name in self.allowed_single_node_partition_ops for name in names):
            return True
        return sum(name not in self.non_compute_ops for name in names) + len(other) > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Move each part to a submodule."""
        return fuse_by_partitions(self.graph_module, [partition.nodes for partition in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Remove the nodes that do not compute from the start and the end of each part."""
        for partition in partitions:
            changed = True
            while changed:
                changed = False
                for node in list(partition.nodes):
                    named = node.op == "call_function" and _get_qualified_name(node.target)
                    if named not in self.non_compute_ops:
                        continue
                    first = not any(used in partition.nodes for used in node.all_input_nodes)
                    last = not any(user in partition.nodes for user in node.users)
                    if first or last:
                        partition.remove_node(node)
                        changed = True

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Propose parts and move each to a submodule."""
        return self.fuse_partitions(self.propose_partitions(), prefix)
