"""A connection between two workers that know each other: whole messages, and one thread that reads them."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable

from flambeau.distributed.rpc._frames import Message, receive
from flambeau.distributed.rpc._tensor_table import Malformed

_log = logging.getLogger("flambeau.distributed.rpc")
_TICK = 0.2  # seconds after which a send that makes no progress looks at its deadline
_FAREWELL = 1.0  # seconds that a last message may take
_KEEP_ALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


class Connection:
    """Messages to and from one worker.

    Args:
        link: the socket.
        rank: of the other worker.
        on_message: called with each message, in the thread that reads.
        on_end: called once with the reason, after the last message.
    """

    def __init__(
        self,
        link: socket.socket,
        rank: int,
        on_message: Callable[[Connection, Message], None],
        on_end: Callable[[Connection, str], None],
    ) -> None:
        self.rank = rank
        self.said_goodbye = False
        self._socket = link
        self._on_message, self._on_end = on_message, on_end
        self._sending = threading.Lock()
        self._closed = False
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, int(_TICK * 1e6)))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE:
            if hasattr(socket, name):
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._thread = threading.Thread(target=self._run, name=f"flambeau rpc from {rank}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    @property
    def socket(self) -> socket.socket:
        """The socket, for a child of the process to close."""
        return self._socket

    def send(self, message: Message, deadline: float) -> None:
        """Send a message. Raises: OSError if the connection ends, or accepts no bytes until the deadline.

        After half a message nothing else can be sent, so a late one closes the connection.
        """
        parts = message.parts()
        patience = min(max(deadline - time.monotonic(), 0), threading.TIMEOUT_MAX)
        if not self._sending.acquire(timeout=patience):
            raise TimeoutError("it accepts no messages")
        try:
            for part in parts:
                self._send_all(memoryview(part), deadline)
        finally:
            self._sending.release()

    def _send_all(self, view: memoryview, deadline: float) -> None:
        at = 0
        while at < view.nbytes:
            try:
                at += self._socket.send(view[at:])
            except BlockingIOError:
                if self._closed or time.monotonic() >= deadline:
                    self._shut()
                    raise TimeoutError("it accepts no bytes") from None

    def _run(self) -> None:
        reason = "its connection ended"
        with self._socket.makefile("rb", 1 << 16) as stream:

            def read(view: memoryview) -> None:
                at = 0
                while at < view.nbytes:
                    count = stream.readinto(view[at:])  # type: ignore[attr-defined]
                    if not count:
                        raise EOFError
                    at += count

            try:
                while True:
                    self._on_message(self, receive(read))
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
        self._shut()
        self._socket.close()
        self._on_end(self, reason)

    def _shut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, farewell: Message | None = None) -> None:
        """End the connection, after a last message if there is one."""
        if farewell is not None:
            with contextlib.suppress(OSError):
                self.send(farewell, time.monotonic() + _FAREWELL)
        self._closed = True
        self._shut()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)
