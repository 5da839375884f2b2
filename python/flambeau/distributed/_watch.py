"""Watches the other processes of the job: a process whose connection ends without a goodbye has died.

Each process keeps a connection to rank 0, which tells all others what happens to one of them. A process that
leaves says so first; a connection that ends otherwise is a death. The first line of a connection holds a
secret that only the job's store tells, so that strangers are not counted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import sys
import threading
from typing import TYPE_CHECKING

from flambeau.distributed._store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

DIED_GRACE = 0.3  # seconds in which operations may still end with what a dead process had sent
LEFT_GRACE = 10.0  # the same for a process that has left in order
_LINE_LIMIT = 256  # bytes


class _Line:
    """One connection, read by lines."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self.rank, self._data, self.said_goodbye = connection, -1, bytearray(), False

    def read(self) -> list[str] | None:
        """Return the lines that have come; None at the end of the connection."""
        try:
            data = self.socket.recv(4096)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self._data += data
        *lines, rest = bytes(self._data).split(b"\n")
        self._data = bytearray(rest)
        if not data or len(rest) > _LINE_LIMIT:
            return None
        return [line.decode("ascii", "replace") for line in lines]

    def write(self, text: str) -> None:
        """Send a line. Errors are ignored: `read` reports a connection that has ended."""
        with contextlib.suppress(OSError):
            self.socket.send(f"{text}\n".encode())


class Watch:
    """The connections of this process to the others.

    Args:
        store: where rank 0 says how to reach it.
        rank: this process's rank.
        size: the number of processes.
        host: the address at which the others reach rank 0.
        departed: called with a rank, seconds of grace and a reason.
    """

    def __init__(
        self, store: Store, rank: int, size: int, host: str, departed: Callable[[int, float, str], None]
    ) -> None:
        self._rank, self._size, self._departed = rank, size, departed
        self._selector = selectors.DefaultSelector()
        self._lines: dict[int, _Line] = {}
        self._secret = ""
        self.gone: dict[int, str] = {}  # rank -> what happened to it
        if rank == 0:
            self._listen(store, host)
        else:
            self._connect(store)
        self._thread = threading.Thread(target=self._run, name="flambeau watch", daemon=True)
        self._thread.start()
        os.register_at_fork(after_in_child=self._close)

    def _listen(self, store: Store, host: str) -> None:
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.bind(address)
        listener.listen(self._size)
        listener.setblocking(False)
        self._listener: socket.socket | None = listener
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._secret = secrets.token_hex(16)
        store.set("watch", f"{listener.getsockname()[1]} {self._secret} {host}")

    def _connect(self, store: Store) -> None:
        self._listener = None
        port, self._secret, host = store.get("watch").decode().split(" ", 2)
        line = _Line(socket.create_connection((host, int(port)), store.timeout.total_seconds()))
        line.rank = 0
        line.write(f"hello {self._secret} {self._rank}")
        self._add(line)
        self._lines[0] = line

    def _add(self, line: _Line) -> None:
        line.socket.setblocking(False)
        self._selector.register(line.socket, selectors.EVENT_READ, line)

    def _run(self) -> None:
        while True:
            try:
                ready = self._selector.select()
            except (OSError, RuntimeError, ValueError):  # closed
                return
            for key, _ in ready:
                if key.data is None:
                    self._accept()
                else:
                    self._hear(key.data)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            if self._listener is not None:
                self._add(_Line(self._listener.accept()[0]))

    def _hear(self, line: _Line) -> None:
        lines = line.read()
        for text in lines or ():
            self._understand(line, text.split())
        if lines is None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(line.socket)
            line.socket.close()
            if line.rank >= 0 and not line.said_goodbye:
                self._tell(line.rank, "died")

    def _understand(self, line: _Line, words: list[str]) -> None:
        if line.rank < 0:  # a connection that has not said who it is
            is_member = len(words) == 3 and words[:2] == ["hello", self._secret] and words[2].isdigit()
            if is_member and 0 < int(words[2]) < self._size and int(words[2]) not in self._lines:
                line.rank = int(words[2])
                self._lines[line.rank] = line
        elif words in (["left"], ["failed"]):
            line.said_goodbye = True
            self._tell(line.rank, words[0])
        elif len(words) == 2 and line.rank == 0 and words[0].isdigit():
            self._note(int(words[0]), words[1])

    def _tell(self, rank: int, how: str) -> None:
        """Note what happened to a rank; rank 0 passes it on."""
        self._note(rank, how)
        if self._rank == 0:
            for other, line in list(self._lines.items()):
                if other != rank:
                    line.write(f"{rank} {how}")

    def _note(self, rank: int, how: str) -> None:
        texts = {"died": "has died", "failed": "has ended with an error", "left": "has ended"}
        grace = LEFT_GRACE if how == "left" else DIED_GRACE
        self.gone[rank] = texts.get(how, how)
        self._departed(rank, grace, f"expected an answer of rank {rank}, which {texts.get(how, how)}")

    def leave(self) -> None:
        """Say goodbye, at the end of the process."""
        failed = hasattr(sys, "last_value") or hasattr(sys, "last_exc")
        for line in list(self._lines.values()):
            line.write("failed" if failed else "left")
        self._close()

    def _close(self) -> None:
        for line in list(self._lines.values()):
            line.socket.close()
        if self._listener is not None:
            self._listener.close()
