"""Groups of operators along rows that one generated kernel computes, where it is quicker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import flambeau
from flambeau.compiler.emit import background
from flambeau.compiler.emit.program import program, rebound
from flambeau.compiler.emit.row_geometry import Geometry, resized
from flambeau.compiler.emit.row_lowering import lowered
from flambeau.compiler.emit.row_text import RowText
from flambeau.compiler.emit.rows import slice_rows, sliced_groups
from flambeau.compiler.ir.dependences import Dependences
from flambeau.compiler.ir.open_numbers import Number, mapped
from flambeau.compiler.ir.row_loops import Domain, RowLoop, Unfit
from flambeau.compiler.passes.fusion import Group
from flambeau.compiler.passes.replacement import graph_of, replace, users_between
from flambeau.compiler.passes.row_loops import row_groups
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

_TRIES = 12  # groups that do not fit; each lacks one node the next time
_TRIALS = 10  # timed calls of each way; the first does not count
_MOST_GEOMETRIES = 4096
_GAIN = 0.97  # the most of the time of the operators that the kernel may take


def use_row_kernels(graph: Graph) -> None:
    """Replace each group of a graph that one loop over rows computes by a node that calls a `RowKernel`."""
    _use(graph, is_open=False)


def use_resizable_row_kernels(graph: Graph) -> None:
    """Do the same in a graph whose program serves other sizes too."""
    _use(graph, is_open=True)
    shared = dict[Any, Sizes]()
    for kernel in row_kernels(graph):
        kernel.sizes = shared.setdefault((kernel.text, _structure(kernel.group)), kernel.sizes)


def _structure(group: Group) -> Any:
    """Return a key that is equal for groups of the same calls."""
    place = {node: i for i, node in enumerate([*group.inputs, *group.nodes])}

    def named(leaf: Any) -> Any:
        return place[leaf] if isinstance(leaf, Node) else getattr(leaf, "name", None) or repr(leaf)

    calls = tuple((node.target, repr(mapped((node.args, node.kwargs), named))) for node in group.nodes)
    return calls, tuple(place[node] for node in group.outputs)


def _use(graph: Graph, is_open: bool) -> None:
    if not background.tier():
        return
    refused, dependences = set[Node](), Dependences(graph)
    for _ in range(_TRIES):
        made = next(_fitting(graph, dependences, refused, is_open), None)
        if made is None:
            return
        group, moved, call = made
        replace(graph, dependences, group, moved, call)


def _fitting(graph: Graph, dependences: Dependences, refused: set[Node], is_open: bool) -> Any:
    for _ in range(_TRIES):
        count = len(refused)
        for domain, group in row_groups(graph, dependences, refused):
            moved = users_between(graph, dependences, group)
            if moved is None:
                refused.update(group.nodes)
                continue
            try:
                loop = lowered(domain, group)
                yield group, moved, RowKernel(group, domain, loop, RowText(loop), is_open)
            except Unfit as unfit:
                refused.update(group.nodes if unfit.node not in group.nodes else [unfit.node])
        if len(refused) == count:
            return


def _whole(graph: Graph) -> Group:
    """Return all nodes of the graph of a group as a group."""
    nodes, ends = list(graph.nodes), next(n for n in reversed(graph.nodes) if n.op == "output")
    inputs = [node for node in nodes if node.op == "placeholder"]
    return Group([node for node in nodes if node.op == "call_function"], inputs, list(ends.args[0]))


class Trial:
    """The times of both ways of a kernel's group at sizes of one class."""

    def __init__(self) -> None:
        self.times: list[list[float]] = [[], []]
        self.timing = threading.Lock()  # one thread measures
        self.is_kernel: bool | None = None  # which way stays

    def note(self, is_kernel: bool, seconds: float) -> None:
        """Add a time, and choose once there are enough."""
        self.times[is_kernel].append(seconds)
        if len(self.times[1]) >= _TRIALS:
            self.is_kernel = min(self.times[1][1:]) < _GAIN * min(self.times[0][1:])


@dataclass
class Sizes:
    """What kernels of one text share: geometries by numbers and inputs, and trials by class of sizes."""

    geometries: dict[Any, Geometry | None] = field(default_factory=dict)
    trials: dict[tuple[int, int], Trial] = field(default_factory=dict)


