"""The operators `_c10d_functional::*`: collectives that return new tensors, which wait_tensor completes.

Their kernels start the operation and register its work under the storage of the result. Autograd, dispatch
modes, fake tensors and tracers see them as any other operator.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from flambeau import Tensor, empty_like, library, ops
from flambeau.distributed._groups import world
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BroadcastOptions,
    ReduceOp,
    ReduceScatterOptions,
)
from flambeau.distributed._work import Work

SPACE = "_c10d_functional"
REDUCTIONS = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}
_SCHEMAS = (
    "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor",
    "all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]",
    "all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor",
    "all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]",
    "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor",
    "reduce_scatter_tensor_coalesced("
    "Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]",
    "all_to_all_single("
    "Tensor input, int[] output_split_sizes, int[] input_split_sizes, str group_name) -> Tensor",
    "broadcast(Tensor input, int src, str group_name) -> Tensor",
    "wait_tensor(Tensor tensor) -> Tensor",
)


# --- work that no call has waited for yet ---------------------------------------------------------------


class _Pending:
    """Storage of a result -> the operations that still write to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: dict[int, list[Work]] = {}

    def add(self, result: Tensor, work: Work) -> None:
        """Remember an operation, and forget those that have ended well."""
        key = result.untyped_storage().data_ptr()
        with self._lock:
            left = {k: [w for w in works if not w.is_success()] for k, works in self._works.items()}
            self._works = {k: works for k, works in left.items() if works}
            self._works.setdefault(key, []).append(work)

    def wait(self, result: Tensor) -> None:
        """Wait for the operations that write to a tensor's storage."""
        if not self._works:
            return
        with self._lock:
            works = self._works.pop(result.untyped_storage().data_ptr(), [])
        for work in works:
            work.wait()


_pending = _Pending()


# --- kernels --------------------------------------------------------------------------------------------


def _group(name: str) -> ProcessGroup:
    if name not in world.groups:
        raise RuntimeError(f"{SPACE}: expected the name of a process group, got {name!r}")
    return world.groups[name]


def _reduction(name: str) -> Any:
    if name.lower() not in REDUCTIONS:
        raise ValueError(f"{SPACE}: expected a reduction among {', '.join(REDUCTIONS)}, got {name!r}")
    return REDUCTIONS[name.lower()]


def _started(result: Tensor, work: Work) -> Tensor:
    _pending.add(result, work)
    return result


