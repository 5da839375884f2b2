"""Collectives as functions: they return new tensors; autograd and tracers see them as operators.

The argument `group` of each is a `ProcessGroup` or its name, a `DeviceMesh` of one dimension, a mesh and a
dimension of it in a tuple, or the list of a group's ranks. `tag` has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor, ops
from flambeau._loading.lazy import attributes
from flambeau.distributed._async_tensor import AsyncCollectiveTensor, deferred
from flambeau.distributed._functional_operators import SPACE
from flambeau.distributed._groups import all_groups, default_group, world
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed.device_mesh import DeviceMesh

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_autograd",
    "all_gather_single_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_autograd",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

_functional: Any = getattr(ops, SPACE)


def _group(name: str, given: Any) -> ProcessGroup:
    """Return the group that an argument means."""
    if isinstance(given, ProcessGroup):
        return given
    if isinstance(given, str) and given in world.groups:
        return world.groups[given]
    if isinstance(given, DeviceMesh):
        if given.ndim != 1:
            raise ValueError(
                f"{name}: Only 1D mesh is supported: expected one dimension or (mesh, dim) as group, got "
                f"{given}"
            )
        return given.get_group()
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], DeviceMesh):
        return given[0].get_group(given[1])
    if isinstance(given, list):
        return _of_ranks(name, given)
    raise ValueError(
        f"{name}: Invalid type for group: expected a ProcessGroup, its name, a mesh, (mesh, dim) or ranks, "
        f"got {given!r}"
    )


def _of_ranks(name: str, ranks: list[Any]) -> ProcessGroup:
    lines = ranks if ranks and isinstance(ranks[0], list) else [ranks]
    mine = [line for line in lines if default_group().rank() in line]
    found = [g for g in all_groups() for line in mine if list(g.global_ranks) == line]
    if not found:
        raise ValueError(f"{name}: expected the ranks of a group with this process, got {ranks}")
    return found[-1]


def wait_tensor(tensor: Tensor) -> Tensor:
    """Wait for the collective that writes to a tensor.

    Args:
        tensor: the result of a function of this module; any other tensor is returned as it is.
    Returns: the tensor.
    """
    if isinstance(tensor, AsyncCollectiveTensor):
        return tensor.trigger_wait()
    return _functional.wait_tensor(tensor)


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """Return the reduction of a tensor over all processes.

    Args:
        self: the tensor, of one shape and dtype in all processes.
        reduceOp: "sum", "avg", "product", "min", "max", "band", "bor" or "bxor"; sum and avg have a
            gradient.
        group: the processes.
        tag: no effect.
    Returns: a tensor that is waited for when it is read.
    Raises: ValueError for an unknown reduction or group.
    """
    return deferred(_functional.all_reduce(self, reduceOp, _group("all_reduce", group).group_name))


def all_reduce_coalesced(self: list[Tensor], reduceOp: str, group: Any, tag: str = "") -> list[Tensor]:
    """Return the reductions of several tensors over all processes, as `all_reduce`."""
    name = _group("all_reduce_coalesced", group).group_name
    return [deferred(result) for result in _functional.all_reduce_coalesced(self, reduceOp, name)]


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """Return the tensor of one process in all.

    Args:
        self: the tensor, of one shape and dtype in all processes.
        src: the rank in the group of the process whose tensor is copied.
        group: the processes.
        tag: no effect.
    Returns: a tensor that is waited for when it is read.
    Raises: ValueError for a rank that the group lacks.
    """
    return deferred(_functional.broadcast(self, src, _group("broadcast", group).group_name))


def _dim_of(name: str, value: Tensor, dim: int) -> int:
    if not -value.dim() <= dim < max(value.dim(), 1):
        raise IndexError(f"{name}: expected a dimension below {value.dim()}, got {dim}")
    return dim % max(value.dim(), 1)


def _gathered(name: str, value: Tensor, gather_dim: int, group: Any) -> Tensor:
    found = _group(name, group)
    dim, size = _dim_of(name, value, gather_dim), found.size()
    result = _functional.all_gather_into_tensor(value.contiguous(), size, found.group_name)
    if dim == 0:
        return deferred(result)
    return flambeau.cat(wait_tensor(result).chunk(size, 0), dim)


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """Return the tensors of all processes, one after the other along a dimension.

    Args:
        self: the tensor, of one shape and dtype in all processes.
        gather_dim: the dimension.
        group: the processes.
        tag: no effect.
    Returns: a tensor that is waited for when it is read; if `gather_dim` is not 0, it has been waited for.
    Raises: IndexError for a dimension that the tensor lacks.
    """
    return _gathered("all_gather_tensor", self, gather_dim, group)


def all_gather_tensor_autograd(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """Return what `all_gather_tensor` does; the gradient is the sum over processes of their parts."""
    return all_gather_tensor(self, gather_dim, group, tag)


def all_gather_into_tensor_coalesced(self: list[Tensor], group: Any, tag: str = "") -> list[Tensor]:
    """Return the tensors of all processes along dimension 0, for several tensors."""
    found = _group("all_gather_into_tensor_coalesced", group)
    results = _functional.all_gather_into_tensor_coalesced(self, found.size(), found.group_name)
    return [deferred(result) for result in results]


def _divided(name: str, value: Tensor, scatter_dim: int, size: int) -> Tensor:
    """Return a tensor whose parts along a dimension are one after the other along dimension 0."""
    dim = _dim_of(name, value, scatter_dim)
    if value.dim() == 0 or value.size(dim) % size:
        raise ValueError(
            f"{name}: input dimension {scatter_dim} must be a multiple of group size {size}: expected "
            f"such a shape, got {tuple(value.shape)}"
        )
    return value if dim == 0 else flambeau.cat(value.chunk(size, dim), 0)


def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    """Return this process's part of the reduction of a tensor over all processes.

    Args:
        self: the tensor, of one shape and dtype in all processes.
        reduceOp: as for `all_reduce`.
        scatter_dim: the dimension that is divided; the number of processes divides its size.
        group: the processes.
        tag: no effect.
    Returns: a tensor that is waited for when it is read.
    Raises: ValueError for a size that the number of processes does not divide.
    """
    found = _group("reduce_scatter_tensor", group)
    parts = _divided("reduce_scatter_tensor", self, scatter_dim, found.size())
    result = _functional.reduce_scatter_tensor(parts, reduceOp, found.size(), found.group_name)
    if _dim_of("reduce_scatter_tensor", self, scatter_dim) == 0:
        return deferred(result)
    shape = list(self.shape)
    shape[scatter_dim] //= found.size()
    return deferred(result.view(shape))


def reduce_scatter_tensor_autograd(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """Return what `reduce_scatter_tensor` does; the gradient is gathered from all processes."""
    return reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag)


def reduce_scatter_tensor_coalesced(
    inputs: list[Tensor], reduceOp: str, scatter_dim: list[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """Return this process's parts of the reductions of several tensors, each with its own dimension."""
    name = "reduce_scatter_tensor_coalesced"
    found = _group(name, group)
    if len(scatter_dim) != len(inputs):
        raise ValueError(f"{name}: expected {len(inputs)} dimensions, got {scatter_dim}")
    parts = [_divided(name, x, dim, found.size()) for x, dim in zip(inputs, scatter_dim, strict=True)]
    results = _functional.reduce_scatter_tensor_coalesced(parts, reduceOp, found.size(), found.group_name)
    return [deferred(result) for result in results]


