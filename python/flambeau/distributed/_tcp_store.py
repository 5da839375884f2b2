"""A store on a TCP port, which one process serves."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from datetime import timedelta
from typing import Any

from flambeau.distributed._errors import DistNetworkError, DistStoreError
from flambeau.distributed._store import DEFAULT_TIMEOUT, Store
from flambeau.distributed._tcp_server import FRAME_LIMIT, GREETING, Server, pack, unpack

__all__ = ["TCPStore"]

_LENGTH = struct.Struct("<I")
_JOINED = "init/"  # the number of processes that have opened the store
_RETRY_AFTER = 0.02  # seconds between attempts to connect
_GRACE = 10.0  # seconds that the server may take to answer beyond the time that it was given
_shared_servers: dict[tuple[int, str, int], Server] = {}  # of this process, for `multi_tenant`


def _listener(host: str, port: int, descriptor: int | None) -> socket.socket:
    if descriptor is not None:
        return socket.socket(fileno=descriptor)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind)
    except OSError as error:
        raise DistNetworkError(f"TCPStore: expected the name of a host, got {host!r}: {error}") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(1024)
    except OSError as error:
        found.close()
        name = "EADDRINUSE" if error.errno == 98 else os.strerror(error.errno or 0)
        raise DistNetworkError(
            f"TCPStore: the server socket has failed to listen on {host}:{port}: expected a free port of an "
            f"interface of this machine, got {name} ({error.strerror})"
        ) from None
    return found


class _Channels(threading.local):
    """The connection of each thread, so that a thread that waits does not block the others."""

    socket: socket.socket | None = None
    process = 0


class TCPStore(Store):
    """Keys and values on a TCP port. One process serves it; the others, and the process itself, connect to
    it.

    The server listens only on the interface that `host_name` names. Every process that can connect can read
    and change the keys, so use an interface of a trusted network.

    Args:
        host_name: the name or address of the serving process's host.
        port: the port; 0 takes a free one, which `port` then tells.
        world_size: the number of processes that will open the store; None: any number.
        is_master: whether this process is the serving one.
        timeout: how long `get`, `wait` and the connection may take.
        wait_for_workers: whether the serving process waits until `world_size` processes have opened the
            store.
        multi_tenant: whether a second store of this process on the same port shares its server.
        master_listen_fd: the descriptor of a listening socket for the server to use.
        use_libuv: no effect; there is one server.

    Raises: DistNetworkError if the port cannot be used, or nothing answers there in time; DistStoreError if
        workers are missing; ValueError for a port that does not exist.

    Example:
        >>> store = flambeau.distributed.TCPStore("127.0.0.1", 0, is_master=True)
        >>> store.set("key", "value")
        >>> store.get("key")
        b'value'
    """

    def __init__(
        self,
        host_name: str,
        port: int = 29500,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if not 0 <= port < 1 << 16:
            raise ValueError(f"TCPStore: expected a port from 0 to 65535, got {port}")
        self.set_timeout(timeout)
        self._host, self._port = host_name, port
        self._server: Server | None = None
        self._channels = _Channels()
        if is_master:
            self._serve(multi_tenant, master_listen_fd)
        self._connection()
        if world_size is not None and world_size > 0:
            self._join(world_size, is_master and wait_for_workers)

    def _serve(self, multi_tenant: bool, descriptor: int | None) -> None:
        key = (os.getpid(), self._host, self._port)
        server = _shared_servers.get(key) if multi_tenant else None
        if server is None:
            server = Server(_listener(self._host, self._port, descriptor))
            server.start()
            if multi_tenant:
                _shared_servers[(key[0], self._host, server.port)] = server
        self._server = server
        self._port = server.port

    def _join(self, world_size: int, waits: bool) -> None:
        self.add(_JOINED, 1)
        deadline = time.monotonic() + self._timeout.total_seconds()
        while waits and (joined := self.add(_JOINED, 0)) < world_size:
            if time.monotonic() > deadline:
                raise DistStoreError(
                    f"TCPStore: timed out after {self._timeout.total_seconds():g} seconds: expected "
                    f"{world_size} clients, got {joined}"
                )
            time.sleep(0.005)

    @property
    def host(self) -> str:
        """The name or address of the serving process's host."""
        return self._host

    @property
    def port(self) -> int:
        """The port."""
        return self._port

    @property
    def libuvBackend(self) -> bool:
        """Whether the server uses libuv: no."""
        return False

    def _connection(self) -> socket.socket:
        channels = self._channels
        if channels.socket is not None and channels.process == os.getpid():
            return channels.socket
        deadline = time.monotonic() + self._timeout.total_seconds()
        while True:
            try:
                left = max(deadline - time.monotonic(), 0.01)
                found = socket.create_connection((self._host, self._port), left)
                break
            except OSError as error:
                if time.monotonic() + _RETRY_AFTER >= deadline:
                    late = int(self._timeout.total_seconds() * 1000)
                    raise DistNetworkError(
                        f"TCPStore: the client socket has timed out after {late}ms while trying to connect "
                        f"to ({self._host}, {self._port}): {error}"
                    ) from None
                time.sleep(_RETRY_AFTER)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.sendall(GREETING)
        channels.socket, channels.process = found, os.getpid()
        return found

    def _request(self, seconds: float, *fields: bytes) -> Any:
        connection, frame = self._connection(), pack(*fields)
        if len(frame) > FRAME_LIMIT:
            raise DistStoreError(
                f"Store.{fields[0].decode()}: expected at most {FRAME_LIMIT} bytes, got {len(frame)}"
            )
        try:
            connection.settimeout(min(seconds + _GRACE, threading.TIMEOUT_MAX))
            connection.sendall(frame)
            (length,) = _LENGTH.unpack(_received(connection, _LENGTH.size))
            kind, *values = unpack(_received(connection, length))
        except BaseException as error:  # the answer may still come: the connection cannot be used again
            connection.close()
            self._channels.socket = None
            if not isinstance(error, OSError):
                raise
            raise DistNetworkError(
                f"Store.{fields[0].decode()}: expected an answer from the store on "
                f"{self._host}:{self._port}, "
                f"got {error or 'none in time'}"
            ) from None
        if kind == b"error":
            raise RuntimeError(values[0].decode())
        if kind == b"none":
            return None
        if kind == b"list":
            return [key.decode() for key in values]
        return values[0] if kind == b"bytes" else bool(int(values[0])) if kind == b"bool" else int(values[0])

    def _apply(self, operation: str, *arguments: Any) -> Any:
        fields = (a if isinstance(a, bytes) else str(a).encode() for a in arguments)
        return self._request(self._timeout.total_seconds(), operation.encode(), *fields)

    def _wait(self, keys: list[str], seconds: float) -> bool:
        late = str(max(int(seconds * 1000), 0)).encode()
        return self._request(seconds, b"wait", late, *(key.encode() for key in keys))

    def clone(self) -> TCPStore:
        """Return a store of the same keys, with a timeout of its own."""
        return TCPStore(self._host, self._port, timeout=self._timeout)

    def __del__(self) -> None:
        channels = getattr(self, "_channels", None)
        if channels is not None and channels.socket is not None:
            channels.socket.close()
        server = getattr(self, "_server", None)
        if server is not None and server not in _shared_servers.values() and server.is_alive():
            server.stop()

    def __repr__(self) -> str:
        return f"TCPStore({self._host}:{self._port})"


def _received(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ConnectionResetError("TCPStore: expected an answer, got the end of the connection")
        data += part
    return bytes(data)


TCPStore.__module__ = "flambeau.distributed"
