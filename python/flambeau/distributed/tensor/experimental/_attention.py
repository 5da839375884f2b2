"""Context parallelism: sequences whose parts are on several processes (docs/distributed.md)."""

from __future__ import annotations

import contextlib
import enum
import functools
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau._C import _nn
from flambeau.autograd.graph import increment_version
from flambeau.distributed import _collectives
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor.experimental._ring import Ring, RingAttention
from flambeau.distributed.tensor.experimental._sequence_parts import (
    _HeadTailLoadBalancer,
    is_balanced,
    part_of,
)

__all__ = [
    "_HeadTailLoadBalancer",
    "_cp_options",
    "context_parallel",
    "context_parallel_unshard",
    "set_rotate_method",
]


class _RotateMethod(enum.Enum):
    """How keys and values reach the other processes."""

    ALL_TO_ALL = enum.auto()
    ALL_GATHER = enum.auto()


@dataclass
class _ContextParallelOptions:
    """Options of context parallelism, equal in all processes."""

    enable_load_balance: bool = True
    rotate_method: _RotateMethod = _RotateMethod.ALL_GATHER


_cp_options = _ContextParallelOptions()
_NAME = "scaled_dot_product_attention in context_parallel"
_METHODS = {"allgather": _RotateMethod.ALL_GATHER, "alltoall": _RotateMethod.ALL_TO_ALL}


def set_rotate_method(rotate_method: str) -> None:
    """Choose how keys and values reach the other processes in `context_parallel`.

    Args:
        rotate_method: ``"allgather"`` (the default): one collective gathers all of them, during attention to
            the process's own; ``"alltoall"``: they go from process to process, so that each has those of two
            processes at a time.
    Returns: None.
    Raises: NotImplementedError for another method.

    Example:
        >>> from flambeau.distributed.tensor.experimental._attention import set_rotate_method
        >>> set_rotate_method("allgather")
    """
    if not isinstance(rotate_method, str) or rotate_method not in _METHODS:
        raise NotImplementedError(
            f"set_rotate_method: expected 'allgather' or 'alltoall', got {rotate_method!r}"
        )
    _cp_options.rotate_method = _METHODS[rotate_method]


def _checked_mesh(name: str, mesh: Any) -> DeviceMesh:
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"{name}: expected a DeviceMesh as mesh, got {type(mesh).__name__}")
    if mesh.ndim != 1:
        raise ValueError(f"{name}: expected a mesh of one dimension, got one of {mesh.ndim}")
    return mesh


def _checked_dims(name: str, buffers: Sequence[Tensor], dims: Sequence[int], parameter: str) -> list[int]:
    """Return the dimensions as numbers that are not negative."""
    if len(buffers) != len(dims):
        raise ValueError(
            f"{name}: expected as many {parameter} as buffers, got {len(dims)} for {len(buffers)} buffers"
        )
    found = []
    for buffer, dim in zip(buffers, dims, strict=True):
        if not isinstance(buffer, Tensor):
            raise TypeError(f"{name}: expected tensors as buffers, got {type(buffer).__name__}")
        if not -buffer.dim() <= dim < buffer.dim():
            raise IndexError(
                f"{name}: expected {parameter} from {-buffer.dim()} to {buffer.dim() - 1} for a buffer of "
                f"shape {tuple(buffer.shape)}, got {dim}"
            )
        found.append(dim % buffer.dim())
    return found


def _check_buffers(buffers: Sequence[Tensor], dims: list[int], kept: AbstractSet[Tensor], size: int) -> None:
    """Raise an error before any buffer is changed."""
    identities = [id(buffer) for buffer in buffers]
    if not {id(buffer) for buffer in kept} <= set(identities):
        raise ValueError(
            "context_parallel: expected no_restore_buffers to be a subset of buffers, got another tensor"
        )
    if len(set(identities)) < len(identities):
        raise ValueError("context_parallel: expected different buffers, got the same tensor twice")
    for buffer, dim in zip(buffers, dims, strict=True):
        if buffer.requires_grad:
            raise RuntimeError(
                "context_parallel: expected buffers that do not require grad, got one of shape "
                f"{tuple(buffer.shape)} that does: cannot resize variables that require grad"
            )
        if buffer.size(dim) % size:
            raise ValueError(
                f"context_parallel: expected a length that {size} processes divide, got {buffer.size(dim)} "
                f"in dimension {dim} of a buffer of shape {tuple(buffer.shape)}"
            )


