"""Groups of operators along rows that one generated kernel computes, where it is quicker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.compiler.emit import background
from flambeau.compiler.emit.program import program
from flambeau.compiler.emit.row_lowering import lowered
from flambeau.compiler.emit.row_text import SCRATCH_BYTES, RowText
from flambeau.compiler.emit.rows import slice_rows, sliced_groups
from flambeau.compiler.ir.dependences import Dependences
from flambeau.compiler.ir.row_loops import Domain, RowLoop, Unfit
from flambeau.compiler.passes.fusion import Group
from flambeau.compiler.passes.replacement import graph_of, replace, users_between
from flambeau.compiler.passes.row_loops import row_groups
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

_TRIES = 12  # groups that do not fit; each lacks one node the next time
_TRIALS = 10  # timed calls of each way; the first does not count
_GAIN = 0.97  # the most of the time of the operators that the kernel may take
_CPU = flambeau.device("cpu")


def use_row_kernels(graph: Graph) -> None:
    """Replace each group of a graph that one loop over rows computes by a node that calls a `RowKernel`."""
    if not background.tier():
        return
    refused, dependences = set[Node](), Dependences(graph)
    for _ in range(_TRIES):
        made = next(_fitting(graph, dependences, refused), None)
        if made is None:
            return
        group, moved, call = made
        replace(graph, dependences, group, moved, call)


def _fitting(graph: Graph, dependences: Dependences, refused: set[Node]) -> Any:
    for _ in range(_TRIES):
        count = len(refused)
        for domain, group in row_groups(graph, dependences, refused):
            moved = users_between(graph, dependences, group)
            if moved is None:
                refused.update(group.nodes)
                continue
            try:
                loop = lowered(domain, group)
                yield group, moved, RowKernel(group, domain, loop, RowText(loop))
            except Unfit as unfit:
                refused.update(group.nodes if unfit.node not in group.nodes else [unfit.node])
        if len(refused) == count:
            return


class RowKernel:
    """A function of a group's inputs that returns a list of its outputs.

    It runs the operators until the kernel is compiled. Then the first calls measure both ways, and the
    quicker one stays. Where the program asks for deterministic algorithms, the operators run.
    """

    def __init__(self, group: Group, domain: Domain, loop: RowLoop, made: RowText) -> None:
        self.__name__ = "row_kernel"
        self.text, self._loop, self.group = made.text, loop, group
        graph = graph_of(group)
        slice_rows(graph)
        self.slices = sliced_groups(graph)
        self._operators, self.writer = program(graph, {})
        self._geometry = [(n.meta["val"].size(), n.meta["val"].stride()) for n in group.inputs]
        self._sizes, self._strides = _merged(domain.sizes, [a.strides for a in loop.arrays])
        self._scratch = made.scratch * (domain.columns * SCRATCH_BYTES + 64)
        self._cost = domain.columns * (len(loop.arrays) + len(loop.values) // 2)
        self._inputs = [group.inputs.index(a.node) if a.node in group.inputs else -1 for a in loop.arrays]
        self._outputs = [(n, n.meta["val"]) for n in group.outputs]
        self._address = 0
        self._is_measured = True
        self._times: list[list[float]] = [[], []]
        self._timing = threading.Lock()  # one thread measures
        self._chosen: Callable[..., list[Any]] | None = None

    def install(self, text: str, address: int, is_measured: bool) -> None:
        """Take the compiled kernel of `text`."""
        self._is_measured, self._address = is_measured, address

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run the group."""
        if not self._address or flambeau.are_deterministic_algorithms_enabled() or not self._fits(inputs):
            return self._operators(*inputs)
        if not self._is_measured:
            return self.run(*inputs)
        if self._chosen is not None:
            return self._chosen(*inputs)
        if not self._timing.acquire(blocking=False):
            return self._operators(*inputs)
        try:
            return self._measured(*inputs)
        finally:
            self._timing.release()

    def _fits(self, inputs: tuple[Any, ...]) -> bool:
        """Whether inputs lie in memory as those that the kernel was made for."""
        return all(
            x.size() == size and x.stride() == stride
            for x, (size, stride) in zip(inputs, self._geometry, strict=True)
        )

    def _measured(self, *inputs: Any) -> list[Any]:
        times = self._times
        is_kernel = len(times[1]) < len(times[0])
        begin = time.perf_counter()
        results = self.run(*inputs) if is_kernel else self._operators(*inputs)
        times[is_kernel].append(time.perf_counter() - begin)
        if len(times[1]) >= _TRIALS:
            is_quicker = min(times[1][1:]) < _GAIN * min(times[0][1:])
            self._chosen = self.run if is_quicker else self._operators
        return results

    @property
    def choice(self) -> str:
        """Which way runs: "operators", "kernel", or "measuring"."""
        if self._chosen is not None or not self._is_measured:
            return "operators" if self._chosen == self._operators else "kernel"
        return "measuring" if self._address else "operators"

    @property
    def gains_nothing(self) -> bool:
        """Whether the operators were found to be quicker, and none of them are in one loop."""
        is_plain = self._chosen == self._operators and not self.writer.groups
        return is_plain and all(sliced.gains_nothing for sliced in self.slices)

    def run(self, *inputs: Any) -> list[Any]:
        """Run the group through its kernel."""
        loop, sums = self._loop, None
        places = list(dict.fromkeys(loop.sums.values()))
        if places:
            sums = flambeau.empty((len(places), loop.domain.columns), dtype=flambeau.float64, device=_CPU)
        made = {
            node: flambeau.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=_CPU)
            for node, like in self._outputs
            if node not in loop.sums
        }
        known: dict[Any, Any] = {**loop.constants, **made}
        tensors = tuple(
            inputs[i] if i >= 0 else known[array.node]
            for i, array in zip(self._inputs, loop.arrays, strict=True)
        )
        errors = flambeau._C._run_row_kernel(
            self._address, loop.domain.columns, self._sizes, self._strides, self._scratch, self._cost,
            loop.slots, tensors, sums,
        )  # fmt: skip
        if errors:  # the operators raise it
            return self._operators(*inputs)
        for node, like in self._outputs:
            if sums is not None and node in loop.sums:
                total = sums[places.index(loop.sums[node])]
                made[node] = total.to(like.dtype, copy=True).view(like.size())
        return [made[node] for node, _ in self._outputs]

    def describe(self) -> str:
        """Return the kernel, and the program that runs without it."""
        return f"{self.text}\n{self.writer.described(self.writer.text)}"


def row_kernels(graph: Graph) -> list[RowKernel]:
    """Return the row kernels that a graph calls."""
    return [node.target for node in graph.nodes if isinstance(node.target, RowKernel)]


def _merged(
    sizes: tuple[int, ...], strides: list[tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of rows, innermost first, and all strides; neighbouring dimensions become one."""
    lengths, steps = list[int](), [[own[0]] for own in strides]
    for d, size in enumerate(reversed(sizes)):
        own = [array[d + 1] for array in strides]
        if size == 1:
            continue
        if lengths and all(s[-1] * lengths[-1] == o for s, o in zip(steps, own, strict=True)):
            lengths[-1] *= size
            continue
        lengths.append(size)
        for s, o in zip(steps, own, strict=True):
            s.append(o)
    return tuple(lengths), tuple(n for own in steps for n in own)
