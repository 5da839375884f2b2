"""ShardedParameter: one parameter, as this process's part and as a whole whose memory comes and goes."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.distributed.fsdp._layout import Layout, joined
from flambeau.distributed.tensor import DTensor, Shard
from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

Place = tuple[Module, str]


class ShardedParameter:
    """One parameter of a group.

    The module has either `sharded`, a `DTensor`, or `whole`, a plain parameter. Graphs refer to `whole`: it
    stays the same object, whose memory is freed and given back.

    Args:
        parameter: the parameter as it was.
        places: the modules that have it, with its name there.
        layout: the processes that get the parts.
        dim: the dimension that is divided.
        smaller: the processes that keep parts between forward and backward; None: those of `layout`, or
            the whole is kept.
    """

    def __init__(
        self, parameter: Tensor, places: list[Place], layout: Layout, dim: int, smaller: Layout | None
    ) -> None:
        self.places, self.layout, self.dim, self.smaller = places, layout, dim, smaller
        self.name = places[0][1]  # the full name, once the root module is known
        self.whole: Tensor | None = None
        self.resharded: Tensor | None = None  # the part in a smaller layout, between forward and backward
        self.accumulated: Tensor | None = None  # gradient of the whole that has not been reduced
        self._memory: Tensor | None = None
        # A parameter that is divided already: the module gets it so, and only its part is divided here.
        self.outer = parameter._spec if isinstance(parameter, DTensor) else None
        local = parameter._local_tensor if isinstance(parameter, DTensor) else parameter.detach()
        self.shape, self.dtype = tuple(local.shape), local.dtype
        size, begin = layout.part(self.shape[dim])
        part = local.narrow(dim, begin, size).clone(memory_format=flambeau.contiguous_format)
        self.sharded: Tensor = self._distributed(part, layout, parameter.requires_grad)
        self.install(self.sharded)

    def _distributed(self, part: Tensor, layout: Layout, requires_grad: bool) -> Tensor:
        if self.outer is None:
            mesh, placements, shape = layout.mesh, layout.placements(self.dim), self.shape
        else:
            mesh, placements = joined(layout, self.outer, self.dim)
            shape = self.outer.shape
        strides = tuple(flambeau.empty(shape, device="meta").stride())
        spec = DTensorSpec(mesh, placements, TensorMeta(shape, strides, part.dtype))
        return Parameter(DTensor(part, spec), requires_grad)

    # --- what the module has ---------------------------------------------------------------------------

    @property
    def installed(self) -> Tensor:
        """What the module has as its parameter."""
        module, name = self.places[0]
        found: Any = module._parameters[name]
        return found

    def install(self, parameter: Tensor) -> None:
        """Make a tensor the parameter of the modules; whether it needs gradients is as before."""
        module, name = self.places[0]
        before = module._parameters.get(name)
        if before is not None and before.requires_grad != parameter.requires_grad:
            parameter.requires_grad_(before.requires_grad)
        for module, name in self.places:
            module._parameters[name] = parameter

    def use_whole(self) -> None:
        """Let the modules have the whole."""
        assert self.whole is not None
        self.resharded = None
        self.install(self.whole)

    def use_part(self) -> None:
        """Let the modules have the part."""
        self.resharded = None
        self.install(self.sharded)

    @property
    def requires_grad(self) -> bool:
        """Whether the parameter needs gradients."""
        return self.sharded.requires_grad

    @property
    def device(self) -> flambeau.device:
        """The device of the part."""
        return self.sharded.device

    @property
    def has_grad(self) -> bool:
        """Whether the whole has a gradient."""
        return self.whole is not None and self.whole.grad is not None

    def refresh(self) -> None:
        """Take over what the module has after a conversion, or after loading with assign=True."""
        found: Any = self.installed
        if found is self.sharded and found.dtype == self.dtype:
            return
        known: Any = self.sharded
        expected = (known.device_mesh, known.placements, known.shape)
        if not isinstance(found, DTensor) or (found.device_mesh, found.placements, found.shape) != expected:
            raise RuntimeError(
                f"fully_shard: expected a DTensor of shape {tuple(known.shape)} with {known.placements} as "
                f"parameter {self.name}, got {type(found).__name__} of shape {tuple(found.shape)}"
            )
        self.sharded, self.dtype = found, found.dtype
        self.whole = self._memory = None
        for module, name in self.places:
            module._parameters[name] = found

    # --- the part --------------------------------------------------------------------------------------

    def part(self) -> Tensor:
        """Return this process's part, in the layout that it is in now."""
        found: Any = self.sharded if self.resharded is None else self.resharded
        local: Tensor = found._local_tensor
        return local

    def chunk(self, layout: Layout) -> int:
        """Return the number of elements of the largest part."""
        return self._chunk_shape(layout)[self.dim] * self._row()

    def _row(self) -> int:
        return math.prod(self.shape[: self.dim]) * math.prod(self.shape[self.dim + 1 :])

    def _chunk_shape(self, layout: Layout) -> list[int]:
        sizes = list(self.shape)
        sizes[self.dim] = layout.chunk(sizes[self.dim])
        return sizes

    # --- the whole -------------------------------------------------------------------------------------

    def fill(self, parts: Tensor, layout: Layout, dtype: flambeau.dtype) -> None:
        """Give the whole its memory and its elements.

        Args:
            parts: one row per process, with the elements of its part.
            layout: the processes.
            dtype: that of the whole.
        """
        memory = self._memory_of(dtype)
        if self.dim == 0:
            memory[: parts.numel()].view(parts.shape).copy_(parts)
            return
        whole = memory[: math.prod(self.shape)].view(self.shape)
        rows = whole.unflatten(self.dim, (layout.size, -1)).movedim(self.dim, 0)
        rows.copy_(parts.reshape(layout.size, *self._chunk_shape(layout)))

    def _memory_of(self, dtype: flambeau.dtype) -> Tensor:
        """Return the memory of the whole with its padding; it is allocated."""
        if self.whole is None or self.whole.dtype != dtype or self._memory is None:
            memory = flambeau.empty(self._elements(), dtype=dtype)
            whole = memory[: math.prod(self.shape)].view(self.shape)
            if self.outer is not None:
                meta = TensorMeta(self.outer.shape, self.outer.tensor_meta.stride, dtype)
                whole = DTensor(whole, DTensorSpec(self.outer.mesh, self.outer.placements, meta))
            self.whole = Parameter(whole, self.sharded.requires_grad)
            # `data` has another version counter: graphs that saved the whole don't see it filled again.
            self._memory = memory.data
        elif self._memory._storage_nbytes() == 0:
            _C._restore_memory(self._memory, self._memory.numel() * self._memory.element_size())
        return self._memory

    def _elements(self) -> int:
        """Return how many elements the whole has with its padding."""
        layouts = [self.layout] if self.smaller is None else [self.layout, self.smaller]
        return max(layout.size * self.chunk(layout) for layout in layouts)

    @property
    def has_memory(self) -> bool:
        """Whether the whole has its memory."""
        return self._memory is not None and (self._memory.numel() == 0 or self._memory._storage_nbytes() > 0)

    def free(self) -> None:
        """Free the memory of the whole; it stays where NumPy or DLPack hold its address."""
        if self._memory is not None and self._memory._storage_resizable():
            _C._free_memory(self._memory)

    def keep_part(self) -> None:
        """Let the modules have this process's part of the whole in the smaller layout."""
        assert self._memory is not None and self.smaller is not None
        layout = self.smaller
        size, begin = layout.part(self.shape[self.dim])
        whole = self._memory[: math.prod(self.shape)].view(self.shape)
        part = whole.narrow(self.dim, begin, size).clone()
        self.resharded = self._distributed(part, layout, self.sharded.requires_grad)
        self.install(self.resharded)

    # --- gradients -------------------------------------------------------------------------------------

    def take_grad(self) -> Tensor | None:
        """Return the gradient of the whole, and forget it."""
        grad = self._local_grad()
        if self.whole is not None:
            self.whole.grad = None
        if self.accumulated is None:
            return grad
        total, self.accumulated = self.accumulated, None
        return total if grad is None else total.add_(grad)

    def _local_grad(self) -> Tensor | None:
        """Return the gradient of the whole; of a divided one, this process's part."""
        grad: Any = None if self.whole is None else self.whole.grad
        if grad is None or self.outer is None:
            return grad
        moved: Tensor = grad.redistribute(placements=self.outer.placements)._local_tensor
        return moved

    def keep_grad(self, dtype: flambeau.dtype) -> None:
        """Keep the gradient of the whole, in the dtype of the reduction, for a later pass."""
        if self.whole is None or self.whole.grad is None or self.whole.grad.dtype == dtype:
            return
        grad = self._local_grad()
        self.whole.grad = None
        assert grad is not None
        self.accumulated = grad.to(dtype) if self.accumulated is None else self.accumulated.add_(grad)

    def drop_grad(self) -> None:
        """Forget the gradient of the whole."""
        self.accumulated = None
        if self.whole is not None:
            self.whole.grad = None

    def write_parts(self, grad: Tensor | None, rows: Tensor) -> None:
        """Write a gradient to a matrix with one row per process; None: zeros."""
        if grad is None:
            rows.zero_()
            return
        layout = self.layout
        chunk = layout.chunk(self.shape[self.dim])
        if self.shape[self.dim] == chunk * layout.size:
            parts = grad.unflatten(self.dim, (layout.size, chunk)).movedim(self.dim, 0)
            rows.view(layout.size, *self._chunk_shape(layout)).copy_(parts)
            return
        for rank in range(layout.size):
            size, begin = Shard.local_shard_size_and_offset(self.shape[self.dim], layout.size, rank)
            used = size * self._row()
            rows[rank, :used].copy_(grad.narrow(self.dim, begin, size).reshape(-1))
            rows[rank, used:].zero_()

    def add_grad(self, reduced: Tensor) -> None:
        """Add this process's part of the reduced gradient to that of the sharded parameter."""
        sharded: Any = self.sharded
        local = sharded._local_tensor
        part = reduced[: local.numel()].view(local.shape).to(self.dtype)
        if sharded.grad is None:
            sharded.grad = DTensor(part, sharded._spec)
        else:
            sharded.grad._local_tensor.add_(part)
        _C._run_accumulate_hooks(sharded)
