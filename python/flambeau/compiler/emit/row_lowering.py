"""From a group of operators to a loop over rows: values, arrays, and the numbers that they need."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.compiler.emit.kernels import is_memory_type
from flambeau.compiler.ir.loops import parsed
from flambeau.compiler.ir.row_loops import Domain, RowArray, RowLoop, RowValue, Unfit, argument, sizes_of
from flambeau.compiler.passes.fusion import Group, is_pointwise
from flambeau.compiler.passes.row_loops import (
    flattened,
    fold_of,
    indexing_of,
    is_cast,
    is_same_elements,
    summed_over_rows,
)
from flambeau.fx.node import Node, map_arg

_MOST_ARRAYS = 24
_MOST_VALUES = 160
_SLOT = 16  # bytes
_HALVES = ("float16", "bfloat16")
_INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")


def lowered(domain: Domain, group: Group) -> RowLoop:
    """Return the loop of a group.

    Raises: `Unfit` for a node that such a loop cannot compute.
    """
    graph = flattened(group)
    slots = [node for node in graph.nodes if node.op == "placeholder"]
    maker = _Maker(domain, dict(zip(slots, group.inputs, strict=True)))
    for node in graph.nodes:
        if node.op == "call_function":
            maker.lower(node)
    results = next(n for n in reversed(graph.nodes) if n.op == "output").args[0]
    for own, node in zip(group.outputs, results, strict=True):
        maker.result(own, node)
    if len(maker.loop.arrays) > _MOST_ARRAYS or len(maker.loop.values) > _MOST_VALUES:
        raise Unfit(group.nodes[-1])
    return maker.loop


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


class _Maker:
    def __init__(self, domain: Domain, inputs: dict[Node, Node]) -> None:
        self.domain, self.loop, self._inputs = domain, RowLoop(domain), inputs
        self._values: dict[Node, int] = {}  # of the group's nodes
        self._sums: dict[Node, int] = {}
        self._known: dict[Any, int] = {}  # places of loads, numbers and conversions

    def lower(self, node: Node) -> None:
        """Add the values of one node."""
        value = node.meta.get("val")
        if value is None or value.layout is not flambeau.strided:
            raise Unfit(node)
        first = summed_over_rows(node)
        if first is not None:
            self._sums[node] = self._value_of(node, first, sizes_of(first))
        elif fold_of(node) is not None:
            self._values[node] = self._fold(node)
        elif is_cast(node):
            value_of = self._value_of(node, node.all_input_nodes[0], sizes_of(node))
            self._values[node] = self._as(value_of, _name(value.dtype))
        elif indexing_of(node):
            self._values[node] = self._indexed(node)
        elif _shares_memory(node):
            self._view(node)
        elif is_pointwise(node) and self.domain.form(sizes_of(node)):
            self._values[node] = self._pointwise(node)
        else:
            raise Unfit(node)

    def _view(self, node: Node) -> None:
        """Give a view the value of what it views; views of inputs are loaded where they are read."""
        source = node.all_input_nodes[0]
        for known in (self._values, self._sums):
            if source in known:
                if not is_same_elements(node):
                    raise Unfit(node)
                known[node] = known[source]

    def _add(self, value: RowValue) -> int:
        operands = [self.loop.values[o] for o in value.operands] if value.kind in _ON_VALUES else []
        if value.kind == "fold":
            value.is_row, value.level = True, 1 + max(o.level for o in operands)
        elif value.kind in ("pick", "place"):
            value.is_row, value.level = value.kind == "pick", max(o.level for o in operands)
        elif operands:
            value.is_row = all(o.is_row for o in operands)
            value.level = max(o.level for o in operands)
        self.loop.values.append(value)
        return len(self.loop.values) - 1

    def _once(self, key: Any, value: RowValue) -> int:
        if key not in self._known:
            self._known[key] = self._add(value)
        return self._known[key]

    def _as(self, place: int, dtype: str) -> int:
        if self.loop.values[place].dtype == dtype:
            return place
        return self._once(("convert", place, dtype), RowValue("convert", dtype, [place]))

    def _value_of(self, node: Node, given: Node, sizes: tuple[int, ...]) -> int:
        """Return the value of an argument of `node`, broadcast to `sizes`."""
        if given in self._sums:
            raise Unfit(node)
        if given not in self._values:
            return self._load(node, given, sizes, _name(given.meta["val"].dtype))
        own = sizes_of(given)
        if own != sizes and (own, sizes) != (
            (*self.domain.sizes, 1),
            (*self.domain.sizes, self.domain.columns),
        ):
            raise Unfit(node)
        return self._values[given]

    def _load(self, node: Node, given: Node, sizes: tuple[int, ...], dtype: str) -> int:
        tensor, form, root = given.meta["val"], self.domain.form(sizes), _root(given)
        of_root = root.meta["val"]
        if root.op != "placeholder" or not form or not is_memory_type(_name(tensor.dtype)):
            raise Unfit(node)
        if tensor.dtype != of_root.dtype or tensor.storage_offset() != of_root.storage_offset():
            raise Unfit(node)
        wide = tensor.expand(sizes)
        strides = [s if n != 1 else 0 for n, s in zip(sizes, wide.stride(), strict=True)]
        columns = strides.pop() if len(sizes) > len(self.domain.sizes) else 0
        array = self._array(self._inputs[root], tensor, columns if form == "element" else 0, strides)
        is_row = self.loop.arrays[array].steps == "row"
        return self._once(("load", array, dtype), RowValue("load", dtype, [array], is_row=is_row))

    def _array(self, node: Node | tuple[str, str], tensor: Any, column: int, rows: list[int]) -> int:
        size = tensor.element_size()
        steps = "row" if column == 0 else "unit" if column == 1 else "strided"
        strides = (column * size, *(s * size for s in reversed(rows)))
        array = RowArray(_name(tensor.dtype), steps, node, strides)
        if array not in self.loop.arrays:
            self.loop.arrays.append(array)
        return self.loop.arrays.index(array)

    def _fold(self, node: Node) -> int:
        fold = fold_of(node)
        assert fold is not None
        sizes = sizes_of(argument(node, fold.operands[0]))
        if self.domain.form(sizes) != "element" or fold.dims != [len(sizes) - 1] or fold.params:
            raise Unfit(node)
        given = [self._value_of(node, argument(node, name), sizes) for name in fold.operands]
        dtype = argument(node, "dtype")
        common = _name(dtype) if dtype is not None else self.loop.values[given[0]].dtype
        compute = "float32" if common in _HALVES else common
        if common in _INTEGERS:
            compute = "int64" if fold.widens else common
        if dtype is not None:
            given = [self._as(place, common) for place in given]
        given = [self._as(place, compute) for place in given]
        own, result = _name(node.meta["val"].dtype), "bool" if fold.is_truth else compute
        if (
            not is_memory_type(own)
            or not is_memory_type(compute)
            or any(self.loop.values[p].dtype != compute for p in given)
        ):
            raise Unfit(node)
        return self._as(self._add(RowValue("fold", result, given, fold.name, compute)), own)

    def _indexed(self, node: Node) -> int:
        """Return the value of a gather of one element from each row, or of its gradient."""
        found = indexing_of(node)
        assert found is not None
        kind, given, index = found
        rows = (*self.domain.sizes, 1)
        if sizes_of(index) != rows or self.domain.form(sizes_of(node)) != (
            "row" if kind == "pick" else "element"
        ):
            raise Unfit(node)
        at = self._as(self._value_of(node, index, rows), "int64")
        value = self._value_of(node, given, sizes_of(given))
        dtype = self.loop.values[value].dtype
        if not self.loop.values[at].is_row or dtype != _name(node.meta["val"].dtype):
            raise Unfit(node)
        return self._add(RowValue(kind, dtype, [value, at]))

    def _pointwise(self, node: Node) -> int:
        made, given = _recorded(node)
        parts, slots = made.parts(*(_stand_in(n) for n in given))
        if len(parts) != 1 or not parts[0][0]:
            raise Unfit(node)
        text, places = parts[0]
        base = len(self.loop.slots) // _SLOT
        self.loop.slots += slots
        of: list[int] = []
        for value in parsed(text).values:
            if not is_memory_type(value.dtype) or (value.kind == "run" and not is_memory_type(value.compute)):
                raise Unfit(node)
            if value.kind == "load":
                of.append(self._operand(node, places[value.operands[0]], given, value.dtype))
            elif value.kind == "number":
                slot = base + value.operands[0]
                of.append(self._add(RowValue("number", value.dtype, [slot], is_row=True)))
            else:
                operands = [of[o] for o in value.operands]
                of.append(self._add(RowValue(value.kind, value.dtype, operands, value.cell, value.compute,
                                             base + value.slot, value.params)))  # fmt: skip
        return self._as(of[-1], _name(node.meta["val"].dtype))

    def _operand(self, node: Node, place: Any, given: list[Node], dtype: str) -> int:
        """Return the value of an array of a recorded call: an input, or a constant number."""
        if place is None:
            raise Unfit(node)
        if isinstance(place, int):
            return self._as(self._value_of(node, given[place], sizes_of(node)), dtype)
        own = _name(place.dtype)
        name = (own, repr(place.item()))
        self.loop.constants.setdefault(name, place)
        array = self._array(name, place, 0, [0] * len(self.domain.sizes))
        return self._as(self._once(("load", array, own), RowValue("load", own, [array], is_row=True)), dtype)

    def result(self, own: Node, node: Node) -> None:
        """Note that a node of the flat graph is a result of the group."""
        tensor = own.meta["val"]
        if node in self._sums:
            self.loop.sums[own] = self._sums[node]
            return
        form = self.domain.form(sizes_of(own))
        if node not in self._values or not form or not _is_dense(tensor):
            raise Unfit(own)
        place = self._as(self._values[node], _name(tensor.dtype))
        strides = [s if n != 1 else 0 for n, s in zip(tensor.size(), tensor.stride(), strict=True)]
        column = strides.pop() if len(strides) > len(self.domain.sizes) else 0
        array = self._array(own, tensor, column, strides)
        self.loop.values[place].stores.append(array)
        self.loop.results[own] = array


_ON_VALUES = ("run", "convert", "fold", "pick", "place")


def _root(node: Node) -> Node:
    while node.op == "call_function" and _shares_memory(node):
        node = node.all_input_nodes[0]
    return node


def _shares_memory(node: Node) -> bool:
    value, sources = node.meta.get("val"), node.all_input_nodes
    if len(sources) != 1 or value is None or sources[0].meta.get("val") is None:
        return False
    return bool(value.untyped_storage() is sources[0].meta["val"].untyped_storage())


def _is_dense(tensor: Any) -> bool:
    reach = 1 + sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    return bool(tensor.numel() == reach)


def _stand_in(node: Node) -> Any:
    """A tensor of a node's sizes and dtype that takes no memory."""
    like = node.meta["val"]
    return (
        flambeau.empty(1, dtype=like.dtype).expand(like.size())
        if like.dim()
        else flambeau.empty((), dtype=like.dtype)
    )


def _recorded(node: Node) -> tuple[Any, list[Node]]:
    """Return the fused group of one call, and the nodes that it reads."""
    given = node.all_input_nodes
    values = {n: _stand_in(n) for n in given}
    recorder = flambeau._C._FusedRecorder([values[n] for n in given])
    with flambeau.no_grad(), recorder:
        result = node.target(
            *map_arg(node.args, values.__getitem__), **map_arg(node.kwargs, values.__getitem__)
        )
    if recorder.steps != 1:
        raise Unfit(node)
    return recorder.group([result]), given
