"""Stage: the layers of one rank, in chunks and groups, with their sizes there."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flambeau.distributed.simulate._hardware import BYTES
from flambeau.distributed.simulate._plan import OPTIMIZERS, Layout, Plan
from flambeau.distributed.simulate._work import Layer, Model


def part_elements(shape: tuple[int, ...], parts: int, index: int) -> int:
    """Return the elements of one part of a parameter that is divided along its first dimension."""
    chunk = -(-shape[0] // parts)
    return max(min(chunk, shape[0] - index * chunk), 0) * math.prod(shape[1:])


@dataclass(frozen=True)
class Unit:
    """Layers that are gathered together, as one rank has them.

    Args:
        name: the name of the group.
        shapes: the shapes of the parameters, divided by tensor parallelism.
        parts: the number of parts.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    parts: int

    @property
    def elements(self) -> int:
        """Elements of the whole parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def chunk(self) -> int:
        """Elements that each rank sends: of the largest part of each parameter."""
        return sum(part_elements(shape, self.parts, 0) for shape in self.shapes)

    def part(self, index: int) -> int:
        """Elements of the parts of one rank."""
        return sum(part_elements(shape, self.parts, index) for shape in self.shapes)


class Stage:
    """What one stage of the pipeline has.

    Args:
        model: the whole model.
        plan: how it is divided.
        layout: the ranks.
        index: the number of the stage.
    """

    def __init__(self, model: Model, plan: Plan, layout: Layout, index: int) -> None:
        self.model, self.plan, self.layout = model, plan, layout
        parts = model.stages(layout.stages * plan.chunks)
        self.chunks = [parts[index + chunk * layout.stages] for chunk in range(plan.chunks)]
        self.units = [self._units(layers) for layers in self.chunks]
        self.size = BYTES[model.dtype]
        self.compute_size = BYTES[model.arithmetic]
        self.reduce_size = BYTES[plan.reduce_dtype or model.dtype]
        self._elements = {
            id(layer): sum(math.prod(weight.local(plan.tensor)) for weight in layer.weights)
            for layers in self.chunks
            for layer in layers
        }

    def _units(self, layers: tuple[Layer, ...]) -> dict[str, Unit]:
        shapes: dict[str, list[tuple[int, ...]]] = {}
        for layer in layers:
            local = [weight.local(self.plan.tensor) for weight in layer.weights]
            shapes.setdefault(layer.group, []).extend(local)
        return {name: Unit(name, tuple(found), self.layout.shard) for name, found in shapes.items() if found}

    def state(self, index: int) -> dict[str, int]:
        """Return the bytes of parameters, gradients and optimizer states with one part.

        Args:
            index: the number of the part.
        """
        elements = sum(unit.part(index) for units in self.units for unit in units.values())
        tensors = sum(len(unit.shapes) for units in self.units for unit in units.values())
        states, numbers = OPTIMIZERS[self.plan.optimizer]
        parameters = elements * self.size
        optimizer = states * parameters + 4 * numbers * tensors
        return {"parameters": parameters, "gradients": parameters, "optimizer": optimizer}

    def update_bytes(self) -> int:
        """Return the bytes that a step of the optimizer reads and writes, with the largest part."""
        states, _ = OPTIMIZERS[self.plan.optimizer]
        return (3 + 2 * states) * self.state(0)["parameters"]

    # --- of one layer ----------------------------------------------------------------------------------

    def weight_bytes(self, layer: Layer) -> int:
        """Return the bytes of a layer's whole parameters, in the dtype of arithmetic."""
        return self.compute_size * self.elements(layer)

    def elements(self, layer: Layer) -> int:
        """Return the elements of a layer's parameters under tensor parallelism."""
        return self._elements[id(layer)]

    def saved(self, layer: Layer) -> float:
        """Return the bytes that forward of a micro-batch keeps."""
        return self._batch(layer.saved.local(self.plan.tensor, self.plan.sequence_parallel))

    def moved(self, layer: Layer) -> float:
        """Return the bytes that operators without products read and write in forward of a micro-batch."""
        return self._batch(layer.moved.local(self.plan.tensor, self.plan.sequence_parallel))

    def message(self, layer: Layer) -> float:
        """Return the bytes of the result of a micro-batch."""
        return self._batch(layer.output) / (self.plan.tensor if self.plan.sequence_parallel else 1)

    def flops(self, layer: Layer, amount: float) -> float:
        """Return this rank's operations of a micro-batch: all of them if no weight is divided."""
        is_divided = any(weight.divided is not None for weight in layer.weights)
        return self._batch(amount) / (self.plan.tensor if is_divided else 1)

    def _batch(self, amount: float) -> float:
        return amount * self.plan.micro_batch
