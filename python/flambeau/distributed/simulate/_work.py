"""Model, Layer and Weight: what a training step computes and keeps, per sample."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from flambeau.distributed.simulate import _numbers as numbers
from flambeau.distributed.simulate._hardware import bytes_of


@dataclass(frozen=True)
class Weight:
    """One parameter.

    Args:
        name: its name in the layer.
        shape: its sizes.
        divided: the dimension that tensor parallelism divides; None: each rank has the whole.
    Raises: ValueError for no sizes, a size below 1, or a dimension that the shape does not have.

    Example:
        >>> from flambeau.distributed.simulate import Weight
        >>> Weight("weight", (8, 4), divided=0).local(tensor=2)
        (4, 4)
    """

    name: str
    shape: tuple[int, ...]
    divided: int | None = None

    def __post_init__(self) -> None:
        if not self.shape:
            raise ValueError(f"Weight: expected a size or more of {self.name}, got ()")
        for size in self.shape:
            numbers.count("Weight", f"size of {self.name}", size)
        if self.divided is not None and not 0 <= self.divided < len(self.shape):
            raise ValueError(f"Weight: expected a dimension of {self.shape} as divided, got {self.divided}")

    def local(self, tensor: int) -> tuple[int, ...]:
        """Return the shape of a rank's part under tensor parallelism. Raises: ValueError for uneven parts."""
        if self.divided is None:
            return self.shape
        sizes = list(self.shape)
        if sizes[self.divided] % tensor:
            raise ValueError(
                f"Plan: expected a tensor size that divides dimension {self.divided} of {self.name} with "
                f"shape {self.shape}, got {tensor}"
            )
        sizes[self.divided] //= tensor
        return tuple(sizes)


@dataclass(frozen=True)
class Amount:
    """Bytes per sample: tensor parallelism divides one part of them.

    Args:
        divided: the part that tensor parallelism divides.
        whole: the part of each rank; sequence parallelism divides it too.

    Example:
        >>> from flambeau.distributed.simulate import Amount
        >>> Amount(8.0, 2.0).local(tensor=4, sequence_parallel=False)
        4.0
    """

    divided: float = 0.0
    whole: float = 0.0

    def __post_init__(self) -> None:
        numbers.number("Amount", "divided", self.divided)
        numbers.number("Amount", "whole", self.whole)

    def local(self, tensor: int, sequence_parallel: bool) -> float:
        """Return the bytes of one rank."""
        return (
            (self.divided + self.whole) / tensor if sequence_parallel else self.divided / tensor + self.whole
        )


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A part of a model that runs at once; all numbers are per sample.

    Args:
        name: its name.
        group: layers of one group are gathered and freed together by "fsdp"; "" is the group of the root,
            which is gathered first and freed last.
        weights: the parameters.
        forward: floating-point operations of matrix products in forward. Tensor parallelism divides them, and
            those of backward, if a weight is divided.
        input_grads: those of gradients of inputs.
        weight_grads: those of gradients of parameters.
        moved: bytes that other operators read and write in forward; backward moves twice as many.
        saved: bytes that forward keeps for backward.
        output: bytes of the result, which a pipeline sends to the next stage.
        kernels: kernels of forward, and of backward.
        sums: bytes that tensor parallelism adds over its ranks after forward, and after backward.
    Raises: ValueError for numbers below 0, TypeError for what is no number.

    Example:
        >>> from flambeau.distributed.simulate import Layer, Weight
        >>> layer = Layer(name="linear", weights=(Weight("weight", (4, 8)),), forward=64.0)
        >>> layer.parameters
        32
    """

    name: str
    group: str = ""
    weights: tuple[Weight, ...] = ()
    forward: float = 0.0
    input_grads: float = 0.0
    weight_grads: float = 0.0
    moved: Amount = Amount()
    saved: Amount = Amount()
    output: float = 0.0
    kernels: tuple[int, int] = (0, 0)
    sums: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        for what in ("forward", "input_grads", "weight_grads", "output"):
            numbers.number("Layer", what, getattr(self, what))
        for value in (*self.kernels, *self.sums):
            numbers.number("Layer", "kernels and sums", value)

    @property
    def parameters(self) -> int:
        """The number of elements of all parameters."""
        return sum(math.prod(weight.shape) for weight in self.weights)


@dataclass(frozen=True)
class Model:
    """Layers in the order of forward.

    Args:
        layers: the layers; one at least.
        dtype: the dtype of parameters, of their gradients and of the optimizer's states.
        compute_dtype: the dtype of arithmetic and activations. Default: `dtype`.
        name: what tables show.
        divides: names and values of sizes that the ranks of tensor parallelism must divide; None: the model
            can't be divided.
    Raises: ValueError for no layers or an unknown dtype.

    Example:
        >>> from flambeau.distributed.simulate import Layer, Model, Weight
        >>> Model((Layer(name="linear", weights=(Weight("weight", (4, 8)),)),)).parameters
        32
    """

    layers: tuple[Layer, ...]
    dtype: str = "float32"
    compute_dtype: str | None = None
    name: str = "model"
    divides: tuple[tuple[str, int], ...] | None = ()

    def __post_init__(self) -> None:
        if not isinstance(self.layers, tuple) or not self.layers:
            raise ValueError(f"Model: expected a tuple of one layer or more, got {self.layers!r}")
        for layer in self.layers:
            numbers.kind("Model", "layer", layer, Layer)
        bytes_of("Model", self.dtype)
        bytes_of("Model", self.arithmetic)

    @property
    def arithmetic(self) -> str:
        """The dtype of arithmetic and activations."""
        return self.compute_dtype or self.dtype

    @property
    def parameters(self) -> int:
        """The number of elements of all parameters."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def flops(self) -> float:
        """Operations of a step for one sample: backward counts as two forwards, repetitions don't count."""
        return 3 * sum(layer.forward for layer in self.layers)

    def stages(self, count: int) -> list[tuple[Layer, ...]]:
        """Divide the layers into successive parts with equally many groups each.

        The layers before the first group belong to the first part, those after the last one to the last part.
        Raises: ValueError if the number of groups is no multiple, or a group's layers lie apart.
        """
        runs = [name for name, _ in itertools.groupby(layer.group for layer in self.layers) if name]
        names = list(dict.fromkeys(runs))
        if count == 1:
            return [self.layers]
        if len(runs) > len(names):
            again = next(name for name in names if runs.count(name) > 1)
            raise ValueError(
                f"Plan: expected layers of a group in one place for a pipeline, got {again} twice"
            )
        if not names or len(names) % count:
            raise ValueError(
                f"Plan: expected pipeline * chunks to divide the {len(names)} groups of layers, got {count}"
            )
        return [self._between(names, i, len(names) // count, count) for i in range(count)]

    def _between(self, names: Sequence[str], index: int, length: int, count: int) -> tuple[Layer, ...]:
        places = [i for i, layer in enumerate(self.layers) if layer.group in names[index * length :][:length]]
        begin = 0 if index == 0 else places[0]
        after = [i for i, layer in enumerate(self.layers) if layer.group in names[(index + 1) * length :]]
        end = len(self.layers) if index == count - 1 else min(after)
        return self.layers[begin:end]
