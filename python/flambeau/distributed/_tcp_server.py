"""The server of a TCPStore: one thread, any number of connections, and no trust in what they send.

A connection begins with `GREETING`. Then frames follow: four bytes of length, and the fields of a request,
each with its own length. Nothing that is received is executed or unpickled. A connection that breaks these
rules or exceeds `FRAME_LIMIT` is closed; it changes no key.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flambeau.distributed._table import Table

GREETING = b"flambeau store 1\n"
FRAME_LIMIT = 64 << 20  # bytes of one request
FIELD_LIMIT = 1 << 16  # fields of one request
_LENGTH = struct.Struct("<I")
_CHUNK = 1 << 18  # bytes of one read
_LONGEST = 3600.0  # seconds of one `select`, which takes no arbitrary number


def _text(data: bytes) -> str:
    return data.decode()


def _number(data: bytes) -> int:
    if len(data) > 32:
        raise ValueError("TCPStore: expected a number of at most 32 digits, got more")
    return int(data)


# Operation -> how its fields are read; None: any number of keys.
OPERATIONS: dict[str, tuple[Callable[[bytes], Any], ...] | None] = {
    "set": (_text, bytes),
    "get": (_text,),
    "add": (_text, _number),
    "compare_set": (_text, bytes, bytes),
    "append": (_text, bytes),
    "delete_key": (_text,),
    "num_keys": (),
    "list_keys": (),
    "check": None,
    "queue_push": (_text, bytes),
    "queue_pop": (_text,),
    "queue_len": (_text,),
}


def pack(*fields: bytes) -> bytes:
    """Return a frame of fields."""
    body = b"".join(_LENGTH.pack(len(part)) + part for part in fields)
    return _LENGTH.pack(len(body)) + body


def unpack(body: bytes | bytearray) -> list[bytes]:
    """Return the fields of a frame without its length. Raises: ValueError if the lengths do not fit."""
    fields: list[bytes] = []
    at = 0
    while at < len(body):
        if len(fields) == FIELD_LIMIT or at + _LENGTH.size > len(body):
            raise ValueError("TCPStore: expected whole fields, got others")
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if at + length > len(body):
            raise ValueError("TCPStore: expected whole fields, got others")
        fields.append(bytes(body[at : at + length]))
        at += length
    return fields


def _answer(result: Any) -> bytes:
    if result is None:
        return pack(b"none")
    if isinstance(result, bytes):
        return pack(b"bytes", result)
    if isinstance(result, list):
        return pack(b"list", *(key.encode() for key in result))
    return pack(b"bool" if isinstance(result, bool) else b"int", str(int(result)).encode())


@dataclass(eq=False, slots=True)
class _Connection:
    socket: socket.socket
    incoming: bytearray = field(default_factory=bytearray)
    outgoing: bytearray = field(default_factory=bytearray)
    greeted: bool = False
    waits_for: list[str] | None = None  # keys
    deadline: float = 0.0


class Server(threading.Thread):
    """Serves one table of keys to all connections of a listening socket.

    Args:
        listener: the socket, which the server closes at its end.
    """

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(name="flambeau store", daemon=True)
        listener.setblocking(False)
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        self._table = Table()
        self._selector = selectors.DefaultSelector()
        self._waiting: list[_Connection] = []
        self._wakes, self._waker = socket.socketpair()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._wakes, selectors.EVENT_READ)

    def stop(self) -> None:
        """Close all connections and end the thread."""
        with contextlib.suppress(OSError):
            self._waker.send(b"!")
        self.join(timeout=5)

    def run(self) -> None:
        """Serve until `stop`."""
        try:
            while self._serve_once():
                pass
        finally:
            for key in list(self._selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
            self._selector.close()
            self._waker.close()

    def _serve_once(self) -> bool:
        now = time.monotonic()
        until = min((c.deadline for c in self._waiting), default=None)
        for key, events in self._selector.select(
            None if until is None else min(max(until - now, 0), _LONGEST)
        ):
            if key.fileobj is self._wakes:
                return False
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._exchange(key.data, events)
        self._end_waits()
        return True

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:  # the other side has gone, or no descriptor is free
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(accepted, selectors.EVENT_READ, _Connection(accepted))

    def _exchange(self, connection: _Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                data = connection.socket.recv(_CHUNK)
                if not data:
                    raise ConnectionResetError
                connection.incoming += data
            self._take(connection)
            self._send(connection)
        except BlockingIOError:
            pass
        except (OSError, ValueError):  # it has gone, or it does not speak the protocol
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()
        if connection.waits_for is not None:
            self._waiting.remove(connection)

    def _take(self, connection: _Connection) -> None:
        """Handle every whole request that has come."""
        data = connection.incoming
        if not connection.greeted:
            if not GREETING.startswith(bytes(data[: len(GREETING)])):
                raise ValueError("TCPStore: expected the greeting, got other bytes")
            if len(data) < len(GREETING):
                return
            del data[: len(GREETING)]
            connection.greeted = True
        while len(data) >= _LENGTH.size and connection.waits_for is None:
            (length,) = _LENGTH.unpack_from(data)
            if length > FRAME_LIMIT:
                raise ValueError("TCPStore: expected a shorter request, got a long one")
            if len(data) < _LENGTH.size + length:
                return
            fields = unpack(data[_LENGTH.size : _LENGTH.size + length])
            del data[: _LENGTH.size + length]
            self._handle(connection, fields)

    def _handle(self, connection: _Connection, fields: list[bytes]) -> None:
        operation = _text(fields[0]) if fields else ""
        if operation == "wait" and len(fields) >= 2:
            connection.deadline = time.monotonic() + min(_number(fields[1]), 10**12) / 1000
            connection.waits_for = [_text(part) for part in fields[2:]]
            self._waiting.append(connection)
            return
        if operation not in OPERATIONS:
            raise ValueError("TCPStore: expected an operation, got another word")
        readers = OPERATIONS[operation]
        given = fields[1:]
        if readers is not None and len(readers) != len(given):
            raise ValueError("TCPStore: expected the arguments of the operation, got others")
        arguments = [read(part) for read, part in zip(readers or [_text] * len(given), given, strict=True)]
        try:
            answer = _answer(getattr(self._table, operation)(*arguments))
        except RuntimeError as error:
            answer = pack(b"error", str(error).encode())
        connection.outgoing += answer

    def _end_waits(self) -> None:
        """Answer the waits whose keys exist or whose time is over."""
        now = time.monotonic()
        for connection in list(self._waiting):
            there = self._table.check(*(connection.waits_for or ()))
            if not there and now < connection.deadline:
                continue
            self._waiting.remove(connection)
            connection.waits_for = None
            connection.outgoing += pack(b"bool", b"1" if there else b"0")
            self._exchange(connection, 0)

    def _send(self, connection: _Connection) -> None:
        """Send what is ready, and ask to be told when the rest fits."""
        try:
            while connection.outgoing:
                del connection.outgoing[: connection.socket.send(connection.outgoing)]
        finally:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.outgoing else 0)
            if self._selector.get_key(connection.socket).events != wanted:
                self._selector.modify(connection.socket, wanted, connection)
