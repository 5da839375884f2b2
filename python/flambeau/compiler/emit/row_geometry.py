"""The sizes, strides and numbers of one call of a row kernel, and the same for other sizes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau.compiler.emit.row_lowering import lowered
from flambeau.compiler.emit.row_text import SCRATCH_BYTES, RowText
from flambeau.compiler.ir.open_numbers import Number, is_open, mapped
from flambeau.compiler.ir.row_loops import Domain, RowLoop, Unfit
from flambeau.compiler.passes.fusion import Group
from flambeau.compiler.passes.row_loops import domain_of
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

_CPU = flambeau.device("cpu")
Layout = tuple[tuple[int, ...], tuple[int, ...], Any]  # sizes, strides, dtype


@dataclass
class Geometry:
    """What a kernel is called with besides its tensors.

    Args:
        columns: of a row.
        rows: the sizes of what numbers the rows, innermost first.
        strides: in bytes, by array: to the next column, then along `rows`.
        scratch: bytes of a thread's scratch memory.
        cost: of a row.
        slots: numbers and parameters.
        arrays: of each the place of an input, or -1 - the place of an output, or a constant.
        inputs: how the inputs lie in memory.
        outputs: how the outputs lie in memory.
        sums: places of outputs that are sums over rows -> places of these sums.
    """

    columns: int
    rows: tuple[int, ...]
    strides: tuple[int, ...]
    scratch: int
    cost: int
    slots: bytes
    arrays: list[Any]
    inputs: list[Layout]
    outputs: list[Layout]
    sums: dict[int, int]

    @classmethod
    def of(cls, group: Group, domain: Domain, loop: RowLoop, scratch: int) -> Geometry:
        """Return the geometry of a group's loop, which needs `scratch` arrays of scratch memory."""
        rows, strides = _merged(domain.sizes, [a.strides for a in loop.arrays])
        summed = list(dict.fromkeys(loop.sums.values()))
        arrays = list[Any]()
        for array in loop.arrays:
            if array.node in group.inputs:
                arrays.append(group.inputs.index(array.node))
            elif array.node in group.outputs:
                arrays.append(-1 - group.outputs.index(array.node))
            else:
                assert isinstance(array.node, tuple)
                arrays.append(loop.constants[array.node])
        return cls(
            domain.columns,
            rows,
            strides,
            scratch * (domain.columns * SCRATCH_BYTES + 64),
            domain.columns * (len(loop.arrays) + len(loop.values) // 2),
            loop.slots,
            arrays,
            [_layout(node) for node in group.inputs],
            [_layout(node) for node in group.outputs],
            {group.outputs.index(node): summed.index(place) for node, place in loop.sums.items()},
        )

    def fits(self, inputs: tuple[Any, ...]) -> bool:
        """Whether inputs lie in memory as this geometry says."""
        return all(
            x.size() == size and x.stride() == stride and x.dtype == dtype
            for x, (size, stride, dtype) in zip(inputs, self.inputs, strict=True)
        )

    def run(self, address: int, inputs: tuple[Any, ...]) -> list[Any] | None:
        """Call the kernel; None if it found an error, which the operators raise."""
        sums, made = None, list[Any]()
        if self.sums:
            count = len(set(self.sums.values()))
            sums = flambeau.empty((count, self.columns), dtype=flambeau.float64, device=_CPU)
        for place, (size, stride, dtype) in enumerate(self.outputs):
            is_sum = place in self.sums
            made.append(None if is_sum else flambeau.empty_strided(size, stride, dtype=dtype, device=_CPU))
        tensors = tuple(
            (inputs[a] if a >= 0 else made[-1 - a]) if isinstance(a, int) else a for a in self.arrays
        )
        errors = flambeau._C._run_row_kernel(
            address, self.columns, self.rows, self.strides, self.scratch, self.cost, self.slots, tensors, sums
        )
        if errors:
            return None
        for place, row in self.sums.items():
            size, _, dtype = self.outputs[place]
            assert sums is not None
            made[place] = sums[row].to(dtype, copy=True).view(size)
        return made

    def size_class(self) -> tuple[int, int]:
        """Return the powers of two of columns and rows; a class has one choice of the quicker way."""
        rows = 1
        for size in self.rows:
            rows *= size
        return self.columns.bit_length(), rows.bit_length()


def _layout(node: Node) -> Layout:
    value = node.meta["val"]
    return value.size(), value.stride(), value.dtype


def resized(
    group: Group, text: str, numbers: Mapping[str, Number], inputs: tuple[Any, ...]
) -> Geometry | None:
    """Return the geometry of a group's kernel for other sizes; None if the kernel does not compute these.

    The group's operators run on tensors without memory and are lowered anew. The kernel serves the sizes if
    its text, which holds no sizes, comes out the same.

    Args:
        group: the group, as it was recorded.
        text: of the kernel.
        numbers: that replace open ones among arguments, by name.
        inputs: the group's inputs.
    """
    try:
        fresh = _at(group, numbers, inputs)
        for domain in dict.fromkeys(filter(None, map(domain_of, fresh.nodes))):
            loop = lowered(domain, fresh)
            made = RowText(loop)
            if made.text == text:
                return Geometry.of(fresh, domain, loop, made.scratch)
    except Unfit:
        pass
    return None


def _at(group: Group, numbers: Mapping[str, Number], inputs: tuple[Any, ...]) -> Group:
    graph, copies = Graph(), dict[Node, Node]()

    def given(leaf: Any) -> Any:
        return copies[leaf] if isinstance(leaf, Node) else numbers[leaf.name] if is_open(leaf) else leaf

    def value(leaf: Any) -> Any:
        return leaf.meta.get("all", leaf.meta.get("val")) if isinstance(leaf, Node) else leaf

    for node, tensor in zip(group.inputs, inputs, strict=True):
        copies[node] = graph.placeholder(node.name)
        copies[node].meta["val"] = flambeau.empty_strided(
            tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta"
        )
    for node in group.nodes:
        args, kwargs = mapped(node.args, given), mapped(node.kwargs, given)
        copies[node] = copy = graph.call_function(node.target, args, kwargs)
        args, kwargs = mapped(args, value), mapped(kwargs, value)
        if kwargs.get("device") is not None:  # of a cast
            kwargs["device"] = "meta"
        with flambeau.no_grad():
            result = node.target(*args, **kwargs)
        copy.meta["val" if isinstance(result, flambeau.Tensor) else "all"] = result
    nodes = [copies[node] for node in group.nodes]
    return Group(nodes, [copies[n] for n in group.inputs], [copies[n] for n in group.outputs])


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