@contextlib.contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: list[Tensor] | None = None,
    buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:
    """Divide sequences among processes, which compute attention over the whole sequence together.

    Within the context, each buffer is this process's part of it, and the function
    `nn.functional.scaled_dot_product_attention` attends from this process's queries to the keys and values of
    all processes. It refuses dropout and masks. Backward can run outside of the context unless it needs the
    buffers or repeats parts of forward.

    Where twice the number n of processes divides a length, process r has the chunks r and 2n - 1 - r of 2n
    equal ones, so that causal attention is equal work for all; otherwise it has the r-th of n chunks.

    Args:
        mesh: a mesh of one dimension.
        buffers: tensors with a dimension along the sequence, such as tokens, targets and embeddings of
            positions. They do not require grad.
        buffer_seq_dims: the dimension along the sequence of each buffer. The number of processes divides it.
        no_restore_buffers: buffers that stay divided after the context; the others are restored.
    Returns: a context manager.
    Raises: ValueError for a mesh of several dimensions, another number of dimensions than of buffers, a
        length that the processes do not divide, a buffer that occurs twice, or a `no_restore_buffers` with
        other tensors; RuntimeError for a buffer that requires grad; IndexError for a dimension that a buffer
        lacks. Attention raises NotImplementedError for dropout and masks.
    Source: Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context"; Llama
        Team 2024, "The Llama 3 Herd of Models", section 3.3.2.
    See also: `context_parallel_unshard`, `set_rotate_method`

    Example:
        >>> from flambeau.distributed.tensor.experimental import context_parallel
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> q = flambeau.eye(2).view(1, 1, 2, 2)
        >>> with context_parallel(dist.init_device_mesh("cpu", (1,)), buffers=[q], buffer_seq_dims=[2]):
        ...     flambeau.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)[0, 0]
        tensor([[1.0000, 0.0000],
                [0.3302, 0.6698]])
        >>> dist.destroy_process_group()
    """
    mesh = _checked_mesh("context_parallel", mesh)
    buffers, kept = buffers or [], no_restore_buffers or set()
    dims = _checked_dims("context_parallel", buffers, buffer_seq_dims or [], "buffer_seq_dims")
    _check_buffers(buffers, dims, kept, mesh.size())
    rank, balances = mesh.get_local_rank(), _cp_options.enable_load_balance
    whole = []
    for buffer, dim in zip(buffers, dims, strict=True):
        whole.append(buffer.detach())
        _replace(buffer, part_of(buffer, dim, rank, mesh.size(), balances))
    before = nn.functional.scaled_dot_product_attention
    nn.functional.scaled_dot_product_attention = _attention_over(mesh)
    try:
        yield
    finally:
        nn.functional.scaled_dot_product_attention = before
        for buffer, old in zip(buffers, whole, strict=True):
            if not any(buffer is other for other in kept):
                _replace(buffer, old)


def _replace(buffer: Tensor, other: Tensor) -> None:
    """Give a tensor the memory and shape of another one; backward notices that it has lost its old values."""
    before = buffer._version
    buffer.data = other  # with the version of that memory
    while buffer._version <= before:
        increment_version(buffer)


