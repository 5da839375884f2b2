"""What the two schedules do with parameters and gradients: buckets of "ddp", gathered groups of "fsdp".

The order of collectives is that of `nn.parallel.DistributedDataParallel` and `distributed.fsdp.fully_shard`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import flambeau
from flambeau.distributed._buckets import divided
from flambeau.distributed.simulate._program import Changes, DataParallel, Place, Rank
from flambeau.distributed.simulate._schedules import FORWARD
from flambeau.distributed.simulate._stage import Stage, Unit
from flambeau.distributed.simulate._work import Layer

_MIB = 1 << 20


@functools.lru_cache(maxsize=64)
def _bucket_sizes(shapes: tuple[tuple[int, ...], ...], dtype: str, limit: int) -> tuple[tuple[int, int], ...]:
    """Return for each bucket its number of parameters, counted from the last one, and its bytes."""
    kind = getattr(flambeau, dtype)
    parameters = [flambeau.empty(shape, dtype=kind, device="meta") for shape in shapes]
    found = []
    for bucket in divided(parameters, limit):
        found.append((len(bucket), sum(p.numel() * p.element_size() for p in bucket)))
    return tuple(found)


class Buckets(DataParallel):
    """Gradients in buckets, each of which is reduced when backward has computed its last one."""

    def __init__(self, rank: Rank) -> None:
        self.rank, self.stage, self.plan = rank, rank.stage, rank.plan
        # Backward computes the gradients of the last chunk first, and in each chunk those of the last layer.
        self.layers = [layer for layers in self.stage.chunks for layer in layers]
        shapes = tuple(shape for layer in self.layers for shape in self._shapes(layer))
        limit = int(self.plan.bucket_cap_mb * _MIB)
        self.buckets = list(_bucket_sizes(shapes, self.stage.model.dtype, limit)) if shapes else []
        self.ready = 0  # parameters with gradients, from the last one
        self.waiting: list[tuple[int, int]] = []
        self.reductions: list[int] = []

    def _shapes(self, layer: Layer) -> list[tuple[int, ...]]:
        return [weight.local(self.plan.tensor) for weight in layer.weights]

    def begin(self) -> None:
        self.waiting = list(self.buckets)
        self.ready = 0

    def gradients(self, layer: Layer, place: Place) -> Changes:
        own = not self.plan.gradient_as_bucket_view
        nbytes = self.stage.size * self.stage.elements(layer)
        return [("gradients", nbytes, False)] if place.is_first and own else []

    def after_backward(self, layer: Layer, place: Place, is_end_of_group: bool) -> None:
        if not (place.is_last or self.plan.reduces_each):
            return
        self.ready += len(layer.weights)
        while self.waiting and self.waiting[0][0] <= self.ready:
            count, nbytes = self.waiting.pop(0)
            self.ready -= count
            index = len(self.buckets) - len(self.waiting) - 1
            self.reductions += self.rank.collective(
                "copies", f"bucket {index}", "all_reduce", nbytes, self.rank.last
            )
        if not self.waiting:
            self.end()
            self.begin()

    def end(self) -> None:
        self.rank.wait_for(self.reductions)
        self.reductions = []


@dataclass
class _Held:
    """What a rank has of a group beside its part."""

    unit: Unit
    gather: list[int] | None = None  # the collective that runs, or has ended; None: only the part
    is_whole: bool = False
    has_gradient: bool = False  # of the part


def _names(layers: Sequence[Layer]) -> list[str]:
    """Return the groups of layers in the order of their first ones."""
    return list(dict.fromkeys(layer.group for layer in layers))


class Groups(DataParallel):
    """Groups of layers that are gathered before use, and whose gradients are reduced to parts."""

    def __init__(self, rank: Rank) -> None:
        self.rank, self.stage, self.plan = rank, rank.stage, rank.plan
        self.held = [{name: _Held(unit) for name, unit in units.items()} for units in self.stage.units]
        self.names = [
            tuple([name for name in _names(part) if name in units] for part in (layers, layers[::-1]))
            for layers, units in zip(self.stage.chunks, self.stage.units, strict=True)
        ]
        self.reductions: list[int] = []
        self.unfinished: tuple[str, float] | None = None  # a reduction that copies have not added yet

    def _held(self, layer: Layer, place: Place) -> _Held | None:
        """Return what the rank has of a layer's group; None for a group without parameters."""
        return self.held[place.action.chunk].get(layer.group)

    # --- parameters ------------------------------------------------------------------------------------

    def _gather(self, held: _Held, after: list[int]) -> None:
        if held.gather is not None:
            return
        size = self.stage.compute_size
        sent, received = held.unit.chunk * size, held.unit.parts * held.unit.chunk * size
        name = f"gather {held.unit.name or 'root'}"
        changes = [("buffers", sent + received, False)]
        held.gather = self.rank.collective("shard", name, "all_gather", received, after, changes)

    def before(self, layer: Layer, place: Place) -> None:
        held = self._held(layer, place)
        if held is None or held.is_whole:
            return
        self._gather(held, self.rank.last)
        gathered = held.gather or []
        size, unit = self.stage.compute_size, held.unit
        copied = unit.elements * size
        changes = [
            ("buffers", copied, False),
            ("buffers", -(1 + unit.parts) * unit.chunk * size, True),
        ]
        self.rank.wait_for(gathered)
        # The parameters are copied out of the memory that has received them.
        name = f"copy {unit.name or 'root'} {place.label}"
        self.rank.compute(name, place.action.kind, 0.0, changes)
        held.is_whole = True
        for following in self._following(layer, place):
            self._gather(following, self.rank.last)

    def _following(self, layer: Layer, place: Place) -> list[_Held]:
        """Return the groups that come next in this pass, as far as they are prefetched."""
        held = self.held[place.action.chunk]
        names = self.names[place.action.chunk][place.action.kind != FORWARD]
        at = names.index(layer.group)
        return [held[name] for name in names[at + 1 :][: self.plan.prefetch] if not held[name].is_whole]

    def _free(self, held: _Held) -> None:
        """Free the whole parameters after the last computation."""
        if not held.is_whole:
            return
        held.gather, held.is_whole = None, False
        nbytes = held.unit.elements * self.stage.compute_size
        self._change([("buffers", -nbytes)])

    def _change(self, changes: list[tuple[str, float]]) -> None:
        task = self.rank.graph.tasks[self.rank.last[0]]
        task.changes += self.rank.changes_of([(kind, nbytes, True) for kind, nbytes in changes])

    def after_forward(self, layer: Layer, place: Place) -> None:
        held = self._held(layer, place)
        if held is not None and layer.group and self.plan.reshards:
            self._free(held)

    # --- gradients -------------------------------------------------------------------------------------

    def _whole_size(self) -> int:
        """Return the bytes of an element of a gradient that is not reduced yet."""
        accumulates = self.plan.micro_batches > 1 and not self.plan.reduces_each
        return self.stage.reduce_size if accumulates else self.stage.compute_size

    def gradients(self, layer: Layer, place: Place) -> Changes:
        is_new = place.is_first or self.plan.reduces_each
        nbytes = self._whole_size() * self.stage.elements(layer)
        return [("gradients", nbytes, False)] if is_new else []

    def after_backward(self, layer: Layer, place: Place, is_end_of_group: bool) -> None:
        held = self._held(layer, place)
        if held is None or not is_end_of_group:
            return
        reduces = place.is_last or self.plan.reduces_each
        if reduces:
            self._reduce(held)
        if place.is_last or self.plan.reshards or self.plan.pipeline == 1:
            self._free(held)

    def _reduce(self, held: _Held) -> None:
        """Reduce the gradients of a group; computation goes on when the reduction before has ended."""
        self._finish_reduction()
        unit, size = held.unit, self.stage.reduce_size
        flat, part = unit.parts * unit.chunk * size, unit.chunk * size
        changes = [
            ("gradients", -self._whole_size() * unit.elements, False),
            ("buffers", flat, False),
            ("buffers", -flat, True),
        ]
        if not held.has_gradient:
            changes.append(("gradients", self._part_bytes(unit), True))
            held.has_gradient = True
        name = f"reduce {unit.name or 'root'}"
        after = [*self.rank.last, *self.reductions]
        self.reductions = self.rank.collective("shard", name, "reduce_scatter", flat, after, changes)
        self.unfinished = (name, part)

    def _finish_reduction(self) -> None:
        """Wait for the parts of the last group, then for their sum over the copies, which starts only now."""
        self.rank.wait_for(self.reductions)
        if self.unfinished is not None:
            (name, part), self.unfinished = self.unfinished, None
            after = [*self.rank.last, *self.reductions]
            found = self.rank.collective("copies", name, "all_reduce", part, after)
            self.rank.wait_for(found)
            self.reductions = found or self.reductions

    def _part_bytes(self, unit: Unit) -> int:
        return unit.part(self.stage.layout.shard_of(self.rank.member.first)) * self.stage.size

    def end(self) -> None:
        self._finish_reduction()


def base_memory(stage: Stage, index: int) -> dict[str, float]:
    """Return the bytes that a rank has throughout a step, by kind.

    Args:
        stage: its layers.
        index: the number of its part.
    """
    state, plan = stage.state(index), stage.plan
    found = {"parameters": float(state["parameters"]), "optimizer": float(state["optimizer"])}
    buffers = 0.0
    if plan.schedule == "ddp":
        elements = math.fsum(unit.elements for units in stage.units for unit in units.values())
        if plan.gradient_as_bucket_view:
            found["gradients"] = elements * stage.size
        elif stage.layout.copies > 1:
            buffers += elements * stage.size
        if stage.compute_size != stage.size:  # autocast keeps a copy of each parameter
            buffers += elements * stage.compute_size
    return found | {"buffers": buffers}
