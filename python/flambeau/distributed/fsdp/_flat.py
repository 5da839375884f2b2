"""FlatParts: the parameters of one wrapped module, as a part of one flat tensor and as wholes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.distributed.fsdp._layout import Layout
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

Place = tuple[Module, str]
_ALIGNMENT = 16  # bytes, of each parameter in the flat tensor with use_orig_params=True


class FlatParameter(Parameter):
    """The parameters of one wrapped module in one tensor of one dimension, or this process's part of it.

    With ``use_orig_params=False``, `FullyShardedDataParallel` gives its module such a parameter in place of
    the original ones.

    Example:
        >>> flambeau.distributed.fsdp.FlatParameter(flambeau.zeros(4)).requires_grad
        True
    """


FlatParameter.__module__ = "flambeau.distributed.fsdp"


@dataclass(eq=False)
class Original:
    """A parameter as it was, and its place in the flat tensor.

    Args:
        parameter: the parameter; with ``use_orig_params=True`` the module keeps it, with this process's part.
        places: the modules that have it, with its name there.
        begin: the number of elements before it.
    """

    parameter: Any
    places: list[Place]
    begin: int = 0
    shape: tuple[int, ...] = field(init=False)
    numel: int = field(init=False)
    whole: Any = field(init=False, default=None)  # what forward uses; its memory comes and goes

    def __post_init__(self) -> None:
        self.shape, self.numel = tuple(self.parameter.shape), self.parameter.numel()

    def within(self, flat: Tensor) -> Tensor:
        """Return the whole parameter as a view of the whole flat tensor."""
        return flat[self.begin : self.begin + self.numel].view(self.shape)


class FlatParts:
    """The parameters of one wrapped module, which are divided as one flat tensor.

    It is the only member of its `ParameterGroup`. Outside of passes, the module has parts. During passes,
    attributes of the module hide them: the wholes, which are leaves of the graph.

    Args:
        module: the wrapped module.
        originals: its parameters.
        layout: the processes that get the parts.
        keeps: whether the module keeps its parameters (``use_orig_params=True``).
        whole_dtype: the dtype of wholes; None: that of the parameters.
    """

    low_dtype: flambeau.dtype | None = None  # of gradients of parts; None: that of the parameters
    accumulated: list[Tensor | None] | None = None

    def __init__(
        self,
        module: Module,
        originals: list[Original],
        layout: Layout,
        keeps: bool,
        whole_dtype: flambeau.dtype | None = None,
    ) -> None:
        self.originals, self.layout, self.keeps = originals, layout, keeps
        self.places: list[Place] = [(module, "_flat_param")]
        self.name = "_flat_param"
        self.resharded: Tensor | None = None
        self.dtype: flambeau.dtype = originals[0].parameter.dtype
        self._memory: Tensor | None = None  # of the wholes
        self._is_shared = False  # whether the parts are the wholes
        self.padded = self._arrange(whole_dtype or self.dtype)
        local = self._divided()
        trained = [o.parameter.requires_grad for o in originals]
        self.sharded: Any = FlatParameter(local, any(trained))
        if keeps:
            self._point_originals()
        else:
            for original in originals:
                original.parameter = self.sharded  # whose requires_grad counts; the memory can go
                for owner, name in original.places:
                    del owner._parameters[name]
            module._parameters["_flat_param"] = self.sharded
            self._memory_of(whole_dtype or self.dtype)
            self.use_whole()
            self.free()

    # --- the division ----------------------------------------------------------------------------------

    def _arrange(self, dtype: flambeau.dtype) -> int:
        """Give the parameters places in a flat tensor of a dtype; return its size with padding."""
        step = max(_ALIGNMENT // dtype.itemsize, 1) if self.keeps else 1
        end = 0
        for original in self.originals:
            original.begin = -(-end // step) * step
            end = original.begin + original.numel
        return self.layout.chunk(end) * self.layout.size

    @property
    def size(self) -> int:
        """The number of elements of each part."""
        return self.padded // self.layout.size

    def span(self, original: Original) -> tuple[int, int, int]:
        """Return begin and end of this process's part of a parameter, and its begin in the flat part."""
        first = self.layout.rank * self.size
        begin = min(max(first - original.begin, 0), original.numel)
        end = min(max(first + self.size - original.begin, begin), original.numel)
        return begin, end, max(original.begin - first, 0) if end > begin else 0

    def _divided(self) -> Tensor:
        local = flambeau.zeros(self.size, dtype=self.dtype)
        self.pack([o.parameter.detach() for o in self.originals], local)
        return local

    def pack(self, wholes: list[Tensor | None], local: Tensor) -> None:
        """Write this process's part of whole tensors, one per parameter, to a flat part."""
        for original, whole in zip(self.originals, wholes, strict=True):
            begin, end, at = self.span(original)
            if whole is not None and end > begin:
                local[at : at + end - begin].copy_(whole.reshape(-1)[begin:end])

    def view_of_part(self, original: Original, local: Tensor) -> Tensor:
        """Return what a flat part has of one parameter."""
        begin, end, at = self.span(original)
        part = local[at : at + end - begin]
        return part.view(original.shape) if self.layout.size == 1 else part

    def _point_originals(self) -> None:
        """Let the parameters of the module be views of the flat part."""
        for original in self.originals:
            original.parameter.data = self.view_of_part(original, self.sharded.data)

    def gathered(self, local: Tensor) -> Tensor:
        """Return the whole flat tensor of a flat part; all processes with parts call this."""
        if self.layout.size == 1:
            return local
        whole = flambeau.empty(self.padded, dtype=local.dtype)
        self.layout.group._allgather_base(whole, local.contiguous()).wait()
        return whole

    def wholes_of(self, local: Tensor) -> list[Tensor]:
        """Return whole tensors, with memory of their own, for a flat part."""
        flat = self.gathered(local)
        return [original.within(flat).clone() for original in self.originals]

    def gather_values(self) -> list[Tensor]:
        """Return the values of all parameters, with memory of their own, in their own dtype."""
        with flambeau.no_grad():
            return self.wholes_of(self.part())

    def write_back(self, wholes: list[Tensor]) -> None:
        """Set the parts to values of whole parameters, which are equal in all processes."""
        with flambeau.no_grad():
            self.pack(list(wholes), self.sharded.data)
            if self.keeps:
                self._point_originals()

    # --- what the module has ---------------------------------------------------------------------------

    def use_whole(self) -> None:
        """Let attributes of the modules be the wholes."""
        for original in self.originals:
            if original.whole.requires_grad != original.parameter.requires_grad:
                original.whole.requires_grad_(original.parameter.requires_grad)
            for module, name in original.places:
                vars(module)[name] = original.whole

    def use_part(self) -> None:
        """Let attributes of the modules be the parts, if the modules have them."""
        if self.keeps:
            self.hide_wholes()

    def hide_wholes(self) -> None:
        """Take the wholes from the attributes of the modules."""
        for original in self.originals:
            for module, name in original.places:
                vars(module).pop(name, None)

    def show_wholes(self) -> None:
        """Undo `hide_wholes` where parts are no parameters of the modules."""
        if not self.keeps:
            self.use_whole()

    def refresh(self) -> None:
        """Take over what a conversion has made of the parameters."""
        if self.keeps:
            self._refresh_from_originals()
            return
        module, name = self.places[0]
        found: Any = module._parameters[name]
        if found is self.sharded and found.dtype == self.dtype:
            return
        if tuple(found.shape) != (self.size,):
            raise RuntimeError(
                f"FullyShardedDataParallel: expected {self.size} elements in the flat parameter {self.name}, "
                f"got {tuple(found.shape)}"
            )
        self.sharded = found
        for original in self.originals:
            original.parameter = found
        self._convert(found.dtype)
        self._memory_of(self.dtype)
        self.use_whole()
        self.free()

    def _refresh_from_originals(self) -> None:
        """Copy what replaced the views of the flat part, as `Module.to` or ``p.data = ...`` do."""
        dtypes = {original.parameter.dtype for original in self.originals}
        if len(dtypes) > 1:
            raise ValueError(f"FullyShardedDataParallel: expected parameters of one dtype, got {dtypes}")
        if dtypes != {self.dtype}:
            self._convert(dtypes.pop())
            self.sharded = FlatParameter(
                flambeau.zeros(self.size, dtype=self.dtype), self.sharded.requires_grad
            )
        for original in self.originals:
            own, view = original.parameter.data, self.view_of_part(original, self.sharded.data)
            if own.data_ptr() == view.data_ptr() and own.shape == view.shape:
                continue
            if own.shape != view.shape:
                raise RuntimeError(
                    f"FullyShardedDataParallel: expected a part of shape {tuple(view.shape)} for "
                    f"{original.places[0][1]}, got {tuple(own.shape)}"
                )
            view.copy_(own)
            original.parameter.data = view

    def _convert(self, dtype: flambeau.dtype) -> None:
        self.dtype, self._memory = dtype, None
        for original in self.originals:
            original.whole = None

    # --- the part --------------------------------------------------------------------------------------

    def part(self) -> Tensor:
        """Return this process's part of the flat tensor."""
        if self.keeps:
            self._refresh_from_originals()
        local: Tensor = self.sharded.data
        return local

    @property
    def device(self) -> Any:
        """The device of the parts."""
        return self.sharded.device

    @property
    def requires_grad(self) -> bool:
        """Whether a parameter needs gradients."""
        return any(original.parameter.requires_grad for original in self.originals)

    def chunk(self, layout: Layout) -> int:
        """Return the number of elements of a part."""
        return self.size

    # --- the wholes ------------------------------------------------------------------------------------

    def shares_memory(self, dtype: flambeau.dtype | None) -> bool:
        """Whether wholes of a dtype need no memory, since one process has all of the flat tensor."""
        return self.layout.size == 1 and dtype in (None, self.dtype)

    def share_memory(self) -> None:
        """Let the wholes be views of the flat part."""
        local = self.part()
        if self._memory is None or not self._is_shared or self._memory.data_ptr() != local.data_ptr():
            self._make_wholes(local)
            self._is_shared = True

    def fill(self, parts: Tensor, layout: Layout, dtype: flambeau.dtype) -> None:
        """Give the wholes their memory and their elements.

        Args:
            parts: one row per process.
            layout: the processes.
            dtype: that of the wholes.
        """
        self._memory_of(dtype).view(parts.shape).copy_(parts)

    def _memory_of(self, dtype: flambeau.dtype) -> Tensor:
        memory = self._memory
        if memory is None or memory.dtype != dtype or self._is_shared:
            memory = self._make_wholes(flambeau.empty(self.padded, dtype=dtype))
            self._is_shared = False
        elif memory._storage_nbytes() == 0:
            _C._restore_memory(memory, memory.numel() * memory.element_size())
        return memory

    def _make_wholes(self, memory: Tensor) -> Tensor:
        for original in self.originals:
            original.whole = Parameter(original.within(memory.detach()), original.parameter.requires_grad)
        # `data` has another version counter: graphs that saved a whole don't see it filled again.
        self._memory = memory.data
        return self._memory

    def free(self) -> None:
        """Free the memory of the wholes; it stays where NumPy or DLPack hold its address."""
        memory = self._memory
        if memory is not None and not self._is_shared and memory._storage_resizable():
            _C._free_memory(memory)

    def keep_part(self) -> None:
        """Refuse parts in a smaller layout."""
        raise RuntimeError("FullyShardedDataParallel: expected one layout of parts, got a second one")

    # --- gradients -------------------------------------------------------------------------------------

    @property
    def has_grad(self) -> bool:
        """Whether a whole has a gradient."""
        return any(o.whole is not None and o.whole.grad is not None for o in self.originals)

    def take_grad(self) -> Any:
        """Return the gradients of the wholes, or None if there are none, and forget them."""
        grads = [None if o.whole is None else o.whole.grad for o in self.originals]
        earlier, self.accumulated = self.accumulated, None
        self._forget()
        if earlier is not None:
            grads = [_added(a, b) for a, b in zip(earlier, grads, strict=True)]
        return None if all(grad is None for grad in grads) else grads

    def keep_grad(self, dtype: flambeau.dtype) -> None:
        """Keep the gradients of the wholes, in the dtype of the reduction, for a later pass."""
        if not self.has_grad or all(
            o.whole.grad is None or o.whole.grad.dtype == dtype for o in self.originals
        ):
            return
        grads = [None if o.whole.grad is None else o.whole.grad.to(dtype) for o in self.originals]
        earlier = self.accumulated or [None] * len(grads)
        self.accumulated = [_added(a, b) for a, b in zip(earlier, grads, strict=True)]
        self._forget()

    def _forget(self) -> None:
        for original in self.originals:
            if original.whole is not None:
                original.whole.grad = None

    def drop_grad(self) -> None:
        """Forget the gradients of the wholes."""
        self.accumulated = None
        self._forget()

    def write_parts(self, grads: Any, rows: Tensor) -> None:
        """Write gradients to a matrix with one row per process; None: zeros."""
        flat, end = rows.view(-1), 0
        for original, grad in zip(self.originals, grads or [None] * len(self.originals), strict=True):
            flat[end : original.begin].zero_()
            end = original.begin + original.numel
            room = flat[original.begin : end].view(original.shape)
            room.zero_() if grad is None else room.copy_(grad)
        flat[end:].zero_()

    @property
    def grad_dtype(self) -> flambeau.dtype:
        """The dtype of the gradients of parts."""
        return self.dtype if self.low_dtype is None else self.low_dtype

    def add_grad(self, reduced: Tensor) -> None:
        """Add this process's part of the reduced gradients to those of the parts."""
        part = reduced.to(self.grad_dtype)
        if not self.keeps:
            _accumulate(self.sharded, part)
            return
        for original in self.originals:
            grad = self.view_of_part(original, part)
            if original.parameter.requires_grad and grad.numel():
                _accumulate(original.parameter, grad)

    def parts(self) -> Iterator[Any]:
        """Yield the parameters that an optimizer sees."""
        yield from [o.parameter for o in self.originals] if self.keeps else [self.sharded]

    def slices(self, of: Callable[[Any], Tensor | None]) -> Tensor | None:
        """Return a flat part that is made of a tensor for each parameter that an optimizer sees, or None.

        Args:
            of: returns the tensor, of the size of the part, or None for zeros.
        """
        if not self.keeps:
            return of(self.sharded)
        found = [(original, of(original.parameter)) for original in self.originals]
        some = next((value for _, value in found if value is not None), None)
        if some is None:
            return None
        local = flambeau.zeros(self.size, dtype=some.dtype)
        for original, value in found:
            if value is not None:
                self.view_of_part(original, local).copy_(value)
        return local


def _added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a.add_(b)


def set_grad(parameter: Any, grad: Tensor | None) -> None:
    """Give a parameter a gradient, which may have another dtype."""
    if grad is None or grad.dtype == parameter.dtype:
        parameter.grad = grad
        return
    own = parameter.data
    parameter.data = own.to(grad.dtype)  # `grad` takes only the dtype of the parameter
    parameter.grad = grad
    parameter.data = own


def _accumulate(parameter: Any, grad: Tensor) -> None:
    if parameter.grad is None:
        set_grad(parameter, grad)
    else:
        parameter.grad.add_(grad)
    _C._run_accumulate_hooks(parameter)
