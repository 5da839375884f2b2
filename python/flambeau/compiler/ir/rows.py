"""Along which leading dimensions an operator's call can be divided, read from its batching rules.

A rule of an operator says how one call computes the results of a whole batch. Read backwards, it says that
a call is the batch of smaller ones: a softmax of a matrix along its last dimension is one softmax for each
row, so that a call on some of the rows gives these rows of the result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau.compiler.ir.dependences import is_ordered, overload_of, written
from flambeau.fx.node import Node, map_arg
from flambeau.utils import _pytree as pytree

Places = tuple[int | None, ...]
_NEW = ("new dim", "new dims")
_LISTS = ("dims", "dims or all", "order", "new dims")


@dataclass(frozen=True)
class Rows:
    """How a call is divided along the leading dimensions of its results.

    Args:
        sizes: of those dimensions.
        places: for each tensor argument the dimension that each of them is there; None: the argument is read
            whole.
        is_view: whether a result shares memory with an argument.
        roles: of the call's arguments in the batching rule that was read; empty for items of results.
    """

    sizes: tuple[int, ...]
    places: dict[Node, Places]
    is_view: bool = False
    roles: tuple[str, ...] = ()

    def follows(self, earlier: Node, depth: int) -> bool:
        """Whether slices of an argument's own result are what slices of this call read."""
        return self.places[earlier][:depth] == tuple(range(depth))


def rows_of(node: Node) -> Rows | None:
    """Return how a node's call is divided; None if it cannot be."""
    if "rows" not in node.meta:
        node.meta["rows"] = _rows_of(node)
    known: Rows | None = node.meta["rows"]
    return known


def results_of(node: Node) -> dict[int, Any]:
    """Return the tensors without memory of a node's results, by place."""
    value = node.meta.get("val")
    if value is not None:
        return {0: value}
    items = [user for user in node.users if user.target is operator.getitem]
    return {int(str(item.args[1])): item.meta["val"] for item in items if item.meta.get("val") is not None}


def _rows_of(node: Node) -> Rows | None:
    if node.target is operator.getitem:
        source = node.all_input_nodes[0]
        rows = rows_of(source) if overload_of(source) else None
        value = node.meta.get("val")
        if rows is None or value is None:
            return None
        return Rows(rows.sizes, {source: tuple(range(len(rows.sizes)))}, rows.is_view)
    overload = overload_of(node)
    if overload is None or not overload._entry or written(node) or is_ordered(node):
        return None
    for roles in flambeau._C._operator_slices(overload._entry):
        rows = _Call(node, overload, roles).rows()
        if rows is not None:
            return rows
    return None


def _nodes_in(value: Any) -> list[Node]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Node)]