def context_parallel_unshard(
    mesh: DeviceMesh,
    buffers: list[Tensor],
    seq_dims: list[int],
    load_balancer: Any = None,
) -> list[Tensor]:
    """Return whole tensors, whose parts along the sequence are in the processes of a mesh.

    Args:
        mesh: a mesh of one dimension.
        buffers: this process's parts, of equal shapes in all processes.
        seq_dims: the dimension along the sequence of each buffer.
        load_balancer: an object whose ``_generate_indices(restore=True)`` gives the place, in the parts one
            after another, of each position; None: the order of `context_parallel`.
    Returns: new tensors without gradients, equal in all processes.
    Raises: ValueError for a mesh of several dimensions or another number of dimensions than of buffers;
        IndexError for a dimension that a buffer lacks.
    See also: `context_parallel`

    Example:
        >>> from flambeau.distributed.tensor.experimental._attention import context_parallel_unshard
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> context_parallel_unshard(dist.init_device_mesh("cpu", (1,)), [flambeau.arange(4)], [0])
        [tensor([0, 1, 2, 3])]
        >>> dist.destroy_process_group()
    """
    mesh = _checked_mesh("context_parallel_unshard", mesh)
    dims = _checked_dims("context_parallel_unshard", buffers, seq_dims, "seq_dims")
    found = []
    with flambeau.no_grad():
        for buffer, dim in zip(buffers, dims, strict=True):
            mine = buffer.detach().movedim(dim, 0).contiguous()
            every = mine.new_empty(mesh.size() * mine.size(0), *mine.shape[1:])
            _collectives.all_gather_into_tensor(every, mine, mesh.get_group())
            balancer = load_balancer
            if balancer is None and is_balanced(mine.size(0), _cp_options.enable_load_balance):
                balancer = _HeadTailLoadBalancer(every.size(0), mesh.size(), every.device)
            if balancer is not None:
                every = every.index_select(0, balancer._generate_indices(restore=True).flatten())
            found.append(every.movedim(0, dim).contiguous())
    return found


def _attention_over(mesh: DeviceMesh) -> Callable[..., Tensor]:
    """Return the function that stands for `scaled_dot_product_attention` within the context."""
    plain = _nn.scaled_dot_product_attention  # even within another context

    @functools.wraps(plain)
    def scaled_dot_product_attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if any(isinstance(t, DTensor) for t in (query, key, value)):
            raise NotImplementedError(f"{_NAME}: expected plain tensors, got a DTensor")
        _check_attention(query, key, attn_mask, dropout_p, is_causal)
        shapes = [t.detach().to("meta") for t in (query, key, value)]
        like = plain(*shapes, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)  # its checks and shape
        if mesh.size() == 1 or like.numel() == 0:
            return plain(query, key, value, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
        parts = _expanded(_lowered(query, key, value), enable_gqa)
        ring = Ring(
            mesh.get_group(),
            _cp_options.rotate_method is _RotateMethod.ALL_GATHER,
            is_causal,
            is_balanced(key.size(-2), _cp_options.enable_load_balance),
            query.size(-1) ** -0.5 if scale is None else float(scale),
        )
        result: Tensor = RingAttention.apply(*parts, ring)
        return result

    return scaled_dot_product_attention


def _check_attention(
    query: Tensor, key: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool
) -> None:
    """Raise an error for what attention over several processes lacks."""
    if attn_mask is not None:
        raise NotImplementedError(f"{_NAME}: expected attn_mask=None, got a mask of {tuple(attn_mask.shape)}")
    if dropout_p:
        raise NotImplementedError(f"{_NAME}: expected dropout_p=0, got {dropout_p}")
    if is_causal and min(query.dim(), key.dim()) >= 2 and query.size(-2) != key.size(-2):
        raise ValueError(
            f"{_NAME}: expected queries and keys of equal lengths with is_causal=True, got {query.size(-2)} "
            f"and {key.size(-2)}"
        )
    if query.dim() and query.size(-1) == 0:
        raise ValueError(f"{_NAME}: expected at least one feature, got a query of {tuple(query.shape)}")


def _lowered(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Cast to the dtype of an autocast region, as the operator does."""
    if not flambeau.is_autocast_enabled("cpu"):
        return tensors
    dtype = flambeau.get_autocast_dtype("cpu")
    return tuple(t if t.dtype == flambeau.float64 else t.to(dtype) for t in tensors)


def _expanded(tensors: tuple[Tensor, ...], enable_gqa: bool) -> tuple[Tensor, ...]:
    """Broadcast batches; keys and values keep their heads if several of the query share one."""
    heads = 1 if enable_gqa else 0
    leads = [t.shape[: t.dim() - 2 - heads] for t in tensors]
    batch = flambeau.broadcast_shapes(*leads)
    return tuple(t.expand(*batch, *t.shape[t.dim() - 2 - heads :]) for t in tensors)