def _rows(name: str, value: Tensor, factor: int = 1, divisor: int = 1) -> Tensor:
    """Return a tensor for the result, whose first dimension is multiplied or divided."""
    if value.dim() == 0:
        if divisor != 1:
            raise RuntimeError(f"{name}: expected a tensor with a dimension to scatter, got a scalar")
        return value.new_empty((factor,))
    if value.size(0) % divisor:
        raise RuntimeError(
            f"{name}: expected a size of dimension 0 that {divisor} divides, got {tuple(value.shape)}"
        )
    return value.new_empty((value.size(0) * factor // divisor, *value.shape[1:]))


def _all_reduce(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    result = input.clone().contiguous()
    work = _group(group_name).allreduce([result], AllreduceOptions(_reduction(reduce_op), asyncOp=True))
    return _started(result, work)


def _all_gather(input: Tensor, group_size: int, group_name: str) -> Tensor:
    result = _rows("all_gather_into_tensor", input, factor=group_size)
    opts = AllgatherOptions(asyncOp=True)
    return _started(result, _group(group_name)._allgather_base(result, input.contiguous(), opts))


def _reduce_scatter(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    result = _rows("reduce_scatter_tensor", input, divisor=group_size)
    opts = ReduceScatterOptions(_reduction(reduce_op), asyncOp=True)
    return _started(result, _group(group_name)._reduce_scatter_base(result, input.contiguous(), opts))


def _all_to_all(
    input: Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int], group_name: str
) -> Tensor:
    result = _exchanged(input, output_split_sizes, input_split_sizes, group_name)
    sizes = list(output_split_sizes), list(input_split_sizes)
    opts = AllToAllOptions(asyncOp=True)
    return _started(result, _group(group_name).alltoall_base(result, input.contiguous(), *sizes, opts))


def _exchanged(
    input: Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int], group_name: str
) -> Tensor:
    if input.dim() == 0:
        raise RuntimeError("all_to_all_single: expected a tensor with a dimension to split, got a scalar")
    if sum(input_split_sizes) != input.size(0):
        raise RuntimeError(
            f"all_to_all_single: expected input_split_sizes with the sum {input.size(0)}, got "
            f"{list(input_split_sizes)}"
        )
    return input.new_empty((sum(output_split_sizes), *input.shape[1:]))


def _broadcast(input: Tensor, src: int, group_name: str) -> Tensor:
    group = _group(group_name)
    if not 0 <= src < group.size():
        raise ValueError(f"broadcast: expected src from 0 to {group.size() - 1}, got {src}")
    result = input.clone().contiguous()
    return _started(result, group.broadcast([result], BroadcastOptions(src, asyncOp=True)))


def _wait(tensor: Tensor) -> Tensor:
    _pending.wait(tensor)
    return tensor


def _each(kernel: Any) -> Any:
    return lambda inputs, *options: [kernel(value, *options) for value in inputs]


_KERNELS = {
    "all_reduce": _all_reduce,
    "all_reduce_coalesced": _each(_all_reduce),
    "all_gather_into_tensor": _all_gather,
    "all_gather_into_tensor_coalesced": _each(_all_gather),
    "reduce_scatter_tensor": _reduce_scatter,
    "reduce_scatter_tensor_coalesced": _each(_reduce_scatter),
    "all_to_all_single": _all_to_all,
    "broadcast": _broadcast,
    "wait_tensor": _wait,
}
# The shapes of results, for tensors without elements.
_SHAPES: dict[str, Any] = {
    "all_reduce": lambda x, *_: empty_like(x),
    "all_reduce_coalesced": lambda xs, *_: [empty_like(x) for x in xs],
    "all_gather_into_tensor": lambda x, size, _: _rows("all_gather_into_tensor", x, factor=size),
    "all_gather_into_tensor_coalesced": lambda xs, size, _: [_rows("all_gather", x, factor=size) for x in xs],
    "reduce_scatter_tensor": lambda x, _, size, __: _rows("reduce_scatter_tensor", x, divisor=size),
    "reduce_scatter_tensor_coalesced": lambda xs, _, size, __: [
        _rows("reduce_scatter_tensor", x, divisor=size) for x in xs
    ],
    "all_to_all_single": _exchanged,
    "broadcast": lambda x, *_: empty_like(x),
    "wait_tensor": lambda x: x.view_as(x),
}


# --- gradients ------------------------------------------------------------------------------------------

_functional: Any = getattr(ops, SPACE)


def _waited(result: Any) -> Any:
    """Complete the gradients of a list or a tensor."""
    if isinstance(result, Tensor):
        return _functional.wait_tensor(result)
    return [_functional.wait_tensor(value) for value in result]


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.options = inputs[1:]


def _linear(name: str, reduce_op: str) -> str:
    if reduce_op.lower() not in ("sum", "avg"):
        raise RuntimeError(f"{name}: expected sum or avg as reduction with a gradient, got {reduce_op!r}")
    return reduce_op


def _all_reduce_backward(name: str) -> Any:
    def backward(ctx: Any, grad: Any) -> Any:
        reduce_op, group_name = ctx.options
        result = getattr(_functional, name)(grad, _linear(name, reduce_op), group_name)
        return _waited(result), None, None

    return backward


def _all_gather_backward(name: str) -> Any:
    def backward(ctx: Any, grad: Any) -> Any:
        group_size, group_name = ctx.options
        result = getattr(_functional, name)(grad, "sum", group_size, group_name)
        return _waited(result), None, None

    return backward


def _reduce_scatter_backward(name: str) -> Any:
    def backward(ctx: Any, grad: Any) -> Any:
        reduce_op, group_size, group_name = ctx.options
        _linear("reduce_scatter_tensor", reduce_op)
        result = _waited(getattr(_functional, name)(grad, group_size, group_name))
        if reduce_op.lower() == "avg":
            result = result / group_size if isinstance(result, Tensor) else [r / group_size for r in result]
        return result, None, None, None

    return backward


def _all_to_all_backward(ctx: Any, grad: Tensor) -> Any:
    output_split_sizes, input_split_sizes, group_name = ctx.options
    result = _functional.all_to_all_single(grad, input_split_sizes, output_split_sizes, group_name)
    return _waited(result), None, None, None


def _broadcast_backward(ctx: Any, grad: Tensor) -> Any:
    src, group_name = ctx.options
    total = _waited(_functional.all_reduce(grad, "sum", group_name))
    return (total if _group(group_name).rank() == src else total.new_zeros(total.shape)), None, None


_GRADIENTS = {
    "all_reduce": _all_reduce_backward("all_reduce"),
    "all_reduce_coalesced": _all_reduce_backward("all_reduce_coalesced"),
    "all_gather_into_tensor": _all_gather_backward("reduce_scatter_tensor"),
    "all_gather_into_tensor_coalesced": _all_gather_backward("reduce_scatter_tensor_coalesced"),
    "reduce_scatter_tensor": _reduce_scatter_backward("all_gather_into_tensor"),
    "reduce_scatter_tensor_coalesced": _reduce_scatter_backward("all_gather_into_tensor_coalesced"),
    "all_to_all_single": _all_to_all_backward,
    "broadcast": _broadcast_backward,
    "wait_tensor": lambda ctx, grad: grad,
}


def _define() -> library.Library:
    """Define the operators; they live as long as the library."""
    made = library.Library(SPACE, "DEF")
    for schema in _SCHEMAS:
        name = schema.partition("(")[0]
        made.define(schema)
        made.impl(name, _KERNELS[name], "CPU")
        library.register_fake(f"{SPACE}::{name}", _SHAPES[name], lib=made)
        library.register_autograd(f"{SPACE}::{name}", _GRADIENTS[name], setup_context=_keep, lib=made)
    return made


_library = _define()
