"""Messages between a DataLoader and its workers: pickles over a socket, memory of tensors beside them.

Long messages, and those with tensors, go into a file without a name; the socket carries its descriptor. So
the sender hardly ever waits for the receiver, what was sent outlives the sender, and the bytes of tensors are
mapped where they arrive instead of being copied. A mapping keeps no descriptor open.
"""

from __future__ import annotations

import array
import io
import mmap
import os
import pickle
import select
import socket
import struct
import threading
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._object.rebuild import rebuilt_sparse, sparse_parts
from flambeau._object.shared_memory import nameless_file
from flambeau._object.storage import Storage

# Whether a file belongs to the message, where the pickle begins in it, and how long the pickle is.
_HEADER = struct.Struct("<?QQ")
_LONGEST_INLINE = 8192
_READ_AT_ONCE = 1 << 16
_MOST_DESCRIPTORS = 64  # that one read may bring

_arrival = threading.local()  # .file: the descriptor; .mapped: storages by their place in it


# --- packing -------------------------------------------------------------------------------------------


class _Packer(ForkingPickler):
    """Pickles a message; `segments` are what its tensors need of the file."""

    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self.segments: list[tuple[int, Tensor]] = []
        self.places: dict[int, int] = {}  # by storage
        self.end = 0

    def reducer_override(self, value: Any) -> Any:
        """Send tensors, parameters and storages by their bytes."""
        from flambeau.nn.parameter import Parameter

        kind = type(value)
        if kind is Storage:
            return _storage_at, (self._place(value.tensor), value.nbytes())
        if (kind is not Tensor and kind is not Parameter) or value.device.type != "cpu":
            return NotImplemented
        if value.requires_grad and not value.is_leaf:
            raise RuntimeError(
                "DataLoader: a tensor with an autograd graph cannot be sent to another process; send "
                "x.detach()"
            )
        if value.is_sparse:
            return rebuilt_sparse, (kind, sparse_parts(value), value.requires_grad)
        plain = value.detach().resolve_conj().resolve_neg()
        block = _C._storage_bytes(plain)
        if block.numel() > 2 * plain.numel() * plain.element_size():
            plain = plain.clone()  # a small part of much memory
            block = _C._storage_bytes(plain)
        geometry = (plain.dtype, tuple(plain.shape), plain.stride(), plain.storage_offset())
        at = (self._place(block), block.numel())
        return _tensor_at, (kind, at, geometry, value.requires_grad)

    def _place(self, block: Tensor) -> int:
        known = self.places.get(block._storage_id())
        if known is None:
            known = self.places[block._storage_id()] = self.end
            self.segments.append((known, block))
            self.end += -(-block.numel() // mmap.PAGESIZE) * mmap.PAGESIZE
        return known


def _write(file: int, data: Any, offset: int) -> None:
    view = memoryview(data).cast("B")
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _pack(message: Any) -> tuple[bytes, int | None]:
    """Return the bytes to send over the socket, and the file descriptor to send with them."""
    out = io.BytesIO()
    packer = _Packer(out)
    packer.dump(message)
    data = out.getbuffer()
    if not packer.segments and len(data) <= _LONGEST_INLINE:
        return _HEADER.pack(False, 0, len(data)) + data, None
    file = nameless_file(packer.end + len(data))
    try:
        for offset, block in packer.segments:
            if block.numel():
                _write(file, block, offset)
        _write(file, data, packer.end)
    except BaseException:
        os.close(file)
        raise
    return _HEADER.pack(True, packer.end, len(data)), file


# --- unpacking -----------------------------------------------------------------------------------------


def _bytes_at(at: tuple[int, int]) -> Tensor:
    offset, count = at
    if count == 0:
        return _C._empty_bytes(0)
    if offset not in _arrival.mapped:
        _arrival.mapped[offset] = _C._map_file(_arrival.file, offset, count)
    return _arrival.mapped[offset]


def _storage_at(offset: int, count: int) -> Storage:
    return Storage(_bytes_at((offset, count)))


def _tensor_at(kind: type, at: tuple[int, int], geometry: tuple[Any, ...], requires_grad: bool) -> Any:
    out = _C._rebuild(_bytes_at(at), *geometry)
    if kind is Tensor:
        return out.requires_grad_(requires_grad) if requires_grad else out
    return kind(out, requires_grad)


def _unpack(file: int, offset: int, count: int) -> Any:
    previous = _arrival.__dict__.copy()
    _arrival.file, _arrival.mapped = file, {}
    try:
        return pickle.loads(os.pread(file, count, offset))
    finally:
        _arrival.__dict__.clear()
        _arrival.__dict__.update(previous)
        os.close(file)


# --- the socket ----------------------------------------------------------------------------------------


class Link:
    """One end of the connection between a loader and a worker.

    Args:
        end: a stream socket of the family AF_UNIX.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.socket = end
        self.is_open = True  # until the other end is closed, and all that it sent is read
        self._arrived = bytearray()
        self._files: deque[int] = deque()
        self._outgoing: deque[tuple[memoryview, int | None]] = deque()

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the socket and forget what is on its way."""
        self.is_open = False
        self.socket.close()
        for file in [*self._files, *(file for _, file in self._outgoing if file is not None)]:
            os.close(file)
        self._files.clear()
        self._outgoing.clear()

    # Sending

    @property
    def has_outgoing(self) -> bool:
        """Whether some of what was sent did not fit into the socket yet; see `flush`."""
        return bool(self._outgoing)

    def send(self, message: Any) -> None:
        """Send a message as far as the socket takes it; what pickling raises is raised here."""
        data, file = _pack(message)
        self._outgoing.append((memoryview(data), file))
        self.flush()

    def flush(self) -> None:
        """Send what is outgoing, as far as the socket takes it; BrokenPipeError if nobody reads."""
        while self._outgoing:
            data, file = self._outgoing[0]
            rights = (
                [] if file is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
            )
            try:
                sent = self.socket.sendmsg([data], rights)
            except BlockingIOError:
                return
            if file is not None:
                os.close(file)
            if sent == len(data):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = (data[sent:], None)

    def send_all(self, message: Any) -> None:
        """Send a message and wait until all of it is sent."""
        self.send(message)
        while self._outgoing:
            _wait_for(self.socket, select.POLLOUT)
            self.flush()

    # Receiving

    def read(self) -> list[Any]:
        """Return the messages that have arrived in full."""
        while self.is_open and self._read_once():
            pass
        messages = []
        while (size := self._next_size()) is not None:
            has_file, offset, count = _HEADER.unpack_from(self._arrived)
            body = bytes(self._arrived[_HEADER.size : size])
            del self._arrived[:size]
            messages.append(_unpack(self._files.popleft(), offset, count) if has_file else pickle.loads(body))
        return messages

    def receive(self) -> list[Any]:
        """Wait until at least one message has arrived; EOFError if the other end is closed."""
        while True:
            messages = self.read()
            if messages:
                return messages
            if not self.is_open:
                raise EOFError
            _wait_for(self.socket, select.POLLIN)

    def _next_size(self) -> int | None:
        if len(self._arrived) < _HEADER.size:
            return None
        has_file, _, count = _HEADER.unpack_from(self._arrived)
        size = _HEADER.size + (0 if has_file else count)
        return int(size) if len(self._arrived) >= size else None

    def _read_once(self) -> bool:
        space = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
        try:
            data, rights, flags, _ = self.socket.recvmsg(_READ_AT_ONCE, space, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return False
        except ConnectionError:
            data, rights, flags = b"", [], 0
        for _, kind, values in rights:
            if kind == socket.SCM_RIGHTS:
                files = array.array("i")
                files.frombytes(values[: len(values) - len(values) % files.itemsize])
                self._files.extend(files)
        if flags & socket.MSG_CTRUNC:
            raise OSError("DataLoader: too many open files in this process to receive a batch")
        self.is_open = bool(data)
        self._arrived += data
        return self.is_open


def _wait_for(end: socket.socket, events: int) -> None:
    poller = select.poll()
    poller.register(end, events)
    poller.poll()
