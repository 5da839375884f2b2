"""Hooks that show what communication costs."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributed._buckets import GradBucket
from flambeau.futures import Future

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the gradients of this process, without communication, to measure what it costs.

    Args:
        _: no effect.
        bucket: the gradients.
    Returns: a future of the gradients.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
        >>> bucket = flambeau.distributed.GradBucket(0, [flambeau.nn.Parameter(flambeau.ones(2))], True)
        >>> noop_hook(None, bucket).wait()
        tensor([0., 0.])
    """
    future: Future[Tensor] = Future()
    future.set_result(bucket.buffer())
    return future
