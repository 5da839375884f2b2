"""Compiled programs that serve many sizes: which numbers of a recorded graph differ between sizes.

A graph is recorded below autograd for each size. Two records with the same operators, edges and dtypes differ
in numbers alone: sizes, strides, and numbers among arguments. One program then serves both, and every size
whose record differs in these numbers alone. Sizes below 2 broadcast, so programs of other sizes
do not serve them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import flambeau
from flambeau.compiler.aot.joint import Joint
from flambeau.compiler.ir.open_numbers import Number, leaves_of, mapped, opened
from flambeau.fx.node import Node

MOST = 4  # programs, and records without one, of one captured graph

#: The key in the `meta` of a captured graph's module that holds its `Templates`.
TEMPLATES = "templates"
#: The key that tells whether a program of other sizes serves the graph.
SERVED = "served"


@dataclass
class Record:
    """A recorded graph as what all sizes share, and numbers.

    Args:
        shared: operators, edges, dtypes, memory that is shared, and where numbers are.
        numbers: of each node its arguments' ones, then the sizes, strides and offset of its result.
        held: objects whose ids are in `shared`.
    """

    shared: Any
    numbers: list[Number]
    held: list[Any] = field(default_factory=list)


class _Reader:
    def __init__(self, joint: Joint) -> None:
        self.joint, self.record = joint, Record(None, [])
        self._place: dict[Node, int] = {}
        self._storages: dict[int, int] = {}

    def read(self) -> Record:
        joint, rows = self.joint, list[Any]()
        for node in joint.graph.nodes:
            if node.op == "output":
                continue
            self._place[node] = len(self._place)
            target: Any = node.target if node.op == "call_function" else None
            if node.op == "get_attr":
                held = joint.constants[str(node.target)]
                self.record.held.append(held)
                target = repr(held.item()) if node.target in joint.numbers else id(held)
            leaves = [self._leaf(leaf) for leaf in leaves_of((node.args, node.kwargs))]
            lengths = _lengths((node.args, node.kwargs))
            rows.append((node.op, target, lengths, *leaves, self._value(node.meta.get("val"))))
        self.record.shared = (tuple(rows), *self._ends())
        return self.record

    def _ends(self) -> tuple[Any, ...]:
        joint = self.joint
        groups: Any = (joint.inputs, joint.outputs, joint.tangents, joint.gradients)
        places = tuple(tuple(-1 if n is None else self._place[n] for n in nodes) for nodes in groups)
        return places, tuple(joint.differentiable), joint.forward, tuple(joint.reached_by), repr(joint.end)

    def _leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, Node):
            return "node", self._place[leaf]
        if type(leaf) in (int, float):
            self.record.numbers.append(leaf)
            return type(leaf)
        return type(leaf), repr(leaf)

    def _value(self, value: Any) -> Any:
        if value is None:
            return None
        storage = value.untyped_storage()
        self.record.held.append(storage)
        memory = self._storages.setdefault(id(storage), len(self._storages))
        self.record.numbers += [*value.size(), *value.stride(), value.storage_offset()]
        return value.dtype, value.dim(), memory, value.requires_grad


def _lengths(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(_lengths(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _lengths(item)) for key, item in value.items())
    return None


def record_of(joint: Joint) -> Record | None:
    """Return a recorded graph as structure and numbers; None if it holds functions of branches or loops."""
    if not all(isinstance(value, flambeau.Tensor) for value in joint.constants.values()):
        return None
    return _Reader(joint).read()


@dataclass
class Template:
    """A compiled program and the numbers that differ between the sizes that it serves.

    Args:
        record: what it was compiled from.
        places: of these numbers in the record -> their names; equal numbers have one name.
        made: the program.
    """

    record: Record
    places: dict[int, str]
    made: Any = None

    def numbers_of(self, record: Record) -> dict[str, Number] | None:
        """Return the numbers for another record by name; None if the program does not serve it."""
        own = self.record.numbers
        if record.shared != self.record.shared:
            return None
        found = dict[str, Number]()
        for place, number in enumerate(record.numbers):
            name = self.places.get(place)
            if name is None:
                if not _is_same(number, own[place]):
                    return None
            elif not _is_same(found.setdefault(name, number), number) or not _are_alike(number, own[place]):
                return None
        return found

    def open(self, joint: Joint) -> None:
        """Mark the numbers among the arguments of the recorded graph that other sizes replace."""
        place = 0

        def change(leaf: Any) -> Any:
            nonlocal place
            if type(leaf) not in (int, float):
                return leaf
            place += 1
            name = self.places.get(place - 1)
            return leaf if name is None else opened(leaf, name)

        for node in joint.graph.nodes:
            if node.op == "output":
                continue
            node.args, node.kwargs = mapped(node.args, change), mapped(node.kwargs, change)
            value = node.meta.get("val")
            place += 0 if value is None else 2 * value.dim() + 1


def _is_same(one: Number, two: Number) -> bool:
    return type(one) is type(two) and (one == two or (one != one and two != two))


def _are_alike(one: Number, two: Number) -> bool:
    """Whether one program may serve both numbers: those below 2 mean something else, as negative ones do."""
    if isinstance(one, float) or isinstance(two, float):
        return type(one) is type(two)
    return min(one, two) >= 2 or max(one, two) <= -2


def compared(first: Record, second: Record) -> Template | None:
    """Return the template of a program for the second record that serves the first one too.

    Returns: None if their structures differ, or if a number that differs is by chance equal to one that does
        not: the program could then depend on it.
    """
    if first.shared != second.shared:
        return None
    pairs = list(zip(first.numbers, second.numbers, strict=True))
    fixed = {two for one, two in pairs if _is_same(one, two)}
    earlier, places = dict[Number, Number](), dict[int, str]()
    for place, (one, two) in enumerate(pairs):
        if _is_same(one, two):
            continue
        if not _are_alike(one, two):
            return None
        if two in fixed or earlier.setdefault(two, one) != one:
            return None
        places[place] = f"n_{list(earlier).index(two)}"
    return Template(second, places) if places else None


class Templates:
    """The programs of one captured graph that serve many sizes, and the records that have none."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.made: list[Template] = []
        self.is_open = True  # whether more of them are made

    def of(self, record: Record) -> tuple[Template, dict[str, Number]] | None:
        """Return a program that serves a record, and its numbers."""
        for template in self.made:
            numbers = template.numbers_of(record)
            if numbers is not None:
                return template, numbers
        return None

    def wanted(self, record: Record) -> Template | None:
        """Return the template to compile for a record, if an earlier one differs in numbers alone."""
        if not self.is_open or len(self.made) >= MOST:
            return None
        return next((t for earlier in self.records if (t := compared(earlier, record)) is not None), None)

    def note(self, record: Record) -> None:
        """Keep a record for comparison with later ones."""
        self.records = [*self.records[-(MOST - 1) :], record]


