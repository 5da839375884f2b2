"""How processes find each other: an init method gives a store, a rank and a number of processes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from flambeau._loading.lazy import attributes
from flambeau.distributed._file_store import FileStore
from flambeau.distributed._store import PrefixStore, Store
from flambeau.distributed._tcp_store import TCPStore
from flambeau.distributed.constants import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]

Found = tuple[Store, int, int]
Handler = Callable[..., Iterator[Found]]
_handlers: dict[str, Handler] = {}

# What env:// reads -> what Slurm calls it.
_SLURM = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}
_SLURM_PORTS = range(20000, 32000)  # below the ephemeral ports of Linux


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Any]]) -> None:
    """Register a handler of init methods.

    Args:
        scheme: what stands before "://" of the URL.
        handler: called with the URL; yields tuples of store, rank and number of processes.
    Returns: None.
    Raises: RuntimeError if the scheme has a handler.

    Example:
        >>> def handler(url, **kwargs):
        ...     yield flambeau.distributed.HashStore(), 0, 1
        >>> flambeau.distributed.register_rendezvous_handler("alone", handler)
        >>> next(flambeau.distributed.rendezvous("alone://"))[1:]
        (0, 1)
    """
    if scheme in _handlers:
        raise RuntimeError(
            f"register_rendezvous_handler: expected a new scheme, got {scheme}://, which is registered"
        )
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Any]:
    """Find the other processes by an init method.

    Args:
        url: "env://", "tcp://host:port", "file:///path", or a URL with a registered scheme; rank and
            world_size may stand in its query.
        rank: this process's rank; -1: the URL or the environment has it.
        world_size: the number of processes; -1: the URL or the environment has it.
        **kwargs: further arguments of the handler, such as ``timeout``.
    Returns: an iterator of tuples of store, rank and number of processes.
    Raises: RuntimeError for a scheme without a handler; ValueError if rank or world size are missing.

    Example:
        >>> url = "tcp://127.0.0.1:0?rank=0&world_size=1"
        >>> store, rank, world_size = next(flambeau.distributed.rendezvous(url))
        >>> rank, world_size
        (0, 1)
    """
    if not isinstance(url, str):
        raise RuntimeError(f"rendezvous: `url` must be a string: expected a str, got {type(url)}: {url}")
    scheme = urlsplit(url).scheme
    if scheme not in _handlers:
        raise RuntimeError(
            f"rendezvous: expected a scheme with a handler, got No rendezvous handler for {scheme}://"
        )
    query = dict(parse_qsl(urlsplit(url).query))
    for name, value in (("rank", rank), ("world_size", world_size)):
        if value != -1:
            query[name] = str(value)
    return (
        _handlers[scheme](url, query=query, **kwargs)
        if scheme in _OWN
        else _handlers[scheme](_with_query(url, query), **kwargs)
    )


def _with_query(url: str, query: dict[str, str]) -> str:
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return urlsplit(url)._replace(query=text).geturl()


def _number(scheme: str, query: dict[str, str], name: str) -> int:
    if name not in query:
        raise ValueError(f"rendezvous: expected {name} for {scheme}://, got {name} parameter missing")
    return int(query[name])


def _tcp(
    url: str, query: dict[str, str], timeout: timedelta = default_pg_timeout, **kwargs: Any
) -> Iterator[Found]:
    parts = urlsplit(url)
    if not parts.hostname or parts.port is None:
        raise ValueError(f"rendezvous: expected a host and port number, got port number missing in {url}")
    rank, size = _number("tcp", query, "rank"), _number("tcp", query, "world_size")
    yield _tcp_store(parts.hostname, parts.port, rank, size, timeout), rank, size
    raise RuntimeError("rendezvous: expected one process group of tcp://, got Unable to perform rerendezvous")


def _tcp_store(host: str, port: int, rank: int, size: int, timeout: timedelta) -> Store:
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # the launcher serves it
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return PrefixStore(f"/worker/attempt_{attempt}", TCPStore(host, port, None, False, timeout))
    return TCPStore(host, port, size, rank == 0, timeout, wait_for_workers=False, multi_tenant=True)


def _file(url: str, query: dict[str, str], **kwargs: Any) -> Iterator[Found]:
    parts = urlsplit(url)
    path = unquote(parts.netloc + parts.path)
    if not path:
        raise ValueError("rendezvous: expected a path after file://, got path missing")
    rank, size = _number("file", query, "rank"), _number("file", query, "world_size")
    yield FileStore(path, size), rank, size
    raise RuntimeError(
        "rendezvous: expected one process group of file://, got Unable to perform rerendezvous"
    )


def _environment(name: str) -> str:
    value = os.environ.get(name)
    if value is None and name in _SLURM:
        value = os.environ.get(_SLURM[name])
    if value is None and "SLURM_PROCID" in os.environ:
        value = _of_slurm(name)
    if value is None:
        raise ValueError(
            f"rendezvous: expected {name} in the environment for env://: environment variable {name} "
            "expected, but not set: got none"
        )
    return value


def _of_slurm(name: str) -> str | None:
    """Return the first host of a job of Slurm, or a port that follows from the number of the job."""
    if name == "MASTER_ADDR":
        nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST", "")
        return first_host(nodes) or None
    if name == "MASTER_PORT":
        job = os.environ.get("SLURM_JOB_ID", "0")
        number = int(job) if job.isdigit() else 0
        return str(_SLURM_PORTS[number % len(_SLURM_PORTS)])
    return None


def first_host(nodes: str) -> str:
    """Return the first host of a list of Slurm.

    >>> first_host("node[03-07,9],other"), first_host("a,b"), first_host("rack1-[2,4]-ib")
    ('node03', 'a', 'rack1-2-ib')
    """
    first = re.match(r"(?:[^,\[\]]|\[[^\]]*\])*", nodes)
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", first[0]) if first else ""


def _env(
    url: str, query: dict[str, str], timeout: timedelta = default_pg_timeout, **kwargs: Any
) -> Iterator[Found]:
    rank = int(query.get("rank") or _environment("RANK"))
    size = int(query.get("world_size") or _environment("WORLD_SIZE"))
    host, port = _environment("MASTER_ADDR"), int(_environment("MASTER_PORT"))
    yield _tcp_store(host, port, rank, size, timeout), rank, size
    raise RuntimeError("rendezvous: expected one process group of env://, got Unable to perform rerendezvous")


_OWN = {"tcp": _tcp, "file": _file, "env": _env}
_handlers.update(_OWN)

for _function in (register_rendezvous_handler, rendezvous):
    _function.__module__ = "flambeau.distributed.rendezvous"

__getattr__, __dir__ = attributes(__name__)
