"""Collectives of Python objects, which are pickled.

Unpickling executes what the sender chose: use these only among processes that trust each other, as those of
one job do.
"""

from __future__ import annotations

import pickle
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed import _checks
from flambeau.distributed._collectives import all_gather, broadcast, gather, scatter
from flambeau.distributed._groups import member_of
from flambeau.distributed._point_to_point import recv, send
from flambeau.distributed._process_group import ProcessGroup

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _pickled(value: Any) -> Tensor:
    """Return the bytes of an object."""
    return flambeau.frombuffer(bytearray(pickle.dumps(value)), dtype=flambeau.uint8)


def _unpickled(data: Tensor, size: int) -> Any:
    return pickle.loads(bytes(memoryview(data[:size])))  # type: ignore[arg-type]


def _size(data: Tensor) -> Tensor:
    return flambeau.tensor([data.numel()], dtype=flambeau.int64)


def _padded(data: Tensor, size: int) -> Tensor:
    longer = flambeau.zeros(size, dtype=flambeau.uint8)
    longer[: data.numel()] = data
    return longer


def _sizes(data: Tensor, group: ProcessGroup) -> list[int]:
    found = [flambeau.zeros(1, dtype=flambeau.int64) for _ in range(group.size())]
    all_gather(found, _size(data), group)
    return [int(size) for size in found]


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Copy the objects of all processes to all.

    Args: As for `all_reduce`, and
        object_list: a list with one place per process, which receives the objects.
        obj: this process's object, which must be picklable.
    Returns: None.
    Raises: ValueError for a list of another length; as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> found = [None]
        >>> dist.all_gather_object(found, {"a": 1})
        >>> found
        [{'a': 1}]
        >>> dist.destroy_process_group()
    """
    found = member_of(group, "all_gather_object")
    if found is None:
        return
    _checks.count("all_gather_object", "object list", object_list, found.size())
    data = _pickled(obj)
    sizes = _sizes(data, found)
    parts = [flambeau.zeros(max(sizes), dtype=flambeau.uint8) for _ in sizes]
    all_gather(parts, _padded(data, max(sizes)), found)
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        object_list[i] = _unpickled(part, size)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Copy the objects of all processes to one.

    Args: As for `all_reduce`, and
        obj: this process's object, which must be picklable.
        object_gather_list: a list with one place per process, in the receiving process; None in the others.
        dst: the rank in the job of the receiving process. Default: 0.
        group_dst: the rank in the group, in place of `dst`.
    Returns: None.
    Raises: ValueError if the list is missing in the receiving process or given in another one; as
        `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> found = [None]
        >>> dist.gather_object("text", found, dst=0)
        >>> found
        ['text']
        >>> dist.destroy_process_group()
    """
    name = "gather_object"
    found = member_of(group, name)
    if found is None:
        return
    given = 0 if dst is None and group_dst is None else dst
    root = _checks.root(name, found, given, group_dst, "dst")
    is_root = found.rank() == root
    if is_root and not object_gather_list:
        raise ValueError(f"{name}: expected object_gather_list on the destination rank, got none")
    if not is_root and object_gather_list:
        raise ValueError(f"{name}: expected no object_gather_list on non-destination ranks, got one")
    if is_root:
        _checks.count(name, "object list", object_gather_list or [], found.size())
    data = _pickled(obj)
    sizes = _sizes(data, found)
    parts = [flambeau.zeros(max(sizes), dtype=flambeau.uint8) for _ in sizes] if is_root else None
    gather(_padded(data, max(sizes)), parts, group=found, group_dst=root)
    for i, part in enumerate(parts or ()):
        assert object_gather_list is not None
        object_gather_list[i] = _unpickled(part, sizes[i])


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copy the objects of one process to all.

    Args: As for `all_reduce`, and
        object_list: the objects, which must be picklable; of the same length in all processes.
        src: the rank in the job of the process whose objects are copied. Default: 0.
        device: no effect.
        group_src: the rank in the group, in place of `src`.
    Returns: None.
    Raises: ValueError for a list of another length than the sender's; as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.broadcast_object_list(["text", 1], src=0)
        >>> dist.destroy_process_group()
    """
    name = "broadcast_object_list"
    found = member_of(group, name)
    if found is None:
        return
    root = _checks.root(name, found, 0 if src is None and group_src is None else src, group_src, "src")
    is_root = found.rank() == root
    head, whole = _packed(object_list if is_root else [])
    broadcast(head, group=found, group_src=root)
    whole = whole if is_root else flambeau.empty(int(head[1]), dtype=flambeau.uint8)
    broadcast(whole, group=found, group_src=root)
    if not is_root:
        _spread(name, object_list, int(head[0]), whole)


def _packed(values: list[Any]) -> tuple[Tensor, Tensor]:
    """Return the number of objects and of bytes, and the bytes: those of the sizes, then of the objects."""
    data = [_pickled(value) for value in values]
    sizes = flambeau.tensor([part.numel() for part in data], dtype=flambeau.int64)
    whole = flambeau.cat([sizes.view(flambeau.uint8), *data])
    return flambeau.tensor([len(data), whole.numel()], dtype=flambeau.int64), whole


def _spread(name: str, object_list: list[Any], count: int, whole: Tensor) -> None:
    """Write received objects to a list. Raises: ValueError if the sender has more or fewer."""
    if count != len(object_list):
        raise ValueError(
            f"{name}: expected a list of the length of the sender's, {count}, got {len(object_list)}"
        )
    at = 8 * count
    for i, size in enumerate(whole[:at].clone().view(flambeau.int64).tolist()):
        object_list[i] = _unpickled(whole[at:], size)
        at += size


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Copy one object of one process to each.

    Args: As for `all_reduce`, and
        scatter_object_output_list: a list whose first place receives this process's object.
        scatter_object_input_list: one object per process, in the sending process.
        src: the rank in the job of the sending process. Default: 0.
        group_src: the rank in the group, in place of `src`.
    Returns: None.
    Raises: ValueError for an empty output list or an input list of another length; as `all_reduce`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> found = [None]
        >>> dist.scatter_object_list(found, ["text"], src=0)
        >>> found
        ['text']
        >>> dist.destroy_process_group()
    """
    name = "scatter_object_list"
    found = member_of(group, name)
    if found is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(f"{name}: expected a list of size at least 1, got {scatter_object_output_list!r}")
    root = _checks.root(name, found, 0 if src is None and group_src is None else src, group_src, "src")
    data: list[Tensor] = []
    sizes = flambeau.zeros(found.size(), dtype=flambeau.int64)
    if found.rank() == root:
        given = scatter_object_input_list or []
        _checks.count(name, "object list", given, found.size())
        data = [_pickled(value) for value in given]
        sizes = flambeau.tensor([part.numel() for part in data])
    broadcast(sizes, group=found, group_src=root)
    longest = int(sizes.max())
    part = flambeau.empty(longest, dtype=flambeau.uint8)
    scatter(part, [_padded(one, longest) for one in data] or None, group=found, group_src=root)
    scatter_object_output_list[0] = _unpickled(part, int(sizes[found.rank()]))


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to a process.

    Args: As for `all_reduce`, and
        object_list: the objects, which must be picklable.
        dst: the receiver's rank in the job.
        device: no effect.
        group_dst: the receiver's rank in the group, in place of `dst`.
        use_batch: no effect.
    Returns: None.
    Raises: as `send`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> try:
        ...     dist.send_object_list(["text"], dst=0)
        ... except ValueError:
        ...     print("a process does not send to itself")
        a process does not send to itself
        >>> dist.destroy_process_group()
    """
    found = member_of(group, "send_object_list")
    if found is None:
        return
    for part in _packed(object_list):
        send(part, dst, found, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects from a process.

    Args: As for `all_reduce`, and
        object_list: a list of the length of the sender's, which receives the objects.
        src: the sender's rank in the job; None: any process.
        device: no effect.
        group_src: the sender's rank in the group, in place of `src`.
        use_batch: no effect.
    Returns: the sender's rank in the job; -1 in a process that is not in the group.
    Raises: ValueError for a list of another length than the sender's; as `recv`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> try:
        ...     dist.recv_object_list([None], src=0)
        ... except ValueError:
        ...     print("a process does not receive from itself")
        a process does not receive from itself
        >>> dist.destroy_process_group()
    """
    found = member_of(group, "recv_object_list")
    if found is None:
        return -1
    head = flambeau.zeros(2, dtype=flambeau.int64)
    sender = recv(head, src, found, group_src=group_src)
    whole = flambeau.empty(int(head[1]), dtype=flambeau.uint8)
    recv(whole, sender, found)
    _spread("recv_object_list", object_list, int(head[0]), whole)
    return sender
