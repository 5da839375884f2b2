"""A connection between two workers that know each other: whole messages, read by one thread at a time."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from flambeau.distributed.rpc._direct_memory import LEAST, DirectMemory
from flambeau.distributed.rpc._frames import IS_AWAITED, Kind, Message, receive
from flambeau.distributed.rpc._pool import Pool, Task
from flambeau.distributed.rpc._tensor_table import Malformed

_log = logging.getLogger("flambeau.distributed.rpc")
_TICK = 0.2  # seconds after which a send that makes no progress looks at its deadline
_FAREWELL = 1.0  # seconds that a last message may take
_BUFFER = 1 << 16  # bytes that are read at once
_PARTS = 512  # of memory that one call of the system sends
_RECEIPTS = 16  # tickets in a message
_RETRY = 0.01  # seconds until receipts are sent again to a worker that accepts no bytes
_OWN = frozenset((Kind.MEMORY, Kind.MEMORY_TOO, Kind.MEMORY_IS_READ, Kind.RELEASED))
_KEEP_ALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


class Connection:
    """Messages to and from one worker.

    Args:
        link: the socket.
        rank: of the other worker.
        pool: the threads that read.
        on_message: called with each message in the order of sending; returns what the thread does next.
        on_end: called once with the reason, after the last message.
    """

    def __init__(
        self,
        link: socket.socket,
        rank: int,
        pool: Pool,
        on_message: Callable[[Connection, Message], Task | None],
        on_end: Callable[[Connection, str], None],
    ) -> None:
        self.rank = rank
        self.said_goodbye = False
        self._socket, self._pool = link, pool
        self._on_message, self._on_end = on_message, on_end
        self._sending = threading.Lock()
        self._closed = False
        self._memory = DirectMemory()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, int(_TICK * 1e6)))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE:
            if hasattr(socket, name):
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._stream: Any = link.makefile("rb", _BUFFER)
        self._over = threading.Event()
        self._reader = 0  # the thread that reads
        self._receipts: deque[int] = deque()  # of tensors that were read
        self._is_retrying = False

    def start(self) -> None:
        """Begin to read."""
        self._pool.read(self)

    def introduce_memory(self, kind: Kind = Kind.MEMORY) -> None:
        """Ask the other worker whether it can read the memory of this one. Raises: OSError as `send`."""
        introduction = self._memory.introduction()
        if introduction is not None:
            place, proof = introduction
            self.send(Message(kind, numbers=place, body=proof), time.monotonic() + _FAREWELL)

    @property
    def socket(self) -> socket.socket:
        """The socket, for a child of the process to close."""
        return self._socket

    def send(self, message: Message, deadline: float) -> None:
        """Send a message. Raises: OSError if the connection ends, or accepts no bytes until the deadline.

        After half a message nothing else can be sent, so a late one closes the connection.
        """
        ticket, addresses = 0, b""
        if self._memory.is_read and message.tensor_bytes() >= LEAST:
            ticket, addresses = self._memory.keep(message.dense)
        try:
            self._send_parts([memoryview(part) for part in message.parts(addresses)], deadline)
        except BaseException:
            self._memory.release(ticket)
            raise
        if ticket and message.is_copied:
            with self._pool.waiting():  # another thread reads on, also what is waited for
                if not self._memory.wait(ticket, deadline - time.monotonic()):
                    raise TimeoutError("it reads no tensors")

    def _send_parts(self, parts: list[memoryview], deadline: float) -> None:
        patience = min(max(deadline - time.monotonic(), 0), threading.TIMEOUT_MAX)
        if not self._sending.acquire(timeout=patience):
            raise TimeoutError("it accepts no messages")
        try:
            self._send_all(parts, deadline)
        finally:
            self._sending.release()
        self._send_receipts()

    def _send_all(self, parts: list[memoryview], deadline: float) -> None:
        """Send memory, several parts with one call of the system."""
        parts = [part for part in parts if part.nbytes]
        while parts:
            try:
                sent = self._socket.sendmsg(parts[:_PARTS])
            except BlockingIOError:
                if self._closed or time.monotonic() >= deadline:
                    self._shut()
                    raise TimeoutError("it accepts no bytes") from None
                continue
            while parts and sent >= parts[0].nbytes:
                sent -= parts.pop(0).nbytes
            if sent:
                parts[0] = parts[0][sent:]

    def _send_receipts(self) -> None:
        """Say which tensors were read, unless this would have to wait: the thread that sends does it then."""
        while self._receipts and self._sending.acquire(blocking=False):
            try:
                writable = select.poll()
                writable.register(self._socket, select.POLLOUT)
                if not writable.poll(0):
                    self._retry_receipts()
                    return
                numbers = [self._receipts.popleft() for _ in range(min(len(self._receipts), _RECEIPTS))]
                receipt = Message(Kind.RELEASED, numbers=tuple(numbers))
                parts = [memoryview(part) for part in receipt.parts()]
                self._send_all(parts, time.monotonic() + _FAREWELL)
            except (OSError, ValueError):  # the connection has ended, which its reader sees
                return
            finally:
                self._sending.release()

    def _retry_receipts(self) -> None:
        if not self._is_retrying:
            self._is_retrying = True
            timer = threading.Timer(_RETRY, self._retried)
            timer.daemon = True
            timer.start()

    def _retried(self) -> None:
        self._is_retrying = False
        self._send_receipts()

    def _read(self, view: memoryview) -> None:
        at = 0
        while at < view.nbytes:
            count = self._stream.readinto(view[at:])
            if not count:
                raise EOFError
            at += count

    def _next(self) -> Message:
        """Return the next message for the worker. Raises: EOFError, OSError, Malformed."""
        while True:
            message = receive(self._read, self._memory.fetch)
            if message.ticket:
                self._receipts.append(message.ticket)
            if message.kind not in _OWN:
                return message
            self._take(message)

    def _take(self, message: Message) -> None:
        """Take a message about the memory of both processes."""
        if message.kind is Kind.RELEASED:
            for ticket in message.numbers:
                self._memory.release(ticket)
        elif message.kind is Kind.MEMORY_IS_READ:
            self._memory.is_read = True
        elif len(message.numbers) == 2:
            process, address = message.numbers
            with contextlib.suppress(OSError):  # the end of the connection is seen where it is read
                if self._memory.verify(process, address, bytes(message.body)):
                    self.send(Message(Kind.MEMORY_IS_READ), time.monotonic() + _FAREWELL)
                if message.kind is Kind.MEMORY:
                    self.introduce_memory(Kind.MEMORY_TOO)

    def read_on(self) -> bool:
        """Read messages until another thread reads them, or the end, which returns False."""
        self._reader, reason = threading.get_ident(), "its connection ended"
        try:
            while True:
                message = self._next()
                task = self._on_message(self, message)
                if message.ticket and (task is None or message.flags & IS_AWAITED):
                    self._send_receipts()  # otherwise, the answer's sender does it
                if task is not None and not self._pool.lead(self, task):
                    return True
        except EOFError:
            pass
        except OSError as error:
            reason = f"its connection failed: {error.strerror or error}"
        except Malformed as error:
            reason = f"it sent no message: {error}"
            _log.warning("the connection of worker %s is closed: %s", self.rank, reason)
        except Exception as error:  # memory, for instance
            reason = f"its message could not be received: {error!r}"
            _log.exception("the connection of worker %s is closed", self.rank)
        self._end(reason)
        return False

    def _end(self, reason: str) -> None:
        self._shut()
        self._stream.close()
        self._socket.close()
        self._memory.release_all()
        self._on_end(self, reason)
        self._over.set()

    def _shut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, farewell: Message | None = None) -> None:
        """End the connection, after a last message if there is one."""
        is_reader = threading.get_ident() == self._reader and not self._over.is_set()
        if farewell is not None:
            until = time.monotonic() + _FAREWELL
            for ticket in [] if is_reader else self._memory.waiting():
                self._memory.wait(ticket, max(until - time.monotonic(), 0))
            with contextlib.suppress(OSError):
                self.send(farewell, time.monotonic() + _FAREWELL)
        self._closed = True
        self._shut()
        if not is_reader:
            self._over.wait(5)
