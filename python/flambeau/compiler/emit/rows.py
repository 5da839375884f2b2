"""Programs of row groups: the same operators on one slice of the leading dimensions after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import flambeau
from flambeau.compiler.emit.program import Writer, program
from flambeau.compiler.ir.dependences import Dependences
from flambeau.compiler.ir.rows import Places, Rows, rows_of, sliced
from flambeau.compiler.passes.fusion import boundary, is_fusable
from flambeau.compiler.passes.replacement import graph_of, replace, users_between
from flambeau.compiler.passes.rows import RowGroup, divisible_groups, is_large, with_slices
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node, map_arg

_CPU = flambeau.device("cpu")
_TRIALS = 3  # timed calls of each way; the first does not count
_GAIN = 0.95  # the most of the time of whole tensors that slices may take


def could_slice(graph: Graph) -> bool:
    """Whether a graph has operators that could run slice by slice at other sizes."""
    return bool(divisible_groups(graph, Dependences(graph)))


def slice_rows(graph: Graph) -> None:
    """Replace each row group of a graph by one node that calls a `Sliced`."""
    if not is_large(graph.nodes):
        return
    dependences = Dependences(graph)
    for group in filter(None, map(with_slices, divisible_groups(graph, dependences))):
        now = boundary(group.nodes)  # an earlier group may have become a node
        group.inputs, group.outputs = now.inputs, now.outputs
        moved = users_between(graph, dependences, group)
        if moved is not None:
            replace(graph, dependences, group, moved, Sliced(group))


class Sliced:
    """A function of a group's inputs that returns a list of its outputs.

    The first calls measure whether slices are quicker than the operators on whole tensors, and the quicker
    way stays. Both ways call the same kernels. Their results are equal bit for bit, except where a kernel
    rounds by the place of an element: a reduction whose threads share a row, or whose rows are not adjacent
    in memory, adds in another order, and loops end with the C library's functions for single numbers. Where
    the program asks for deterministic algorithms, the operators run on whole tensors.
    """

    def __init__(self, group: RowGroup) -> None:
        self.__name__ = "rows"
        self.group = group
        self._arguments = _arguments(group)
        self._whole, writer = _whole_body(group)
        self._fuses_whole = bool(writer.groups)
        bodies: dict[tuple[int, ...], _Body] = {}
        self._parts = []
        for part in group.slices():
            lengths = tuple(length for _, length in part)
            if lengths not in bodies:
                bodies[lengths] = _Body(group, self._arguments, lengths)
            self._parts.append((bodies[lengths], part))
        self._bodies = list(bodies.values())
        self._results = [
            (n.meta["val"].size(), n.meta["val"].stride(), n.meta["val"].dtype) for n in group.outputs
        ]
        self._times: list[list[float]] = [[], []]
        self._timing = threading.Lock()  # one thread measures; its own time is what counts
        self._chosen: Callable[..., list[Any]] | None = None

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run the group."""
        if flambeau.are_deterministic_algorithms_enabled():
            return self._whole(*inputs)
        if self._chosen is not None:
            return self._chosen(*inputs)
        if not self._timing.acquire(blocking=False):
            return self._whole(*inputs)
        try:
            return self._measured(*inputs)
        finally:
            self._timing.release()

    def _measured(self, *inputs: Any) -> list[Any]:
        """Run the group, whole and in slices by turns; `_TRIALS` calls of each decide which way stays."""
        times = self._times
        is_sliced = len(times[1]) < len(times[0])
        begin = time.perf_counter()
        results = self.run(*inputs) if is_sliced else self._whole(*inputs)
        times[is_sliced].append(time.perf_counter() - begin)
        if len(times[1]) >= _TRIALS:
            is_quicker = min(times[1][1:]) < _GAIN * min(times[0][1:])
            self._chosen = self.run if is_quicker else self._whole
        return results

    @property
    def gains_nothing(self) -> bool:
        """Whether whole tensors were found to be quicker, and no operators on them are in one loop."""
        return self._chosen is self._whole and not self._fuses_whole

    def run(self, *inputs: Any) -> list[Any]:
        """Run the group slice by slice."""
        results = [
            flambeau.empty_strided(size, stride, dtype=dtype, device=_CPU)
            for size, stride, dtype in self._results
        ]
        for body, part in self._parts:
            given = [_slice(inputs[i], places, part) for i, places in self._arguments]
            outs = [_slice(result, range(len(part)), part) for result in results]
            made = body.run(*given, *(outs[i] for i in body.written))
            for i in body.copied:
                outs[i].copy_(made[i])
        return results

    def describe(self) -> str:
        """Return the program of a slice with its groups."""
        parts = [f"{len(self._parts)} slices of {self.group.length} along {list(self.group.sizes)}"]
        return "\n".join(parts + [body.writer.described(body.writer.text) for body in self._bodies])


