"""Tensors that a worker on the same machine reads from the memory of this process, without a stream of bytes.

Each side of a new connection names its process and a block of random bytes. The other side that finds these
bytes with ``process_vm_readv`` says so, and gets large tensors as addresses from then on. It reads them at
once and says that it has; until then the sender keeps them. Where the system forbids it, or the processes
are on different machines or in different containers, tensors stay in the stream.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import struct
import sys
import threading
from collections.abc import Sequence

import flambeau
from flambeau import Tensor

LEAST = 1 << 17  # bytes of a message's tensors; reading fewer costs more than it saves
PROOF = 32  # bytes
_AT_ONCE = 512  # blocks that one call of the system reads


def _reader() -> ctypes._NamedFuncPointer | None:
    if not sys.platform.startswith("linux"):
        return None
    found = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
    if found is not None:
        size, address = ctypes.c_size_t, ctypes.c_void_p
        found.restype = ctypes.c_ssize_t
        found.argtypes = [ctypes.c_int, address, ctypes.c_ulong, address, ctypes.c_ulong, size]
    return found


_read_memory = _reader()


def _read(process: int, own: list[int], theirs: list[int], sizes: list[int]) -> int:
    """Copy blocks of another process's memory, and return the number of bytes that came."""
    assert _read_memory is not None
    count = len(sizes)
    blocks = [
        ctypes.create_string_buffer(struct.pack(f"={2 * count}Q", *(n for pair in pairs for n in pair)))
        for pairs in (list(zip(own, sizes, strict=True)), list(zip(theirs, sizes, strict=True)))
    ]
    found = _read_memory(process, blocks[0], count, blocks[1], count, 0)
    if found < 0:
        raise OSError(ctypes.get_errno(), "the memory of the other worker can't be read")
    return found


def _read_all(process: int, own: int, theirs: int, size: int) -> None:
    """Copy one block. The system may read only a part of it per call."""
    while size:
        count = _read(process, [own], [theirs], [size])
        if count == 0:
            raise OSError(f"rpc: expected {size} more bytes in the memory of the other worker, got none")
        own, theirs, size = own + count, theirs + count, size - count


class DirectMemory:
    """What one connection knows about reading in the memory of its two processes."""

    def __init__(self) -> None:
        self._proof = flambeau.frombuffer(bytearray(secrets.token_bytes(PROOF)), dtype=flambeau.uint8)
        self._process: int | None = None  # the other one, if this worker can read its memory
        self.is_read = False  # whether the other worker can read this one's
        self._tickets = 0
        self._kept: dict[int, tuple[Sequence[Tensor], threading.Event]] = {}
        self._lock = threading.Lock()
        self.ended = False

    def introduction(self) -> tuple[tuple[int, int], bytes] | None:
        """Return this process and the address of a block, and its bytes; None if the system has no way."""
        if _read_memory is None:
            return None
        return (os.getpid(), self._proof.data_ptr()), bytes(memoryview(self._proof))  # type: ignore[arg-type]

    def verify(self, process: int, address: int, proof: bytes) -> bool:
        """Whether this worker finds the bytes that another one has named."""
        if _read_memory is None or process <= 0 or address <= 0 or len(proof) != PROOF:
            return False
        found = flambeau.zeros(PROOF, dtype=flambeau.uint8, device="cpu")
        try:
            _read_all(process, found.data_ptr(), address, PROOF)
        except OSError:
            return False
        if bytes(memoryview(found)) != proof:  # type: ignore[arg-type]
            return False
        self._process = process
        return True

    def keep(self, tensors: Sequence[Tensor]) -> tuple[int, bytes]:
        """Keep tensors until they have been read; return their ticket, and it with their addresses."""
        with self._lock:
            self._tickets += 1
            ticket = self._tickets
            self._kept[ticket] = tensors, threading.Event()
        addresses = (t.data_ptr() if t.numel() else 0 for t in tensors)
        return ticket, struct.pack(f"<{1 + len(tensors)}Q", ticket, *addresses)

    def release(self, ticket: int) -> None:
        """Forget tensors that have been read."""
        with self._lock:
            kept = self._kept.pop(ticket, None)
        if kept is not None:
            kept[1].set()

    def release_all(self) -> None:
        """Forget all tensors, since the other worker has ended."""
        with self._lock:
            self.ended, tickets = True, list(self._kept)
        for ticket in tickets:
            self.release(ticket)

    def wait(self, ticket: int, seconds: float) -> bool:
        """Wait until tensors have been read, or the other worker has ended; whether that was so in time."""
        with self._lock:
            kept = self._kept.get(ticket)
        return kept is None or kept[1].wait(min(seconds, threading.TIMEOUT_MAX))

    def waiting(self) -> list[int]:
        """Return the tickets of the tensors that are kept."""
        with self._lock:
            return list(self._kept)

    def fetch(self, section: bytes | bytearray, dense: Sequence[Tensor]) -> int:
        """Fill tensors from the addresses of the other worker; return the ticket.

        Raises: OSError if the memory can't be read.
        """
        if self._process is None:
            raise OSError(
                "rpc: expected tensors, got addresses of the other worker, but its memory can't be read"
            )
        ticket, *addresses = struct.unpack(f"<{1 + len(dense)}Q", section)
        blocks = [
            (t.data_ptr(), address, t.numel() * t.element_size())
            for t, address in zip(dense, addresses, strict=True)
            if t.numel()
        ]
        for at in range(0, len(blocks), _AT_ONCE):
            own, theirs, sizes = map(list, zip(*blocks[at : at + _AT_ONCE], strict=True))
            done = _read(self._process, own, theirs, sizes)
            for mine, address, size in zip(own, theirs, sizes, strict=True):  # what one call left
                came = min(done, size)
                done -= came
                _read_all(self._process, mine + came, address + came, size - came)
        return ticket
