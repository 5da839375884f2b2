"""DTensor: a tensor whose parts are on the processes of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._calls import Call, given
from flambeau.distributed.tensor._placements import Partial, Placement, Replicate, Shard, normalized
from flambeau.distributed.tensor._redistribute import redistributed
from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta, local_shape
from flambeau.distributed.tensor._vocabulary import HANDLERS


def _of_gradient(placements: tuple[Placement, ...]) -> tuple[Placement, ...]:
    """The gradient of each term of a sum is that of the sum."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


def _made(cls: Any, local: Tensor, spec: DTensorSpec, requires_grad: bool = False) -> Any:
    meta = spec.tensor_meta
    made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        cls,
        meta.shape,
        strides=meta.stride,
        dtype=local.dtype,
        device=local.device,
        requires_grad=requires_grad,
    )
    made._local_tensor, made._spec = local.detach(), spec
    return made


def _plain(values: Any) -> tuple[Tensor, ...]:
    """Return the plain tensors among arguments, and in lists among them."""
    listed = (item for v in values for item in (v if isinstance(v, list | tuple) else (v,)))
    return tuple(v for v in listed if isinstance(v, Tensor) and not isinstance(v, DTensor))


class DTensor(Tensor):
    """A tensor whose parts are on the processes of a mesh; operators give what they would give for the whole.

    `distribute_tensor` and `DTensor.from_local` make such tensors. All processes of the mesh call the same
    operators in the same order. How an operator divides its work comes from the field `shard` of its entry in
    native_functions.yaml; operators without a rule compute the whole in each process, and warn once.

    Args:
        local_tensor: this process's part.
        spec: the mesh, the placements and the shape of the whole.
        requires_grad: whether operators on it are recorded.
    Shape:
        That of the whole tensor.
    See also: distribute_tensor

    Example:
        >>> from flambeau.distributed.tensor import DTensor, Shard, distribute_tensor
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(flambeau.ones(4, 2), mesh, [Shard(0)])
        >>> (x + 1).full_tensor().sum(), x.to_local().shape
        (tensor(16.), flambeau.Size([4, 2]))
        >>> dist.destroy_process_group()
    """

    _local_tensor: Tensor
    _spec: DTensorSpec

    @staticmethod
    def __new__(cls: Any, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False) -> Any:
        return _made(cls, local_tensor, spec, requires_grad)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function; a few have a way of their own for divided tensors."""
        divided = HANDLERS.get(func)
        if divided is not None:
            result = divided(DTensor, *args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        before, given.plain = given.plain, _plain((*args, *(kwargs or {}).values()))
        try:
            return _C._disabled_torch_function_impl(func, types, args, kwargs)
        finally:
            given.plain = before

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator on the parts."""
        return Call(func, args, kwargs or {}, DTensor).run()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        facts = f"device_mesh={self.device_mesh}, placements={self.placements}"
        return f"DTensor(local_tensor={self._local_tensor}, {facts})"

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], meta: Any, size: Any, stride: Any) -> Any:
        spec, requires_grad = meta
        whole = TensorMeta(tuple(size), tuple(stride), spec.tensor_meta.dtype)
        spec = DTensorSpec(spec.mesh, spec.placements, whole)
        return DTensor(inner["_local_tensor"], spec, requires_grad=requires_grad)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh of processes."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How the tensor lies along each dimension of the mesh."""
        return self._spec.placements

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """Return the tensor whose parts the processes have.

        Args:
            local_tensor: this process's part.
            device_mesh: the mesh; None: all processes, in one dimension.
            placements: one per dimension of the mesh; None: `Replicate`.
            run_check: whether to copy the part of the first process where the placement is `Replicate`.
            shape: the shape of the whole; None: the parts are of one shape.
            stride: the strides of the whole; None: row-major.
            grad_placements: how the gradient lies; None: as `placements`, with `Replicate` for `Partial`.
        Returns: the tensor; its gradient is that of the parts.
        Raises: ValueError for wrong placements, or a part that does not fit `shape`.
        """
        mesh = _mesh_of(device_mesh)
        placed = normalized("DTensor.from_local", placements, mesh.ndim, local_tensor.dim())
        whole = list(local_tensor.shape)
        for mesh_dim, placement in enumerate(placed):
            if isinstance(placement, Shard):
                whole[placement.dim] *= mesh.size(mesh_dim)
        whole = whole if shape is None else list(shape)
        expected = local_shape(mesh, placed, tuple(whole))
        if list(local_tensor.shape) != expected:
            raise ValueError(
                f"DTensor.from_local: expected a part of shape {tuple(expected)} of a whole of shape "
                f" {tuple(whole)}, got {tuple(local_tensor.shape)}"
            )
        local = _same_everywhere(local_tensor, mesh, placed) if run_check else local_tensor
        strides = tuple(flambeau.empty(whole, device="meta").stride()) if stride is None else tuple(stride)
        spec = DTensorSpec(mesh, placed, TensorMeta(tuple(whole), strides, local.dtype))
        grads = placed if grad_placements is None else tuple(grad_placements)
        return _FromLocal.apply(local, spec, _of_gradient(grads) if grad_placements is None else grads)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return this process's part.

        Args:
            grad_placements: how the gradients of the parts lie together; None: as the tensor, with
                `Replicate` for `Partial`.
        Returns: the part; gradients flow back.
        """
        if not flambeau.is_grad_enabled() or not self.requires_grad:
            return self._local_tensor
        given = _of_gradient(self.placements) if grad_placements is None else tuple(grad_placements)
        return _ToLocal.apply(self, given)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """Return the tensor with other placements.

        Args:
            device_mesh: the tensor's own mesh, or None.
            placements: one per dimension of the mesh.
            async_op: accepted; the parts have been moved when the call returns.
            forward_dtype: the dtype in which parts are moved; None: their own.
            backward_dtype: the dtype in which gradients are moved; None: their own.
        Returns: the tensor; its gradient gets the placements of this one.
        Raises: ValueError for another mesh or wrong placements.
        """
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise ValueError(f"DTensor.redistribute: expected the mesh {self.device_mesh}, got {device_mesh}")
        if placements is None:
            raise RuntimeError("DTensor.redistribute: expected placements, got None: placements is needed")
        placed = normalized("DTensor.redistribute", placements, self.device_mesh.ndim, self.dim())
        source: Any = self if forward_dtype is None else self.to(forward_dtype)
        return source if placed == self.placements else _Redistribute.apply(source, placed, backward_dtype)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the whole tensor in each process.

        Args:
            grad_placements: as for `to_local`.
        """
        whole = (Replicate(),) * self.device_mesh.ndim
        return self.redistribute(placements=whole).to_local(grad_placements=grad_placements)


