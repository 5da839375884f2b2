"""The values that forward saves for backward: a minimum cut between the inputs and what backward reads.

Each value of forward is a pair of vertices, joined by an edge whose capacity is the value's size in bytes. An
edge of infinite capacity leads from a value to each result that backward may recompute from it. The edges of
the minimum cut are the values to save. Backward recomputes all other values that it needs.

A value that the program can write to after forward (an input, a result) is saved only if autograd would save
it too, because autograd then detects the write and raises an error. Random numbers are never drawn again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any

import flambeau
from flambeau.compiler.ir.dependences import is_ordered, overload_of, written
from flambeau.fx.node import Node

_LEAST_ELEMENTS = 4096  # recomputing smaller results costs more in calls than it saves in memory


def solver() -> Callable[..., Any] | None:
    """Return SciPy's `maximum_flow`, or None if SciPy is not installed."""
    try:
        from scipy.sparse.csgraph import maximum_flow
    except ImportError:
        return None
    found: Callable[..., Any] = maximum_flow
    return found


def size_of(node: Node) -> int:
    """Return the bytes of memory that a node's value keeps alive."""
    value = node.meta.get("val")
    return 0 if value is None else max(int(value.untyped_storage().nbytes()), 1)


class Forward:
    """The forward half of a joint graph, prepared for the cut.

    Args:
        inputs: the graph's inputs.
        calls: its operators, in order.
        outputs: the nodes that it returns.
        saved: what backward reads.
        others: the operators of backward, which may write too.
    """

    def __init__(
        self,
        inputs: list[Node],
        calls: list[Node],
        outputs: list[Node],
        saved: list[Node],
        others: list[Node],
    ) -> None:
        self.inputs, self.saved = inputs, saved
        self.calls = [node for node in calls if node.op == "call_function"]
        self._kept: list[Any] = []  # keeps storages alive, so that their ids stay unique
        self._outside = {self._storage(node) for node in (*inputs, *outputs)}
        self._written = {self._storage(n) for node in (*calls, *others) for n in written(node)}
        # Inputs may share memory with each other.
        own = {self._storage(node) for node in inputs}
        self._written |= own if self._written & own else set()
        self.cheap = {node for node in self.calls if self._is_cheap(node)}

    def _storage(self, node: Node) -> int:
        value = node.meta.get("val")
        if value is None:
            return id(node)
        self._kept.append(value.untyped_storage())
        return id(self._kept[-1])

    def is_repeatable(self, node: Node) -> bool:
        """Whether a second call of a node returns the same value."""
        if node.target is not operator.getitem and (overload_of(node) is None or is_ordered(node)):
            return False
        memory = {self._storage(n) for n in (node, *node.all_input_nodes)}
        return not written(node) and not memory & self._written

    def _is_view(self, node: Node) -> bool:
        return self._storage(node) in {self._storage(n) for n in node.all_input_nodes}

    def _is_cheap(self, node: Node) -> bool:
        value = node.meta.get("val")
        if value is None or node.target is operator.getitem or not self.is_repeatable(node):
            return False
        facts = flambeau._C._operator_facts(overload_of(node)._entry)
        is_pointwise = facts is not None and facts[0]
        return self._is_view(node) or (is_pointwise and value.numel() >= _LEAST_ELEMENTS)

    def may_be_saved(self, node: Node) -> bool:
        """Whether a value can be saved and the program cannot change it without an error."""
        return node in self.saved or (
            node.meta.get("val") is not None and self._storage(node) not in self._outside
        )

    def could_gain(self) -> bool:
        """Whether backward can recompute a value that autograd would save."""
        return any(node in self.cheap and size_of(node) > 0 for node in self.saved)

    def cut(self, again: Collection[Node]) -> list[Node]:
        """Return the values to save if backward may recompute the nodes `again`.

        Args:
            again: operators of forward.
        """
        nodes = [*self.inputs, *self.calls]
        place = {node: i for i, node in enumerate(nodes)}
        source, sink = 2 * len(nodes), 2 * len(nodes) + 1
        sizes = {node: size_of(node) for node in nodes if self.may_be_saved(node)}
        unit = max(1, sum(sizes.values()) >> 28)  # the solver counts in 32 bits
        sizes = {node: 0 if self._is_parameter(node) else 1 + size // unit for node, size in sizes.items()}
        endless = sum(sizes.values()) + 1
        edges: dict[tuple[int, int], int] = {}
        for node in nodes:
            into, out = 2 * place[node], 2 * place[node] + 1
            edges[into, out] = sizes.get(node, endless)
            if node not in again:
                edges[source, into] = endless
            if node in self.saved:
                edges[out, sink] = endless
            edges.update({(out, 2 * place[u]): endless for u in node.users if u in place and u in again})
        reached = _reachable(edges, source, sink)
        return [n for n in nodes if 2 * place[n] in reached and 2 * place[n] + 1 not in reached]

    def _is_parameter(self, node: Node) -> bool:
        """Whether a value is a leaf that requires a gradient, which the program keeps alive anyway."""
        value = node.meta.get("val")
        return node in self.inputs and value is not None and value.requires_grad and value.is_leaf

    def repeated(self, saved: Iterable[Node]) -> list[Node]:
        """Return the operators that backward must repeat if forward saves `saved`, in order."""
        known = {*saved, *self.inputs}
        waiting = [node for node in self.saved if node not in known]
        found: set[Node] = set()
        while waiting:
            node = waiting.pop()
            if node in known or node in found or node.op == "get_attr":
                continue
            found.add(node)
            waiting += node.all_input_nodes
        return [node for node in self.calls if node in found]

    def cost(self, node: Node) -> float:
        """Return an estimate of the arithmetic operations in one call."""
        value, overload = node.meta.get("val"), overload_of(node)
        from flambeau.utils.flop_counter import flop_registry

        formula = flop_registry.get(getattr(overload, "overloadpacket", None)) if overload else None
        if formula is not None and value is not None:
            args = [a.meta.get("val") if isinstance(a, Node) else a for a in node.args]
            return float(formula(*args, out_val=value))
        return float(sum(size_of(n) for n in (node, *node.all_input_nodes)))


def _reachable(edges: dict[tuple[int, int], int], source: int, sink: int) -> set[int]:
    """The vertices that the source reaches in the residual graph of a maximum flow."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    flow = solver()
    assert flow is not None, "cut: expected SciPy"
    rows, columns = zip(*edges, strict=True)
    shape = (sink + 1, sink + 1)
    capacity = csr_matrix((np.array(list(edges.values()), dtype=np.int32), (rows, columns)), shape)
    left = capacity - flow(capacity, source, sink).flow
    left.data[left.data < 0] = 0
    left.eliminate_zeros()
    return set(map(int, breadth_first_order(left, source, return_predecessors=False)))


def chosen(forward: Forward, budget: float) -> list[Node]:
    """Return the values to save under a budget.

    Args:
        forward: the graph.
        budget: 1: backward recomputes pointwise operators and views. 0: it recomputes all operators that can
            be repeated. Values between 0 and 1: it also recomputes products and other operators, those that
            save most memory per operation first, until the saved memory lies at this fraction of the range.
    """
    first = forward.cut(forward.cheap)
    if budget >= 1:
        return first
    every = {node for node in forward.calls if forward.is_repeatable(node)}
    least = forward.cut(every)
    goal = _total(least) + budget * (_total(first) - _total(least))
    if budget <= 0:
        return least
    again, saved = set(forward.cheap), first
    while _total(saved) > goal:
        costly = [node for node in saved if node in every and node not in again]
        if not costly:
            return least
        best = min(costly, key=lambda node: forward.cost(node) / max(size_of(node), 1))
        again.add(best)
        if best.target is operator.getitem:
            again.update(n for n in best.all_input_nodes if n in every)
        saved = forward.cut(again)
    return saved


def _total(saved: list[Node]) -> int:
    return sum(size_of(node) for node in saved if node.op != "placeholder")
