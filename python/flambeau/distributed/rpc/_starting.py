"""Starting a worker: it finds the others by a store, and they learn each other's addresses."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import socket
import struct
from datetime import timedelta
from typing import Any

from flambeau.distributed._gradient_contexts import contexts
from flambeau.distributed._store import PrefixStore, Store
from flambeau.distributed.rendezvous import rendezvous
from flambeau.distributed.rpc import _current, _handshake
from flambeau.distributed.rpc._agent import Agent
from flambeau.distributed.rpc._meetings import Meetings
from flambeau.distributed.rpc._rref import RRef
from flambeau.distributed.rpc._worker_info import WorkerInfo
from flambeau.distributed.rpc.options import TensorPipeRpcBackendOptions

_TIMEOUT = timedelta(minutes=5)  # for all workers to come
_MOST_RANKS = 1 << 15  # numbers of contexts have 16 bits for the rank, one of which is the sign
_NAME = re.compile(r"[A-Za-z0-9_:\-]{1,128}")
_INTERFACE = "TP_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915
_counter = itertools.count()


def _address_of(interface: str) -> str:
    """Return the IPv4 address of a network interface."""
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            return socket.inet_ntoa(fcntl.ioctl(probe, _SIOCGIFADDR, request)[20:24])
        except OSError as error:
            raise RuntimeError(
                f"init_rpc: expected a network interface in {_INTERFACE}, got {interface!r}: {error.strerror}"
            ) from None


def _interface_towards(host: str, port: int) -> str:
    """Return the address of the interface by which this machine reaches a host. It sends nothing."""
    family, _, _, _, address = socket.getaddrinfo(host, port or 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        return probe.getsockname()[0]


def _own_address(store: Store) -> str:
    if interface := os.environ.get(_INTERFACE):
        return _address_of(interface)
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    host, port = getattr(store, "host", "127.0.0.1"), getattr(store, "port", 1)
    return _interface_towards(host, port)


def _meet(agent: Agent, store: Store, rank: int, size: int, host: str) -> None:
    """Exchange the addresses, and connect to rank 0, which waits for all."""
    store.set(f"worker/{rank}", json.dumps([agent.info.name, host, agent.listener.port]))
    peers = [json.loads(store.get(f"worker/{r}")) for r in range(size)]
    names = [name for name, _, _ in peers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RuntimeError(
            f"init_rpc: expected a name of its own for each worker, got {', '.join(twice)} twice"
        )
    agent.know([(name, host, port) for name, host, port in peers])
    if rank > 0:
        try:
            agent.connection(0)
        except OSError as error:
            raise RuntimeError(f"init_rpc: expected a connection to {names[0]}, got {error}") from None
        store.set(f"connected/{rank}", "1")
        store.wait(["all"])
    else:
        store.wait([f"connected/{r}" for r in range(1, size)])
        store.set("all", "1")


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RuntimeError(
            "init_rpc: expected a name of 1 to 128 characters: letters, digits, '_', '-' and ':', got "
            f"{name!r}"
        )


def start(name: str, rank: int, world_size: int | None, options: TensorPipeRpcBackendOptions) -> None:
    """Make this process a worker; returns when all workers are there."""
    _check_name(name)
    size = -1 if world_size is None else world_size
    store, rank, size = next(rendezvous(options.init_method, rank, size, timeout=_TIMEOUT))
    if not 0 <= rank < size or size > _MOST_RANKS:
        raise RuntimeError(
            f"init_rpc: expected a rank from 0 to {size - 1}, and at most {_MOST_RANKS} workers, "
            f"got rank {rank} "
            f"of {size}"
        )
    store = PrefixStore(f"rpc/{next(_counter)}", store)
    store.set_timeout(_TIMEOUT)
    secret, host = _handshake.shared_secret(store, rank), _own_address(store)
    info = WorkerInfo(name, rank)
    agent = Agent(info, host, secret, options.num_worker_threads, RRef, options.rpc_timeout)
    agent.meetings = Meetings(agent)
    contexts.rank = rank
    _current.put(agent)
    try:
        _meet(agent, store, rank, size, host)
    except BaseException:
        stop(agent)
        raise


def stop(agent: Agent) -> None:
    """End a worker at once."""
    _current.put(None)
    agent.close()
    contexts.clear()
