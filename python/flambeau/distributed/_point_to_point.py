"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau import Tensor
from flambeau.distributed import _checks
from flambeau.distributed._groups import get_global_rank, member_of
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Send a tensor to a process, without waiting.

    Args:
        tensor: the tensor, which must not change before the end.
        dst: the receiver's rank in the job.
        group: the processes; None: all.
        tag: a number that the receiver's must equal.
        group_dst: the receiver's rank in the group, in place of `dst`.
    Returns: a `Work`; None in a process that is not in the group.
    Raises: ValueError for this process's own rank; TypeError, RuntimeError for what cannot be sent.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> try:
        ...     dist.isend(flambeau.ones(2), dst=0)
        ... except ValueError:
        ...     print("a process does not send to itself")
        a process does not send to itself
        >>> dist.destroy_process_group()
    """
    _checks.tensor("isend", "tensor", tensor)
    found = member_of(group, "isend")
    if found is None:
        return None
    peer = _checks.root("isend", found, dst, group_dst, "dst")
    if peer == found.rank():
        raise ValueError(
            f"isend: expected another rank, got {peer}: Invalid destination rank: destination rank should "
            "not be the same as the rank of the current process."
        )
    return found.send([tensor], peer, _checked_tag("isend", tag))


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Receive a tensor from a process, without waiting.

    Args: As for `isend`, and
        tensor: receives the elements.
        src: the sender's rank in the job; None: any process.
        tag: a number that the sender's must equal.
        group_src: the sender's rank in the group, in place of `src`.
    Returns: a `Work`; None in a process that is not in the group.
    Raises: ValueError for this process's own rank; TypeError, RuntimeError for what cannot be received into.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> try:
        ...     dist.irecv(flambeau.ones(2), src=0)
        ... except ValueError:
        ...     print("a process does not receive from itself")
        a process does not receive from itself
        >>> dist.destroy_process_group()
    """
    _checks.tensor("irecv", "tensor", tensor)
    found = member_of(group, "irecv")
    if found is None:
        return None
    number = _checked_tag("irecv", tag)
    if src is None and group_src is None:
        return found.recv_anysource([tensor], number)
    peer = _checks.root("irecv", found, src, group_src, "src")
    if peer == found.rank():
        raise ValueError(
            f"irecv: expected another rank, got {peer}: Invalid source rank: source rank should not be the "
            "same as the rank of the current process."
        )
    return found.recv([tensor], peer, number)


def _checked_tag(name: str, tag: int) -> int:
    if not isinstance(tag, int) or tag < 0:
        raise ValueError(f"{name}: expected a tag from 0, got {tag!r}")
    return tag


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to a process.

    Args: As for `isend`, and
        tensor: the tensor.
        dst: the receiver's rank in the job.
        tag: a number that the receiver's must equal.
        group_dst: the receiver's rank in the group, in place of `dst`.
    Returns: None.
    Raises: as `isend`; DistBackendError if the process ends or time runs out.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> try:
        ...     dist.send(flambeau.ones(2), dst=0)
        ... except ValueError:
        ...     print("a process does not send to itself")
        a process does not send to itself
        >>> dist.destroy_process_group()
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from a process.

    Args: As for `isend`, and
        tensor: receives the elements.
        src: the sender's rank in the job; None: any process.
        tag: a number that the sender's must equal.
        group_src: the sender's rank in the group, in place of `src`.
    Returns: the sender's rank in the job; -1 in a process that is not in the group.
    Raises: as `irecv`; DistBackendError if the process ends, time runs out, or more elements come than fit.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> try:
        ...     dist.recv(flambeau.ones(2), src=0)
        ... except ValueError:
        ...     print("a process does not receive from itself")
        a process does not receive from itself
        >>> dist.destroy_process_group()
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    if src is not None:
        return src
    found = member_of(group, "recv")
    assert found is not None  # or there was no work
    return get_global_rank(found, work.source_rank() if group_src is None else group_src)


class P2POp:
    """A message of `batch_isend_irecv`.

    Args: As for `isend`, and
        op: `isend` or `irecv`.
        tensor: the tensor.
        peer: the other process's rank in the job.
        tag: a number that must be equal on both sides.
        group_peer: the other process's rank in the group, in place of `peer`.

    Raises: RuntimeError for another `op`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> try:
        ...     dist.P2POp(print, flambeau.ones(2), 0)
        ... except RuntimeError:
        ...     print("expected isend or irecv")
        expected isend or irecv
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise RuntimeError(f"P2POp: expected isend or irecv as op, got {op!r}: Invalid ``op``")
        _checks.tensor("P2POp", "tensor", tensor)
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        found = member_of(group, "P2POp")
        self.group_peer = -1 if found is None else _checks.root("P2POp", found, peer, group_peer, "peer")
        self.peer = -1 if found is None else get_global_rank(found, self.group_peer)

    def __repr__(self) -> str:
        what = f"shape={tuple(self.tensor.shape)}, {self.tensor.dtype}"
        return f"P2POp({self.op.__name__}, peer={self.peer}, {what})"


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start several messages, without waiting.

    Args:
        p2p_op_list: the messages; all of one group.
    Returns: a list of `Work`, in the order of the messages.
    Raises: RuntimeError for an empty list; ValueError for what is no `P2POp`, or messages of several groups.

    Example:
        >>> dist = flambeau.distributed
        >>> try:
        ...     dist.batch_isend_irecv([1])
        ... except ValueError:
        ...     print("expected P2POp")
        expected P2POp
    """
    name = "batch_isend_irecv"
    if not p2p_op_list:
        raise RuntimeError(f"{name}: expected at least one message, got none: Invalid ``p2p_op_list``")
    if not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise ValueError(
            f"{name}: Invalid ``p2p_op_list``: expected each op to be of type P2POp, got {p2p_op_list!r}"
        )
    if any(one.group is not p2p_op_list[0].group for one in p2p_op_list):
        raise ValueError(f"{name}: All ops need to use the same group: expected one, got several")
    works = (one.op(one.tensor, one.peer, one.group, one.tag) for one in p2p_op_list)
    return [work for work in works if work is not None]


P2POp.__module__ = "flambeau.distributed"
