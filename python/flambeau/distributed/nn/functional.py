"""Collectives that autograd records: backward passes communicate, too.

All processes of the group call the function, and all of them run backward, in the same order. Every function
returns new tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.distributed._groups import group
from flambeau.distributed._reductions import ReduceOp
from flambeau.distributed.nn import _adjoints

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "group",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Return the tensor of one process in all.

    Gradient: the sum over all processes goes to `src`, zeros to the others.

    Args:
        tensor: the tensor, of one shape and dtype in all processes.
        src: the rank of the process whose tensor is copied.
        group: the processes; None: all.
    Shape: any; the same.
    Raises: ValueError for a rank that the group lacks.
    Source: the adjoint of copying is a sum.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> dist.nn.functional.broadcast(x, 0).sum().backward(); x.grad
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    return _adjoints.Broadcast.apply(tensor, src, group)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all processes in one of them.

    Gradient: each process gets the gradient of its tensor from `dst`.

    Args:
        tensor: the tensor, of one shape and dtype in all processes.
        dst: the rank of the process that gets the tensors; the others get zeros.
        group: the processes; None: all.
    Shape: any; as many of the same as there are processes.
    Raises: ValueError for a rank that the group lacks.
    Source: the adjoint of gathering is scattering.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> [y.detach() for y in dist.nn.functional.gather(x)]
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    return _adjoints.Gather.apply(tensor, dst, group)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Return the tensor that one process has for this one.

    Gradient: those of all processes go to the tensors of `src`; the tensors of the others get zeros.

    Args:
        tensors: one per process, of one shape and dtype; those of other processes than `src` are not sent.
        src: the rank of the process whose tensors are sent.
        group: the processes; None: all.
    Shape: any; the same.
    Raises: ValueError for a rank that the group lacks.
    Source: the adjoint of scattering is gathering.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> dist.nn.functional.scatter([x * 3]).sum().backward(); x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """
    return _adjoints.Scatter.apply(src, group, *tensors)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the reduction of the tensors of all processes in one of them.

    Gradient: that of `dst` goes to all processes.

    Args:
        tensor: the tensor, of one shape and dtype in all processes.
        dst: the rank of the process that gets the reduction; the others get a copy of their tensors.
        op: the reduction. Only SUM and AVG have gradients.
        group: the processes; None: all.
    Shape: any; the same.
    Raises: ValueError for a rank that the group lacks. In backward, RuntimeError for
        other reductions than SUM and AVG.
    Source: the adjoint of a sum is copying.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> dist.nn.functional.reduce(x, 0).sum().backward(); x.grad
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    return _adjoints.Reduce.apply(tensor, dst, op, group)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """Return the reduction of the tensors that all processes have for this one.

    Gradient: each process gets those of all processes for its tensors.

    Args:
        output: a tensor of the result's shape and dtype; its elements do not change.
        input_list: one tensor per process.
        op: the reduction. Only SUM and AVG have gradients.
        group: the processes; None: all.
    Shape: any; the same.
    Raises: in backward, RuntimeError for other reductions than SUM and AVG.
    Source: the adjoint of scattered sums is gathering.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> dist.nn.functional.reduce_scatter(x.detach(), [x]).sum().backward(); x.grad
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    return _adjoints.ReduceScatter.apply(op, group, output, *input_list)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all processes in all of them.

    Gradient: the sum over all processes of their gradients of this tensor.

    Args:
        tensor: the tensor, of one shape and dtype in all processes.
        group: the processes; None: all.
    Shape: any; as many of the same as there are processes.
    Raises: RuntimeError if there is no process group.
    Source: the adjoint of gathering everywhere is a scattered sum.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> [y.detach() for y in dist.nn.functional.all_gather(x)]
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    return _adjoints.AllGather.apply(group, tensor)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Return the tensors that all processes have for this one.

    Gradient: each process gets back those of the tensors that it sent.

    Args:
        output_tensor_list: one tensor per process, of the shape and dtype of what it sends; their elements
            do not change.
        input_tensor_list: one tensor for each process.
        group: the processes; None: all.
    Shape: any; those of `output_tensor_list`.
    Raises: RuntimeError if there is no process group.
    Source: the adjoint of a permutation is its inverse.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> [y.detach() for y in dist.nn.functional.all_to_all([x.detach()], [x])]
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    return _adjoints.AllToAll.apply(group, list(output_tensor_list), *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Return the parts of all processes' tensors that are meant for this one.

    Gradient: each process gets back those of the parts that it sent.

    Args:
        output: a tensor of the result's shape and dtype; its elements do not change.
        input: the tensor; its parts along dimension 0 go to the processes in their order.
        output_split_sizes: the sizes of the received parts; None: equal.
        input_split_sizes: the sizes of the sent parts; None: equal.
        group: the processes; None: all.
    Shape: any; that of `output`.
    Raises: ValueError for sizes that do not fit.
    Source: the adjoint of a permutation is its inverse.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> dist.nn.functional.all_to_all_single(x.detach(), x).sum().backward(); x.grad
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    return _adjoints.AllToAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the reduction of the tensors of all processes in all of them.

    Gradient: its own reduction over all processes.

    Args:
        tensor: the tensor, of one shape and dtype in all processes.
        op: the reduction. Only SUM and AVG have gradients.
        group: the processes; None: all.
    Shape: any; the same.
    Raises: in backward, RuntimeError for other reductions than SUM and AVG.
    Source: a sum for all processes is its own adjoint.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> dist.nn.functional.all_reduce(x).sum().backward(); x.grad
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    return _adjoints.AllReduce.apply(tensor, op, group)


for _name in __all__:
    if _name not in ("ReduceOp", "group"):
        globals()[_name].__module__ = "flambeau.distributed.nn.functional"

__getattr__, __dir__ = attributes(__name__)
