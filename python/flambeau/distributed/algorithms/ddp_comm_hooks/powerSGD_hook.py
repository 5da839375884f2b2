"""PowerSGD: gradients are reduced over processes as products of two narrow matrices."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._buckets import GradBucket
from flambeau.distributed._comm_hooks import allreduce_hook
from flambeau.distributed._groups import default_group
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import AllreduceOptions
from flambeau.futures import Future

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """State of `powerSGD_hook` and `batched_powerSGD_hook`.

    Args:
        process_group: the processes; None: all.
        matrix_approximation_rank: the width of the two factors; a larger one is more exact.
        start_powerSGD_iter: the number of passes at first that reduce whole gradients.
        min_compression_rate: a gradient is compressed if its factors have fewer elements by more than this
            factor.
        use_error_feedback: whether what a pass leaves out is added to the gradients of the next one.
        warm_start: whether a pass begins with the factor of the last one.
        orthogonalization_epsilon: added to the norms of columns; 0: columns are made orthogonal by QR.
        random_seed: the seed of the first factors, equal in all processes.
        compression_stats_logging_frequency: no effect; `compression_stats` can be called at any time.
        batch_tensors_with_same_shape: whether gradients of one shape are multiplied together.
    Raises: ValueError if error feedback or a warm start would begin in the first pass, for a rank that is not
        positive, or a negative epsilon.
    Source: Vogels et al. 2019, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
        Optimization", algorithms 1 and 2.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
        >>> PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=10).iter
        0
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "PowerSGDState: expected `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` "
                f"is enabled, got {start_powerSGD_iter}"
            )
        if matrix_approximation_rank < 1:
            raise ValueError(
                "PowerSGDState: expected a positive matrix_approximation_rank, got "
                f"{matrix_approximation_rank}"
            )
        if orthogonalization_epsilon < 0:
            raise ValueError(
                "PowerSGDState: expected orthogonalization_epsilon of at least 0, got "
                f"{orthogonalization_epsilon}"
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.rng = flambeau.Generator().manual_seed(random_seed)
        self.error_dict: dict[int, Tensor] = {}  # bucket -> what the last pass left out
        self.q_memory_dict: dict[int, list[Tensor]] = {}  # bucket -> second factors of the last pass
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a pass when its last bucket is reduced."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float, int, int]:
        """Return how much was saved.

        Returns: elements of gradients per sent element, and both numbers, since compression began.
        """
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0), before, after

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["rng"] = self.rng.get_state()
        del state["process_group"]  # of this process alone; the loaded state uses all processes
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.process_group = None
        self.rng = flambeau.Generator()
        self.rng.set_state(state["rng"])


def _orthogonal(matrices: Tensor, epsilon: float) -> Tensor:
    """Return matrices whose columns are orthogonal and span what those of `matrices` do."""
    wide = matrices.float() if matrices.dtype in (flambeau.float16, flambeau.bfloat16) else matrices
    if epsilon == 0:
        return flambeau.linalg.qr(wide)[0].to(matrices.dtype)
    columns: list[Tensor] = []
    for column in wide.unbind(-1):
        for earlier in columns:
            column = column - (earlier * column).sum(-1, keepdim=True) * earlier
        columns.append(column / (column.norm(2, -1, True) + epsilon))
    return flambeau.stack(columns, -1).to(matrices.dtype)


def _summed(group: ProcessGroup, tensors: list[Tensor]) -> list[Tensor]:
    """Return the sums of tensors over processes, which are sent together."""
    if not tensors:
        return []
    flat = flambeau.cat([t.reshape(-1) for t in tensors])
    group.allreduce([flat], AllreduceOptions()).wait()
    parts = flat.split([t.numel() for t in tensors])
    return [part.view(t.shape) for part, t in zip(parts, tensors, strict=True)]


def _stacks(state: PowerSGDState, matrices: list[Tensor]) -> list[list[Tensor]]:
    """Return the matrices that are multiplied together."""
    if not state.batch_tensors_with_same_shape:
        return [[matrix] for matrix in matrices]
    by_shape: dict[Any, list[Tensor]] = {}
    for matrix in matrices:
        by_shape.setdefault(tuple(matrix.shape), []).append(matrix)
    return list(by_shape.values())