class RowKernel:
    """A function of a group's inputs that returns a list of its outputs.

    It runs the operators until the kernel is compiled. Then the first calls measure both ways, and the
    quicker one stays. Where the program asks for deterministic algorithms, the operators run.
    """

    def __init__(self, group: Group, domain: Domain, loop: RowLoop, made: RowText, is_open: bool) -> None:
        self.__name__ = "row_kernel"
        self.text, graph = made.text, graph_of(group)
        self.group = _whole(graph)  # the nodes of `group` leave their graph
        if not is_open:  # slices have fixed sizes
            slice_rows(graph)
        self.slices = sliced_groups(graph)
        self._operators, self.writer = program(graph, {})
        self.geometry = Geometry.of(group, domain, loop, made.scratch)
        self.trial, self.sizes = Trial(), Sizes()
        self._address = 0
        self._is_measured = True

    def install(self, text: str, address: int, is_measured: bool) -> None:
        """Take the compiled kernel of `text`."""
        self._is_measured, self._address = is_measured, address

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run the group."""
        return self.at(self.geometry, self.trial, self._operators, inputs)

    def at(
        self, geometry: Geometry | None, trial: Trial, operators: Callable[..., Any], inputs: tuple[Any, ...]
    ) -> list[Any]:
        """Run the group at sizes that a geometry describes; `operators` is its program without a kernel."""
        is_ready = self._address and not flambeau.are_deterministic_algorithms_enabled()
        if geometry is None or not is_ready or not geometry.fits(inputs):
            return operators(*inputs)
        if not self._is_measured:
            return self.run(geometry, operators, inputs)
        if trial.is_kernel is not None:
            return self.run(geometry, operators, inputs) if trial.is_kernel else operators(*inputs)
        if not trial.timing.acquire(blocking=False):
            return operators(*inputs)
        try:
            is_kernel = len(trial.times[1]) < len(trial.times[0])
            begin = time.perf_counter()
            results = self.run(geometry, operators, inputs) if is_kernel else operators(*inputs)
            trial.note(is_kernel, time.perf_counter() - begin)
            return results
        finally:
            trial.timing.release()

    @property
    def choice(self) -> str:
        """Which way runs: "operators", "kernel", or "measuring"."""
        if not self._address:
            return "operators"
        if self._is_measured and self.trial.is_kernel is None:
            return "measuring"
        return "kernel" if self.trial.is_kernel or not self._is_measured else "operators"

    @property
    def gains_nothing(self) -> bool:
        """Whether the operators were found to be quicker, and none of them are in one loop."""
        is_plain = self.trial.is_kernel is False and not self.writer.groups
        return is_plain and all(sliced.gains_nothing for sliced in self.slices)

    def run(self, geometry: Geometry, operators: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Any]:
        """Run the group through its kernel; where that finds an error, the operators raise it."""
        made = geometry.run(self._address, inputs)
        return operators(*inputs) if made is None else made

    def bound(self, numbers: Mapping[str, Number]) -> Resized:
        """Return the function of the group at other sizes, at which these numbers replace open ones."""
        return Resized(self, numbers, rebound(self._operators, numbers))

    def describe(self) -> str:
        """Return the kernel, and the program that runs without it."""
        return f"{self.text}\n{self.writer.described(self.writer.text)}"


class Resized:
    """A row kernel at other sizes than those that it was made from; its first call finds the geometry.

    Args:
        kernel: the kernel.
        numbers: that replace open ones among arguments, by name.
        operators: the program without a kernel, with these numbers.
    """

    def __init__(
        self, kernel: RowKernel, numbers: Mapping[str, Number], operators: Callable[..., Any]
    ) -> None:
        self.__name__ = "row_kernel"
        self._kernel, self._numbers, self._operators = kernel, numbers, operators
        self._found: tuple[Geometry | None, Trial] | None = None

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run the group."""
        if self._found is None:
            self._found = self._find(inputs)
        return self._kernel.at(*self._found, self._operators, inputs)

    def _find(self, inputs: tuple[Any, ...]) -> tuple[Geometry | None, Trial]:
        kernel, sizes = self._kernel, self._kernel.sizes
        key = (*self._numbers.items(), *((x.size(), x.stride(), x.dtype) for x in inputs))
        if key not in sizes.geometries:
            if len(sizes.geometries) >= _MOST_GEOMETRIES:
                sizes.geometries.clear()
            sizes.geometries[key] = resized(kernel.group, kernel.text, self._numbers, inputs)
        geometry = sizes.geometries[key]
        if geometry is None:
            return None, kernel.trial
        return geometry, sizes.trials.setdefault(geometry.size_class(), Trial())


def row_kernels(graph: Graph) -> list[RowKernel]:
    """Return the row kernels that a graph calls."""
    return [node.target for node in graph.nodes if isinstance(node.target, RowKernel)]
