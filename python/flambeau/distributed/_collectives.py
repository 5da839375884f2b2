"""Collectives: functions that all processes of a group call, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import Tensor
from flambeau.distributed import _checks, _coalescing
from flambeau.distributed._groups import member_of
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from flambeau.distributed._work import Work

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "supports_complex",
]


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Tell whether a reduction takes complex tensors.

    Args:
        reduceOp: the reduction.
    Returns: a bool.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.supports_complex(dist.ReduceOp.SUM), dist.supports_complex(dist.ReduceOp.MAX)
        (True, False)
    """
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Reduce a tensor over all processes, in place; each has the result.

    Args:
        tensor: the tensor, of one shape and dtype in all processes.
        op: the reduction.
        group: the processes; None: all.
        async_op: return before the end.
    Returns: a `Work` with `async_op`; None otherwise, and in a process that is not in the group.
    Raises: TypeError, ValueError, RuntimeError for arguments that do not fit, before anything is sent;
        DistBackendError if a process ends or time runs out.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.ones(2)
        >>> dist.all_reduce(x)
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    _checks.tensor("all_reduce", "tensor", tensor)
    found = member_of(group, "all_reduce")
    if found is None:
        return None
    reduction = _checks.op("all_reduce", op, tensor)
    if _coalescing.takes("all_reduce", found, tensor, tensor, reduction):
        return None
    opts = AllreduceOptions(reduction, asyncOp=async_op)
    return _checks.ended(found.allreduce([tensor], opts), async_op)