def _approximate(
    state: PowerSGDState, group: ProcessGroup, index: int, matrices: list[Tensor], errors: list[Tensor]
) -> None:
    """Replace matrices by an approximation of their averages over processes.

    Args:
        state: the settings and last factors.
        group: the processes.
        index: the bucket.
        matrices: the matrices, in place.
        errors: receives what this process's matrices have beyond their approximations.
    """
    parts = _stacks(state, matrices)
    lost = _stacks(state, errors)
    stacks = [flambeau.stack(part) for part in parts]
    rank = state.matrix_approximation_rank
    second = state.q_memory_dict.get(index) if state.warm_start else None
    if second is None or [q.shape[:2] for q in second] != [s.mT.shape[:2] for s in stacks]:
        second = []
        for stack in stacks:
            count, rows, columns = stack.shape
            width = min(rank, rows, columns)
            drawn = flambeau.randn(count, columns, width, generator=state.rng, dtype=flambeau.float32)
            second.append(drawn.to(stack.dtype))
    epsilon = state.orthogonalization_epsilon
    first = _summed(group, [s @ _orthogonal(q, epsilon) for s, q in zip(stacks, second, strict=True)])
    first = [_orthogonal(p, epsilon) for p in first]
    own = [s.mT @ p for s, p in zip(stacks, first, strict=True)]
    second = [q / group.size() for q in _summed(group, own)]
    state.q_memory_dict[index] = second
    state.total_numel_after_compression += sum(p.numel() for p in (*first, *second))
    for i, stack in enumerate(stacks):
        for error, value in zip(lost[i], stack - first[i] @ own[i].mT, strict=True):
            error.copy_(value)
        for matrix, value in zip(parts[i], first[i] @ second[i].mT, strict=True):
            matrix.copy_(value)


def _is_compressed(state: PowerSGDState, tensor: Tensor) -> bool:
    if tensor.dim() < 2 or tensor.numel() == 0:
        return False
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    width = min(rows, columns, state.matrix_approximation_rank)
    return (rows + columns) * width * state.min_compression_rate < tensor.numel()


def _done(value: Tensor) -> Future[Tensor]:
    future: Future[Tensor] = Future()
    future.set_result(value)
    return future


def _begun(state: PowerSGDState, bucket: GradBucket) -> tuple[ProcessGroup, Tensor | None]:
    """Add the error of the last pass to a bucket.

    Returns: the processes, and the tensor for the next error; None: errors are dropped.
    """
    group = default_group() if state.process_group is None else state.process_group
    buffer = bucket.buffer()
    state.total_numel_before_compression += buffer.numel()
    if not state.use_error_feedback:
        return group, None
    error = state.error_dict.get(bucket.index())
    if error is None or error.numel() != buffer.numel():
        error = state.error_dict[bucket.index()] = flambeau.zeros_like(buffer)
    buffer.add_(error)
    return group, error.zero_()


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients of all processes as products of two narrow matrices, one product per gradient.

    Gradients of one dimension, and those whose factors would save too little, are averaged whole. The hook
    waits for its reductions, whose order must be the same in all processes.

    Args:
        state: the settings, a `PowerSGDState` per model.
        bucket: the gradients.
    Returns: a future of approximations of the averages.
    Source: Vogels et al. 2019, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
        Optimization".

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD
        >>> state = powerSGD.PowerSGDState(None, matrix_approximation_rank=2)
        >>> # model.register_comm_hook(state, powerSGD.powerSGD_hook)
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    group, error = _begun(state, bucket)
    gradients = bucket.gradients()
    flat = flambeau.empty_like(bucket.buffer()) if error is None else error
    lost = [
        part.view(g.shape)
        for part, g in zip(flat.split([g.numel() for g in gradients]), gradients, strict=True)
    ]
    chosen = [_is_compressed(state, g) for g in gradients]
    whole = [g for g, is_chosen in zip(gradients, chosen, strict=True) if not is_chosen]
    state.total_numel_after_compression += sum(g.numel() for g in whole)
    for gradient, total in zip(whole, _summed(group, whole), strict=True):
        gradient.copy_(total / group.size())
    matrices = [g.view(g.shape[0], -1) for g, is_chosen in zip(gradients, chosen, strict=True) if is_chosen]
    errors = [e.view(e.shape[0], -1) for e, is_chosen in zip(lost, chosen, strict=True) if is_chosen]
    if matrices:
        _approximate(state, group, bucket.index(), matrices, errors)
    state.maybe_increase_iter(bucket)
    return _done(bucket.buffer())


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients of all processes as one product of two narrow matrices per bucket.

    The elements of a bucket, and zeros, form one square matrix. This is faster than `powerSGD_hook`, and
    often less exact.

    Args:
        state: the settings, a `PowerSGDState` per model.
        bucket: the gradients.
    Returns: a future of an approximation of the averages.
    Source: Vogels et al. 2019, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
        Optimization".

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD
        >>> state = powerSGD.PowerSGDState(None, matrix_approximation_rank=2)
        >>> # model.register_comm_hook(state, powerSGD.batched_powerSGD_hook)
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    group, error = _begun(state, bucket)
    buffer = bucket.buffer()
    side = math.isqrt(buffer.numel() - 1) + 1
    square = flambeau.zeros(side * side, dtype=buffer.dtype)
    square[: buffer.numel()] = buffer
    lost = flambeau.zeros_like(square)
    _approximate(state, group, bucket.index(), [square.view(side, side)], [lost.view(side, side)])
    buffer.copy_(square[: buffer.numel()])
    if error is not None:
        error.copy_(lost[: buffer.numel()])
    state.maybe_increase_iter(bucket)
    return _done(buffer)
