"""The port of a worker. One thread accepts connections; none of them can delay another one.

A connection that does not show in time that it knows the secret is closed, and nothing else changes.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flambeau.distributed.rpc import _handshake

PATIENCE = 10.0  # seconds that a connection may take to show the secret
STRANGERS = 256  # connections that have not; beyond it the oldest is closed


@dataclass(eq=False, slots=True)
class _Stranger:
    socket: socket.socket
    nonce: bytes
    deadline: float
    data: bytearray = field(default_factory=bytearray)


class Listener(threading.Thread):
    """Accepts connections on a free port of one interface.

    Args:
        host: an address of the interface.
        secret: of the job.
        rank: of this worker.
        accept: called with the rank and the socket of each worker that knows the secret.
    """

    def __init__(
        self, host: str, secret: bytes, rank: int, accept: Callable[[int, socket.socket], None]
    ) -> None:
        super().__init__(name="flambeau rpc listener", daemon=True)
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        self._listener = socket.socket(family, kind)
        self._listener.bind(address)
        self._listener.listen(1024)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._secret, self._rank, self._accept_worker = secret, rank, accept
        self._strangers: dict[socket.socket, _Stranger] = {}
        self._selector = selectors.DefaultSelector()
        self._wakes, self._waker = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wakes, selectors.EVENT_READ)

    def stop(self) -> None:
        """Close the port, and the connections that did not show the secret."""
        with contextlib.suppress(OSError):
            self._waker.send(b"!")
        if self.is_alive() and threading.current_thread() is not self:
            self.join(5)

    def sockets(self) -> list[socket.socket]:
        """Return all sockets, for a child of the process to close."""
        return [self._listener, self._wakes, self._waker, *self._strangers]

    def run(self) -> None:
        """Serve until `stop`."""
        try:
            while self._serve_once():
                pass
        finally:
            self._selector.close()
            for each in self.sockets():
                each.close()

    def _serve_once(self) -> bool:
        first = min((s.deadline for s in self._strangers.values()), default=None)
        patience = None if first is None else max(first - time.monotonic(), 0)
        for key, _ in self._selector.select(patience):
            if key.fileobj is self._wakes:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif key.data.socket in self._strangers:
                self._hear(key.data)
        now = time.monotonic()
        for stranger in [s for s in self._strangers.values() if s.deadline <= now]:
            self._drop(stranger)
        return True

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:  # the other side has gone, or no descriptor is free
            time.sleep(0.001)
            return
        accepted.setblocking(False)
        stranger = _Stranger(accepted, _handshake.new_nonce(), time.monotonic() + PATIENCE)
        if len(self._strangers) >= STRANGERS:
            self._drop(next(iter(self._strangers.values())))
        self._strangers[accepted] = stranger
        self._selector.register(accepted, selectors.EVENT_READ, stranger)
        try:
            accepted.send(_handshake.GREETING + stranger.nonce)
        except OSError:
            self._drop(stranger)

    def _release(self, stranger: _Stranger) -> None:
        self._selector.unregister(stranger.socket)
        del self._strangers[stranger.socket]

    def _drop(self, stranger: _Stranger) -> None:
        self._release(stranger)
        stranger.socket.close()

    def _hear(self, stranger: _Stranger) -> None:
        try:
            part = stranger.socket.recv(_handshake.CLAIM - len(stranger.data))
        except BlockingIOError:
            return
        except OSError:
            part = b""
        stranger.data += part
        if not part:
            self._drop(stranger)
        elif len(stranger.data) == _handshake.CLAIM:
            found = _handshake.check(self._secret, stranger.nonce, bytes(stranger.data), self._rank)
            if found is None:
                self._drop(stranger)
                return
            caller, answer = found
            self._release(stranger)
            stranger.socket.setblocking(True)
            try:
                stranger.socket.sendall(answer)
            except OSError:
                stranger.socket.close()
                return
            self._accept_worker(caller, stranger.socket)