class _Call:
    """A call, and what one rule says about its arguments."""

    def __init__(self, node: Node, overload: Any, roles: tuple[str, ...]) -> None:
        self.node, self.roles = node, roles
        names = [argument.name for argument in overload._schema.arguments]
        self.given = dict(zip(names, node.args, strict=False)) | node.kwargs
        self.role_of = dict(zip(names, roles, strict=True))
        self.results = results_of(node)

    def _with_role(self, *roles: str) -> Iterator[tuple[str, Any]]:
        return ((n, v) for n, v in self.given.items() if self.role_of[n] in roles and v is not None)

    def rows(self) -> Rows | None:
        arguments = self.node.all_input_nodes
        if not self.results or any(n.meta.get("val") is None for n in arguments):
            return None
        if "operand" in self.roles:
            return self._of_operands()
        fronts = [n for _, value in self._with_role("front") for n in _nodes_in(value)]
        if not fronts:
            return None
        sizes = _common([n.meta["val"] for n in fronts] + list(self.results.values()))
        sizes = sizes[: self._undivided(fronts[0].meta["val"].dim())]
        depth = next((d for d in range(len(sizes), 0, -1) if self._is_batch(d)), 0)
        if depth == 0:
            return None
        along, whole = tuple(range(depth)), (None,) * depth
        places: dict[Node, Places] = {n: along if n in fronts else whole for n in arguments}
        whole_too = {n for name, value in self.given.items() if name not in dict(self._with_role("front"))
                     for n in _nodes_in(value)}  # fmt: skip
        return None if whole_too & set(fronts) else Rows(sizes[:depth], places, self._is_view(), self.roles)

    def _of_operands(self) -> Rows | None:
        operands = {n for _, value in self._with_role("operand") for n in _nodes_in(value)}
        sizes = tuple(next(iter(self.results.values())).size())
        if not sizes or not operands:
            return None
        places = {n: _broadcast(tuple(n.meta["val"].size()), sizes) for n in operands}
        others = [n for n in self.node.all_input_nodes if n not in operands]
        whole = {n: (None,) * len(sizes) for n in others}
        return Rows(sizes, places | whole, self._is_view(), self.roles)

    def _rank(self, of_first: int) -> int:
        listed = [len(value) for _, value in self._with_role("sizes")]
        return listed[0] if listed else of_first

    def _undivided(self, of_first: int) -> int:
        """The number of leading dimensions that no argument names."""
        depth, rank = of_first, self._rank(of_first)
        for name, role in self.role_of.items():
            if role in ("dim", *_LISTS, *_NEW):
                dims = _dims_in(self.given.get(name))
                if not dims:  # none named may mean all
                    return 0
                count = rank + (role in _NEW)
                wrapped = [d + count if d < 0 else d for d in dims]
                if role == "order":
                    fixed = [i for i, d in enumerate(wrapped) if i != d]
                    depth = min([depth, *fixed])
                else:
                    depth = min(depth, *wrapped)
        return depth

    def _is_batch(self, depth: int) -> bool:
        """Whether the call without its leading dimensions is one that the operator accepts.

        Then the call is what the rule makes of that smaller one. An operator on matrices has the same rule
        for its matrix as for a batch: its rows are no calls of their own.
        """
        values = {n: n.meta["val"] for n in self.node.all_input_nodes}
        for _, value in self._with_role("front"):
            for n in _nodes_in(value):
                like = n.meta["val"]
                values[n] = flambeau.empty(like.size()[depth:], dtype=like.dtype, device="meta")
        made = {name: self._smaller(name, value, depth) for name, value in self.given.items()}
        given = {name: map_arg(value, values.__getitem__) for name, value in made.items()}
        positional = list(given)[: len(self.node.args)]
        arguments = [given.pop(name) for name in positional]
        try:
            with flambeau.no_grad():
                results = self.node.target(*arguments, **given)
        except Exception:  # whatever the operator says, it does not accept the call
            return False
        found = list(results) if isinstance(results, list | tuple) else [results]
        return all(found[i].size() == like.size()[depth:] for i, like in self.results.items())

    def _smaller(self, name: str, value: Any, depth: int) -> Any:
        role = self.role_of[name]
        if value is None or role in ("", "front"):
            return value
        if role == "sizes":
            return value[depth:]
        dims = _dims_in(value)
        moved = [d if d < 0 else d - depth for d in (dims[depth:] if role == "order" else dims)]
        return moved if isinstance(value, list | tuple) else moved[0]

    def _is_view(self) -> bool:
        storages = [n.meta["val"].untyped_storage() for n in self.node.all_input_nodes]
        return any(result.untyped_storage() is s for result in self.results.values() for s in storages)


def _dims_in(value: Any) -> list[int]:
    dims = list(value) if isinstance(value, list | tuple) else [value]
    return [] if any(type(d) is not int for d in dims) else dims


def _common(values: list[Any]) -> tuple[int, ...]:
    """The leading sizes that all tensors have."""
    sizes = [tuple(value.size()) for value in values]
    depth = 0
    while all(len(s) > depth and s[depth] == sizes[0][depth] for s in sizes):
        depth += 1
    return sizes[0][:depth]


def _broadcast(own: tuple[int, ...], sizes: tuple[int, ...]) -> Places:
    skip = len(sizes) - len(own)
    return tuple(
        d - skip if d >= skip and (own[d - skip] != 1 or sizes[d] == 1) else None for d in range(len(sizes))
    )


def sliced(node: Node, lengths: tuple[int, ...]) -> Callable[[Callable[[Node], Any]], tuple[Any, Any]]:
    """Return what makes the arguments of a node's call on a slice.

    Args:
        node: a node that `rows_of` divides.
        lengths: of the slice along the leading dimensions.
    """
    overload, rows = overload_of(node), rows_of(node)
    args, kwargs = list(node.args), dict(node.kwargs)
    if overload is not None and rows is not None:
        names = [argument.name for argument in overload._schema.arguments]
        for i, (name, role) in enumerate(zip(names, rows.roles, strict=True)):
            if role != "sizes":
                continue
            if i < len(args):
                args[i] = [*lengths, *args[i][len(lengths) :]]
            elif kwargs.get(name) is not None:
                kwargs[name] = [*lengths, *kwargs[name][len(lengths) :]]
    return lambda value_of: (map_arg(tuple(args), value_of), map_arg(kwargs, value_of))