def all_reduce_coalesced(
    tensors: Sequence[Tensor],
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce several tensors over all processes, in place; each has the results.

    Args: As for `all_reduce`, and
        tensors: the tensors, of the same shapes in all processes and one dtype.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.all_reduce_coalesced([flambeau.ones(2), flambeau.ones(3)])
        >>> dist.destroy_process_group()
    """
    name = "all_reduce_coalesced"
    values = [tensors] if isinstance(tensors, Tensor) else tensors
    _checks.tensors(name, "tensors", values)
    _checks.one_dtype(name, values)
    found = member_of(group, name)
    if found is None or not values:
        return None
    opts = AllreduceCoalescedOptions(_checks.op(name, op, values[0]), asyncOp=async_op)
    return _checks.ended(found.allreduce_coalesced(list(values), opts), async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce a tensor over all processes; one has the result, in place.

    Args: As for `all_reduce`, and
        tensor: the tensor, of one shape and dtype in all processes; unchanged in all but one.
        dst: the rank in the job of the process with the result.
        group_dst: the rank in the group, in place of `dst`.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.reduce(flambeau.ones(2), dst=0)
        >>> dist.destroy_process_group()
    """
    _checks.tensor("reduce", "tensor", tensor)
    found = member_of(group, "reduce")
    if found is None:
        return None
    root = _checks.root("reduce", found, dst, group_dst, "dst")
    opts = ReduceOptions(_checks.op("reduce", op, tensor), root, asyncOp=async_op)
    return _checks.ended(found.reduce([tensor], opts), async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy the tensor of one process to all, in place.

    Args: As for `all_reduce`, and
        tensor: the tensor, of one number of elements and dtype in all processes.
        src: the rank in the job of the process whose tensor is copied.
        group_src: the rank in the group, in place of `src`.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.broadcast(flambeau.ones(2), src=0)
        >>> dist.destroy_process_group()
    """
    _checks.tensor("broadcast", "tensor", tensor)
    found = member_of(group, "broadcast")
    if found is None:
        return None
    opts = BroadcastOptions(_checks.root("broadcast", found, src, group_src, "src"), asyncOp=async_op)
    return _checks.ended(found.broadcast([tensor], opts), async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all processes to all.

    Args: As for `all_reduce`, and
        tensor_list: one tensor per process, which receives its tensor; their shapes may differ.
        tensor: this process's tensor.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> found = [flambeau.zeros(2)]
        >>> dist.all_gather(found, flambeau.ones(2))
        >>> found
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    name = "all_gather"
    _checks.tensors(name, "tensor_list", tensor_list)
    _checks.tensor(name, "tensor", tensor)
    _checks.one_dtype(name, tensor_list, tensor)
    found = member_of(group, name)
    if found is None:
        return None
    _checks.count(name, "output tensor list", tensor_list, found.size())
    _checks.elements(name, "this rank's output tensor", tensor_list[found.rank()], tensor.numel())
    opts = AllgatherOptions(asyncOp=async_op)
    return _checks.ended(found.allgather([tensor_list], [tensor], opts), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all processes into one tensor in each, one after the other.

    Args: As for `all_reduce`, and
        output_tensor: receives all tensors; it has as many elements as all of them.
        input_tensor: this process's tensor, of one shape and dtype in all processes.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> found = flambeau.zeros(2)
        >>> dist.all_gather_into_tensor(found, flambeau.ones(2))
        >>> found
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    name = "all_gather_into_tensor"
    _checks.tensor(name, "input_tensor", input_tensor)
    _checks.tensor(name, "output_tensor", output_tensor)
    _checks.one_dtype(name, output_tensor, input_tensor)
    found = member_of(group, name)
    if found is None:
        return None
    _checks.elements(name, "an output tensor", output_tensor, input_tensor.numel() * found.size())
    if _coalescing.takes(name, found, output_tensor, input_tensor, None):
        return None
    opts = AllgatherOptions(asyncOp=async_op)
    return _checks.ended(found._allgather_base(output_tensor, input_tensor, opts), async_op)


all_gather_single = all_gather_into_tensor


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Copy several tensors of all processes to all.

    Args: As for `all_reduce`, and
        output_tensor_lists: one list per process, with a tensor for each of its tensors.
        input_tensor_list: this process's tensors.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> found = [[flambeau.zeros(2)]]
        >>> dist.all_gather_coalesced(found, [flambeau.ones(2)])
        >>> found
        [[tensor([1., 1.])]]
        >>> dist.destroy_process_group()
    """
    from flambeau.distributed._engine_group import SeveralWorks

    name = "all_gather_coalesced"
    _checks.tensors(name, "input_tensor_list", input_tensor_list)
    found = member_of(group, name)
    if found is None:
        return None
    _checks.count(name, "output tensor lists", output_tensor_lists, found.size())
    for outputs in output_tensor_lists:
        _checks.tensors(name, "output_tensor_lists", outputs)
        _checks.count(name, "output tensor list", outputs, len(input_tensor_list))
    works = [
        all_gather([outputs[i] for outputs in output_tensor_lists], tensor, found, async_op=True)
        for i, tensor in enumerate(input_tensor_list)
    ]
    return _checks.ended(SeveralWorks([work for work in works if work is not None]), async_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copy the tensors of all processes to one.

    Args: As for `all_reduce`, and
        tensor: this process's tensor, of one shape and dtype in all processes.
        gather_list: one tensor per process, in the receiving process; None in the others.
        dst: the rank in the job of the receiving process. Default: 0.
        group_dst: the rank in the group, in place of `dst`.
    Returns: a `Work` with `async_op`, or None.
    Raises: as `all_reduce`, and ValueError for a list in the wrong process.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> found = [flambeau.zeros(2)]
        >>> dist.gather(flambeau.ones(2), found, dst=0)
        >>> found
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    _checks.tensor("gather", "tensor", tensor)
    found = member_of(group, "gather")
    if found is None:
        return None
    given = 0 if dst is None and group_dst is None else dst
    root = _checks.root("gather", found, given, group_dst, "dst")
    if found.rank() != root:
        if gather_list:
            raise ValueError("gather: expected no gather_list on non-destination ranks, got one")
        outputs: list[list[Tensor]] = []
    else:
        if not gather_list:
            raise ValueError("gather: expected gather_list on the destination rank, got none")
        _checks.tensors("gather", "gather_list", gather_list)
        _checks.one_dtype("gather", tensor, gather_list)
        _checks.count("gather", "output tensor list", gather_list, found.size())
        _checks.shapes("gather", "output tensors", gather_list, tensor)
        outputs = [gather_list]
    opts = GatherOptions(root, asyncOp=async_op)
    return _checks.ended(found.gather(outputs, [tensor], opts), async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy one tensor of one process to each.

    Args: As for `all_reduce`, and
        tensor: receives this process's tensor.
        scatter_list: one tensor per process, in the sending process; None in the others.
        src: the rank in the job of the sending process. Default: 0.
        group_src: the rank in the group, in place of `src`.
    Returns: a `Work` with `async_op`, or None.
    Raises: as `all_reduce`, and ValueError for a list in the wrong process.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.zeros(2)
        >>> dist.scatter(x, [flambeau.ones(2)], src=0)
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    _checks.tensor("scatter", "tensor", tensor)
    found = member_of(group, "scatter")
    if found is None:
        return None
    given = 0 if src is None and group_src is None else src
    root = _checks.root("scatter", found, given, group_src, "src")
    inputs: list[list[Tensor]] = []
    if found.rank() == root:
        if not scatter_list:
            raise ValueError("scatter: expected scatter_list on the source rank, got none")
        _checks.tensors("scatter", "scatter_list", scatter_list)
        _checks.one_dtype("scatter", tensor, scatter_list)
        _checks.count("scatter", "input tensor list", scatter_list, found.size())
        _checks.shapes("scatter", "input tensors", scatter_list, tensor)
        inputs = [scatter_list]
    elif scatter_list:
        raise ValueError("scatter: expected no scatter_list on non-source ranks, got one")
    opts = ScatterOptions(root, asyncOp=async_op)
    return _checks.ended(found.scatter([tensor], inputs, opts), async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce lists of tensors over all processes; each has the result for its place.

    Args: As for `all_reduce`, and
        output: receives the result.
        input_list: one tensor per process, all of the shape of `output`.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.zeros(2)
        >>> dist.reduce_scatter(x, [flambeau.ones(2)])
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    name = "reduce_scatter"
    _checks.tensor(name, "output", output)
    _checks.tensors(name, "input_list", input_list)
    _checks.one_dtype(name, output, input_list)
    found = member_of(group, name)
    if found is None:
        return None
    _checks.count(name, "input tensor list", input_list, found.size())
    _checks.shapes(name, "input tensors", input_list, output)
    opts = ReduceScatterOptions(_checks.op(name, op, output), asyncOp=async_op)
    return _checks.ended(found.reduce_scatter([output], [input_list], opts), async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce a tensor over all processes; each has one part of the result.

    Args: As for `all_reduce`, and
        output: receives this process's part.
        input: the tensor, with as many elements as all parts.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.zeros(2)
        >>> dist.reduce_scatter_tensor(x, flambeau.ones(2))
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    name = "reduce_scatter_tensor"
    _checks.tensor(name, "output", output)
    _checks.tensor(name, "input", input)
    _checks.one_dtype(name, output, input)
    found = member_of(group, name)
    if found is None:
        return None
    _checks.elements(name, "an input tensor", input, output.numel() * found.size())
    reduction = _checks.op(name, op, input)
    if _coalescing.takes(name, found, output, input, reduction):
        return None
    opts = ReduceScatterOptions(reduction, asyncOp=async_op)
    return _checks.ended(found._reduce_scatter_base(output, input, opts), async_op)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Copy one part of the tensor of each process to each, along the first dimension.

    Args: As for `all_reduce`, and
        output: receives the parts, one after the other.
        input: the tensor.
        output_split_sizes: the sizes of the received parts. Default: equal ones.
        input_split_sizes: the sizes of the sent parts. Default: equal ones.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.zeros(2)
        >>> dist.all_to_all_single(x, flambeau.ones(2))
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    name = "all_to_all_single"
    _checks.tensor(name, "output", output)
    _checks.tensor(name, "input", input)
    _checks.one_dtype(name, output, input)
    found = member_of(group, name)
    if found is None:
        return None
    size = found.size()
    received = _checks.splits(name, "output_split_sizes", output_split_sizes, _rows(output), size)
    sent = _checks.splits(name, "input_split_sizes", input_split_sizes, _rows(input), size)
    opts = AllToAllOptions(asyncOp=async_op)
    return _checks.ended(found.alltoall_base(output, input, received, sent, opts), async_op)


def _rows(tensor: Tensor) -> int:
    return tensor.size(0) if tensor.dim() else 1


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Copy one tensor of each process to each.

    Args: As for `all_reduce`, and
        output_tensor_list: one tensor per process, which receives its tensor; shapes may differ.
        input_tensor_list: one tensor for each process.
    Returns: a `Work` with `async_op`, or None. Raises: as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = flambeau.zeros(2)
        >>> dist.all_to_all([x], [flambeau.ones(2)])
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    name = "all_to_all"
    _checks.tensors(name, "output_tensor_list", output_tensor_list)
    _checks.tensors(name, "input_tensor_list", input_tensor_list)
    _checks.one_dtype(name, output_tensor_list, input_tensor_list)
    found = member_of(group, name)
    if found is None:
        return None
    _checks.count(name, "output tensor list", output_tensor_list, found.size())
    _checks.count(name, "input tensor list", input_tensor_list, found.size())
    mine = found.rank()
    _checks.elements(name, "this rank's output", output_tensor_list[mine], input_tensor_list[mine].numel())
    opts = AllToAllOptions(asyncOp=async_op)
    return _checks.ended(found.alltoall(output_tensor_list, input_tensor_list, opts), async_op)