class _FromLocal(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, spec: DTensorSpec, grads: tuple[Placement, ...]) -> Any:
        ctx.grads = grads
        return DTensor(local.view_as(local), spec)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.redistribute(placements=ctx.grads).to_local(), None, None


class _ToLocal(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: Any, grads: tuple[Placement, ...]) -> Tensor:
        ctx.spec, ctx.grads = source._spec, grads
        return source._local_tensor.view_as(source._local_tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return DTensor(grad.contiguous(), ctx.spec.placed(ctx.grads)), None


class _Redistribute(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: Any, placements: tuple[Placement, ...], backward_dtype: Any) -> Any:
        ctx.before, ctx.dtype = _of_gradient(source.placements), backward_dtype
        return DTensor(
            redistributed(source._local_tensor, source._spec, placements), source._spec.placed(placements)
        )

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        moved = grad if ctx.dtype is None else grad.to(ctx.dtype)
        return moved.redistribute(placements=ctx.before).to(grad.dtype), None, None


def _mesh_of(given: DeviceMesh | None) -> DeviceMesh:
    if given is not None:
        return given
    size = flambeau.distributed.get_world_size()
    return flambeau.distributed.init_device_mesh("cpu", (size,))


def _same_everywhere(local: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> Tensor:
    """Copy the part of the first process along the dimensions of the mesh where all have the same."""
    from flambeau.distributed import _functional_collectives as functional

    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Replicate):
            local = functional.wait_tensor(functional.broadcast(local, 0, (mesh, mesh_dim)))
    return local


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Return a tensor that all processes have as one whose parts are on them.

    Args:
        tensor: the tensor, a leaf.
        device_mesh: the mesh; None: all processes, in one dimension.
        placements: one per dimension of the mesh; None: `Replicate`.
        src_data_rank: the place along each dimension of the mesh whose elements count; None: each process
            takes its part of its own tensor, and nothing is sent.
    Returns: a leaf that requires gradients if `tensor` does.
    Raises: RuntimeError if `tensor` is no leaf; ValueError for wrong placements.

    Example:
        >>> from flambeau.distributed.tensor import Shard, distribute_tensor
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> distribute_tensor(flambeau.ones(3), mesh, [Shard(0)]).placements
        (Shard(dim=0),)
        >>> dist.destroy_process_group()
    """
    if isinstance(tensor, DTensor):
        mesh = tensor.device_mesh
        wanted = normalized("distribute_tensor", placements, mesh.ndim, tensor.dim())
        if (device_mesh is not None and device_mesh != mesh) or wanted != tensor.placements:
            raise ValueError(f"distribute_tensor: expected a Tensor, got DTensor with {tensor.placements}")
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError(
            "distribute_tensor: `distribute_tensor` should be used to distribute leaf tensors! but found "
            "non-leaf tensor: expected a leaf, got a computed tensor"
        )
    mesh = _mesh_of(device_mesh)
    placed = normalized("distribute_tensor", placements, mesh.ndim, tensor.dim())
    local = tensor.detach().contiguous()
    if src_data_rank is not None:
        local = _same_everywhere(local, mesh, (Replicate(),) * mesh.ndim)
    meta = TensorMeta(tuple(local.shape), tuple(local.stride()), local.dtype)
    whole = DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta)
    part = redistributed(local, whole, placed)
    return DTensor(part, whole.placed(placed), requires_grad=tensor.requires_grad)


def distribute_module(
    module: flambeau.nn.Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Any, DeviceMesh], None] | None = None,
    input_fn: Callable[[Any, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Any, Any, DeviceMesh], Any] | None = None,
) -> flambeau.nn.Module:
    """Replace the parameters and buffers of a module by distributed ones, in place.

    Args:
        module: the module.
        device_mesh: the mesh; None: all processes, in one dimension.
        partition_fn: called with name, submodule and mesh for each submodule, to distribute its parameters;
            what it leaves is replicated.
        input_fn: called with module, inputs and mesh before each forward; returns the inputs.
        output_fn: called with module, outputs and mesh after each forward; returns the outputs.
    Returns: the module.

    Example:
        >>> from flambeau.distributed.tensor import distribute_module
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> made = distribute_module(flambeau.nn.Linear(2, 2), dist.init_device_mesh("cpu", (1,)))
        >>> made.weight.placements
        (Replicate(),)
        >>> dist.destroy_process_group()
    """
    mesh = _mesh_of(device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, parameter in part.named_parameters(recurse=False):
            if not isinstance(parameter, DTensor):
                placed = distribute_tensor(parameter.detach(), mesh)
                part.register_parameter(key, flambeau.nn.Parameter(placed, parameter.requires_grad))
        for key, buffer in part.named_buffers(recurse=False):
            if not isinstance(buffer, DTensor):
                part._buffers[key] = distribute_tensor(buffer.detach(), mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    return module


DTensor.__module__ = "flambeau.distributed.tensor"
