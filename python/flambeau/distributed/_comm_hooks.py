"""Communication hooks of `DistributedDataParallel`: how the gradients of one bucket are reduced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._buckets import GradBucket
from flambeau.distributed._groups import default_group
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import AllreduceOptions
from flambeau.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Future[Any]]


def _averaged(group: ProcessGroup | None, tensor: Tensor) -> Future[Tensor]:
    found = default_group() if group is None else group
    tensor.div_(found.size())
    return found.allreduce([tensor], AllreduceOptions()).get_future().then(lambda f: f.value()[0])


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients of all processes, as `DistributedDataParallel` does without a hook.

    Args:
        process_group: the processes; None: all.
        bucket: the gradients.
    Returns: a future of the averages.

    Example:
        >>> model = flambeau.nn.Linear(1, 1)
        >>> # flambeau.nn.parallel.DistributedDataParallel(model).register_comm_hook(None, allreduce_hook)
    """
    return _averaged(process_group, bucket.buffer())


def _compressed(group: ProcessGroup | None, bucket: GradBucket, dtype: flambeau.dtype) -> Future[Tensor]:
    buffer = bucket.buffer()

    def widen(future: Future[Tensor]) -> Tensor:
        return buffer.copy_(future.value())

    return _averaged(group, buffer.to(dtype)).then(widen)


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients of all processes in float16, which halves what is sent.

    Args:
        process_group: the processes; None: all.
        bucket: the gradients.
    Returns: a future of the averages, in the gradients' dtype.

    Example:
        >>> model = flambeau.nn.Linear(1, 1)
        >>> # flambeau.nn.parallel.DistributedDataParallel(model).register_comm_hook(None, fp16_compress_hook)
    """
    return _compressed(process_group, bucket, flambeau.float16)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients of all processes in bfloat16, which halves what is sent.

    Args:
        process_group: the processes; None: all.
        bucket: the gradients.
    Returns: a future of the averages, in the gradients' dtype.

    Example:
        >>> model = flambeau.nn.Linear(1, 1)
        >>> # flambeau.nn.parallel.DistributedDataParallel(model).register_comm_hook(None, bf16_compress_hook)
    """
    return _compressed(process_group, bucket, flambeau.bfloat16)


def _wrapper(hook: Hook, dtype: flambeau.dtype) -> Hook:
    def compressing(state: Any, bucket: GradBucket) -> Future[Any]:
        original = bucket.buffer()
        bucket.set_buffer(original.to(dtype))

        def widen(future: Future[Any]) -> Tensor:
            value = future.value()
            original.copy_(value[0] if isinstance(value, list | tuple) else value)
            bucket.set_buffer(original)
            return original

        return hook(state, bucket).then(widen)

    return compressing


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that passes the gradients to another hook in float16.

    Args:
        hook: the other hook.
    Returns: the hook.

    Example:
        >>> hook = fp16_compress_wrapper(allreduce_hook)
    """
    return _wrapper(hook, flambeau.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that passes the gradients to another hook in bfloat16.

    Args:
        hook: the other hook.
    Returns: the hook.

    Example:
        >>> hook = bf16_compress_wrapper(allreduce_hook)
    """
    return _wrapper(hook, flambeau.bfloat16)


for _function in (
    allreduce_hook,
    bf16_compress_hook,
    bf16_compress_wrapper,
    fp16_compress_hook,
    fp16_compress_wrapper,
):
    _function.__module__ = "flambeau.distributed.algorithms.ddp_comm_hooks.default_hooks"