def sliced_groups(graph: Graph) -> list[Sliced]:
    """Return the row groups that a graph calls."""
    return [node.target for node in graph.nodes if isinstance(node.target, Sliced)]


def _slice(tensor: Any, places: Iterable[int | None], part: tuple[tuple[int, int], ...]) -> Any:
    for d, (start, length) in zip(places, part, strict=True):
        if d is not None:
            tensor = tensor.narrow(d, start, length)
    return tensor


def _arguments(group: RowGroup) -> list[tuple[int, Places]]:
    """Return what slices read: the place of an input, and the dimension of each leading one in it."""
    depth, place = len(group.sizes), {node: i for i, node in enumerate(group.inputs)}
    found = dict[tuple[int, Places], None]()
    for node in group.nodes:
        for argument, places in _rows(node).places.items():
            if argument in place:
                found[place[argument], places[:depth]] = None
    return list(found)


def _rows(node: Node) -> Rows:
    rows = rows_of(node)
    assert rows is not None, "slice_rows: expected nodes that can be divided"
    return rows


def _whole_body(group: RowGroup) -> tuple[Callable[..., list[Any]], Writer]:
    """Return the program of a group on whole tensors, and what wrote it."""
    return program(graph_of(group), {})


class _Body:
    """The program of a group on slices of given lengths.

    Args:
        group: the group.
        arguments: what the program reads, as `_arguments` gives it.
        lengths: of a slice along each leading dimension.

    The program takes slices of the arguments, then slices of the results with the places `written`, which it
    writes to; it returns all results, and those with the places `copied` are in other memory.
    """

    def __init__(
        self, group: RowGroup, arguments: list[tuple[int, Places]], lengths: tuple[int, ...]
    ) -> None:
        self._graph, self._depth = Graph(), len(group.sizes)
        part = tuple((0, n) for n in lengths)
        made = dict[Any, Node]()
        for i, places in arguments:
            source = group.inputs[i]
            node = made[source, places] = self._graph.placeholder(f"{source.name}_{len(made)}")
            node.meta["val"] = _slice(source.meta["val"], places, part)
        for node in group.nodes:
            made[node] = self._copy(node, made, lengths)
        outputs = [made[node] for node in group.outputs]
        into = dict[Node, Node]()
        for node in group.outputs:
            target = _slice(node.meta["val"], range(self._depth), part)
            if is_fusable(made[node]) and _is_like(made[node].meta["val"], target):
                into[made[node]] = self._graph.placeholder(f"out_{len(into)}")
                into[made[node]].meta["val"] = target
        self._graph.output(outputs)
        self.written = [i for i, node in enumerate(outputs) if node in into]
        self.copied = [i for i, node in enumerate(outputs) if node not in into]
        self.run, self.writer = program(self._graph, {}, into=into)

    def _copy(self, node: Node, made: dict[Any, Node], lengths: tuple[int, ...]) -> Node:
        """Add a node's call on slices."""
        places = _rows(node).places

        def copy_of(argument: Node) -> Node:
            return made[argument] if argument in made else made[argument, places[argument][: self._depth]]

        args, kwargs = sliced(node, lengths)(copy_of)
        copy = self._graph.call_function(node.target, args, kwargs)
        _run_without_memory(copy)
        return copy


def _is_like(one: Any, two: Any) -> bool:
    """Whether two tensors have one size, dtype, and memory order."""
    strides = zip(one.size(), one.stride(), two.stride(), strict=True)
    return one.dtype == two.dtype and all(n == 1 or a == b for n, a, b in strides)


def _run_without_memory(node: Node) -> None:
    """Note the tensors that a node's call gives."""
    args = map_arg(node.args, _value_of)
    with flambeau.no_grad():
        result = node.target(*args, **map_arg(node.kwargs, _value_of))
    if isinstance(result, flambeau.Tensor):
        node.meta["val"] = result
    else:
        node.meta["all"] = result


def _value_of(node: Node) -> Any:
    return node.meta["all"] if "all" in node.meta else node.meta["val"]
