"""Post-local SGD: gradients are averaged in small groups once training has settled."""

from __future__ import annotations

import os

from flambeau import Tensor
from flambeau.distributed._buckets import GradBucket
from flambeau.distributed._comm_hooks import allreduce_hook
from flambeau.distributed._groups import get_world_size
from flambeau.distributed._init import new_subgroups
from flambeau.distributed._process_group import ProcessGroup
from flambeau.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """State of `post_localSGD_hook`.

    Args:
        process_group: the processes of the first passes; None: all.
        subgroup: the processes of the later passes; None: those of one host, as LOCAL_WORLD_SIZE counts them.
        start_localSGD_iter: the number of passes at first that all processes average.
        post_local_gradient_allreduce: whether later passes average gradients at all.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_local
        >>> post_local.PostLocalSGDState(None, None, start_localSGD_iter=100).iter
        0
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        subgroup: ProcessGroup | None,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a pass when its last bucket is reduced."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients of all processes at first, and of a subgroup later.

    A `PeriodicModelAverager` then keeps the models of the subgroups near each other.

    Args:
        state: the settings, a `PostLocalSGDState` per model.
        bucket: the gradients.
    Returns: a future of the averages.
    Source: Lin et al. 2020, "Don't Use Large Mini-Batches, Use Local SGD".
    See also: distributed.optim.PostLocalSGDOptimizer

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_local
        >>> state = post_local.PostLocalSGDState(None, None, start_localSGD_iter=100)
        >>> # model.register_comm_hook(state, post_local.post_localSGD_hook)
    """
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        future: Future[Tensor] = Future()
        future.set_result(bucket.buffer())
        return future
    if state.subgroup is None:
        local = int(os.environ.get("LOCAL_WORLD_SIZE", get_world_size()))
        state.subgroup, _ = new_subgroups(local)
    return allreduce_hook(state.subgroup, bucket)