def stand_ins(inputs: list[Any], places: list[int], earlier: list[tuple[int, ...]]) -> list[Any] | None:
    """Return inputs with sizes that no other number of a program equals, by which it is compiled.

    Args:
        inputs: of a call.
        places: of those whose sizes may differ.
        earlier: the sizes that these had in an earlier call.
    Returns: None if sizes below 2 differ, or for inputs with gaps in memory.
    """
    chosen, made = dict[tuple[int, int], int](), list(inputs)
    for place, before in zip(places, earlier, strict=True):
        tensor = inputs[place]
        if len(before) != tensor.dim() or type(tensor) is not flambeau.Tensor:
            return None
        sizes = list[int]()
        for one, two in zip(before, tensor.size(), strict=True):
            if one != two and (one, two) not in chosen:
                if min(one, two) < 2:
                    return None
                chosen[one, two] = _prime_below(max(one, two), {*chosen.values(), one, two})
            sizes.append(two if one == two else chosen[one, two])
        like = _with_sizes(tensor, sizes)
        if like is None:
            return None
        made[place] = like
    return made


def _prime_below(limit: int, taken: set[int]) -> int:
    """Return a prime at most `limit`, for sizes may have an upper limit; a larger one if all are taken."""
    candidates = [*range(limit, 10, -1), *range(max(limit, 11), 4 * limit + 100)]
    return next(n for n in candidates if n not in taken and all(n % d for d in range(2, math.isqrt(n) + 1)))


def _with_sizes(tensor: Any, sizes: list[int]) -> Any:
    """Return a tensor with other sizes and the memory order of a dense one, as little touched memory."""
    order = sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), -d))
    expected, strides, step = 1, [0] * tensor.dim(), 1
    for d in order:
        if tensor.size(d) > 1 and tensor.stride(d) != expected:
            return None
        expected *= tensor.size(d)
        strides[d] = step
        step *= sizes[d]
    is_computed = tensor.requires_grad and not tensor.is_leaf
    base = flambeau.empty(tensor.storage_offset() + step, dtype=tensor.dtype)
    if tensor.storage_offset() == 0 and not tensor._is_view() and not is_computed:
        return flambeau.empty_strided(sizes, strides, dtype=tensor.dtype).requires_grad_(tensor.requires_grad)
    base.requires_grad_(is_computed)
    with flambeau.set_grad_enabled(is_computed):
        view = base.as_strided(sizes, strides, tensor.storage_offset())
    return view if is_computed else view.requires_grad_(tensor.requires_grad)
