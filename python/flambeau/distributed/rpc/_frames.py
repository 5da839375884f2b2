"""Messages on a connection: a fixed head, numbers, a table of tensors, a pickle, and tensors' bytes.

Lengths are checked before memory is allocated. A message is read as a whole before a part of it is used.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flambeau import Tensor
from flambeau.distributed.rpc._tensor_table import Entry, Malformed, allocate, memory, read_table


class Kind(enum.IntEnum):
    """What a message is."""

    CALL = 1  # run a function and answer
    REPLY = 2  # the result of a call
    ERROR = 3  # the exception of a call
    REMOTE = 4  # run a function, keep the result for an RRef, and answer when it is there
    FORK = 5  # numbers: an RRef and a new user of it
    DROP = 6  # numbers: an RRef and a user that is gone
    ACCEPTED = 7  # numbers: a user that the owner knows
    GOODBYE = 8  # the worker leaves in order
    FETCH = 9  # numbers: an RRef, whose value is the answer
    MEMORY = 10  # numbers: the process and the address of the bytes of the pickle; asks for MEMORY_TOO
    MEMORY_TOO = 11  # the same of the other side
    MEMORY_IS_READ = 12  # the other side's bytes were found
    RELEASED = 13  # numbers: tickets of tensors that were read from memory


_KINDS = {int(kind): kind for kind in Kind}


_HEAD = struct.Struct("<4sBBHQqqIQ")
_MAGIC = b"fRPC"
INTERNAL = 1  # flag: part of shutting down, not counted as work
HOLDS_REFERENCES = 2  # flag: there are RRefs in the pickle
IN_MEMORY = 4  # flag: a ticket and addresses of the tensors, in place of their bytes
IS_AWAITED = 8  # flag: the sender waits until its tensors in memory have been read
NOT_RECORDED = -2  # in place of the number of a message: its tensors need no gradients
_MOST_NUMBERS = 16
_TABLE_LIMIT = 1 << 26
_BODY_LIMIT = 1 << 31
_SMALL = 1 << 16  # bytes that are sent together with the head


@dataclass(slots=True)
class Message:
    """A message: one to send has `dense`, one that has come too.

    Args:
        kind: what it is.
        call: the number of the call that it begins or answers.
        context: the context of distributed autograd that it belongs to, or -1.
        gradients: the number by which gradients of its tensors come back, or -1.
        numbers: what identifies RRefs.
        table: the entries of the tensors.
        body: the pickle.
        dense: the tensors.
        flags: see above.
        forks: the new users of RRefs in the pickle, of a message to send.
        is_copied: whether the tensors of a message to send may change as soon as it was sent.
        ticket: what a message that has come calls its tensors in memory, or 0.
    """

    kind: Kind
    call: int = 0
    context: int = -1
    gradients: int = -1
    numbers: tuple[int, ...] = ()
    table: bytes = b""
    body: bytes | bytearray = b""
    dense: list[Tensor] = field(default_factory=list)
    flags: int = 0
    forks: list[tuple[int, ...]] = field(default_factory=list)
    is_copied: bool = False
    ticket: int = 0

    def tensor_bytes(self) -> int:
        """Return the number of bytes of the tensors."""
        return sum(dense.numel() * dense.element_size() for dense in self.dense)

    def parts(self, addresses: bytes = b"") -> list[bytes | bytearray | memoryview]:
        """Return what is sent, one part after the other; `addresses` stand for the bytes of the tensors."""
        if len(self.table) > _TABLE_LIMIT or len(self.body) > _BODY_LIMIT:
            raise RuntimeError(
                f"rpc: expected at most {_TABLE_LIMIT} bytes of descriptions of tensors and {_BODY_LIMIT} of "
                f"other values in a message, got {len(self.table)} and {len(self.body)}"
            )
        head = _HEAD.pack(
            _MAGIC,
            self.kind,
            self.flags | (IN_MEMORY | IS_AWAITED * self.is_copied if addresses else 0),
            len(self.numbers),
            self.call,
            self.context,
            self.gradients,
            len(self.table),
            len(self.body),
        )
        first = head + struct.pack(f"<{len(self.numbers)}q", *self.numbers) + self.table
        large = [memoryview(addresses)] if addresses else [memory(dense) for dense in self.dense]
        if len(self.body) + sum(view.nbytes for view in large) <= _SMALL:
            return [b"".join([first, self.body, *large])]
        return [first, self.body, *large]


def _no_memory(addresses: bytes | bytearray, dense: Sequence[Tensor]) -> int:
    raise Malformed("expected the bytes of tensors, got addresses")


def _received(read: Callable[[memoryview], None], entry: Entry) -> Tensor:
    tensor = allocate(entry)
    read(memory(tensor))
    return tensor


def receive(
    read: Callable[[memoryview], None],
    fetch: Callable[[bytes | bytearray, Sequence[Tensor]], int] = _no_memory,
) -> Message:
    """Return the next message of a connection. Raises: Malformed for other bytes.

    Args:
        read: fills memory from the stream.
        fetch: fills tensors from a ticket and addresses, and returns the ticket.
    """
    head = bytearray(_HEAD.size)
    read(memoryview(head))
    magic, kind, flags, count, call, context, gradients, table_size, body_size = _HEAD.unpack(head)
    if magic != _MAGIC or kind not in _KINDS:
        raise Malformed("expected the head of a message, got other bytes")
    if count > _MOST_NUMBERS or table_size > _TABLE_LIMIT or body_size > _BODY_LIMIT:
        raise Malformed("expected a shorter message, got a long one")
    start = bytearray(8 * count + table_size)
    if start:
        read(memoryview(start))
    table = bytes(start[8 * count :])
    entries = read_table(table)
    body = bytearray(body_size)
    if body_size:
        read(memoryview(body))
    ticket = 0
    if flags & IN_MEMORY:
        addresses = bytearray(8 + 8 * len(entries))
        read(memoryview(addresses))
        dense = [allocate(entry) for entry in entries]
        ticket = fetch(addresses, dense)
    else:
        dense = [_received(read, entry) for entry in entries]
    return Message(
        _KINDS[kind],
        call,
        context,
        gradients,
        struct.unpack_from(f"<{count}q", start),
        table,
        body,
        dense,
        flags & ~IN_MEMORY,
        ticket=ticket,
    )