def _equal_parts(name: str, value: Tensor, sizes: Sequence[int] | None, size: int) -> list[int]:
    if sizes is not None:
        if len(sizes) != size:
            raise ValueError(f"{name}: expected {size} split sizes, got {list(sizes)}")
        return list(sizes)
    if value.dim() == 0 or value.size(0) % size:
        raise ValueError(
            f"{name}: expected a size of dimension 0 that {size} divides, got {tuple(value.shape)}"
        )
    return [value.size(0) // size] * size


def all_to_all_single(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Return the parts of all processes' tensors that are meant for this one.

    Args:
        self: the tensor; its parts along dimension 0 go to the processes in their order.
        output_split_sizes: the sizes of the received parts; None: equal.
        input_split_sizes: the sizes of the sent parts; None: equal.
        group: the processes.
        tag: no effect.
    Returns: a tensor that is waited for when it is read.
    Raises: ValueError for sizes that do not fit.
    """
    name = "all_to_all_single"
    found = _group(name, group)
    sent = _equal_parts(name, self, input_split_sizes, found.size())
    received = _equal_parts(name, self, output_split_sizes, found.size())
    return deferred(_functional.all_to_all_single(self, received, sent, found.group_name))


def all_to_all_single_autograd(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Return what `all_to_all_single` does; the gradient goes back to the senders."""
    return all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag)


def permute_tensor(self: Tensor, src_dst: list[int], group: Any, tag: str = "") -> Tensor:
    """Return the tensor of the process that sends to this one.

    Args:
        self: the tensor, of one shape and dtype in all processes, with one dimension or more.
        src_dst: rank in the group -> the rank that its tensor goes to; a permutation.
        group: the processes.
        tag: no effect.
    Returns: a tensor that is waited for when it is read.
    Raises: ValueError if `src_dst` is not a permutation.
    """
    found = _group("permute_tensor", group)
    size, rank = found.size(), found.rank()
    if sorted(src_dst) != list(range(size)):
        raise ValueError(f"permute_tensor: expected a permutation of {size} ranks, got {src_dst}")
    if self.dim() == 0:
        raise ValueError("permute_tensor: expected one dimension or more, got a scalar")
    sent, received = [0] * size, [0] * size
    sent[src_dst[rank]] = received[src_dst.index(rank)] = self.size(0)
    return all_to_all_single(self, received, sent, found, tag)


# Later names of the same functions.
all_gather_single = all_gather_tensor
all_gather_single_autograd = all_gather_tensor_autograd
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single = reduce_scatter_tensor
reduce_scatter_single_autograd = reduce_scatter_tensor_autograd
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

# Names of PyTorch's module that are its own machinery.
_UNBUILT = """
    all_gather_inplace all_gather_into_tensor_backward all_gather_into_tensor_coalesced_backward
    all_gather_into_tensor_coalesced_setup_context all_gather_into_tensor_setup_context
    all_gather_tensor_inplace all_reduce_backward all_reduce_coalesced_backward
    all_reduce_coalesced_setup_context all_reduce_inplace all_reduce_setup_context
    all_to_all_inplace all_to_all_single_backward all_to_all_single_setup_context
    allow_inflight_collective_as_graph_input_ctx backend_impl batch_p2p_ops_inplace irecv_inplace
    isend_inplace legacy_all_gather legacy_all_gather_base legacy_all_to_all_single legacy_allgather
    legacy_allgather_single legacy_allreduce legacy_batch_p2p_ops legacy_irecv legacy_isend
    legacy_reduce_scatter_base legacy_reducescatter legacy_reducescatter_single
    reduce_scatter_tensor_backward reduce_scatter_tensor_coalesced_backward
    reduce_scatter_tensor_coalesced_setup_context reduce_scatter_tensor_inplace
    reduce_scatter_tensor_setup_context wait_tensor_backward wait_tensor_setup_context
""".split()

__getattr__, __dir__ = attributes(
    __name__, dict.fromkeys(_UNBUILT, "flambeau.distributed._functional_unbuilt")
)
