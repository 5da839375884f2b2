"""A launcher on one machine: it finds the others, starts processes, and restarts all when one fails."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType

from flambeau.distributed._errors import DistNetworkError, DistStoreError
from flambeau.distributed._store import PrefixStore, Store
from flambeau.distributed._tcp_store import TCPStore
from flambeau.distributed._workers import Logs, Std, Worker, Workers
from flambeau.distributed.constants import RPC_SECRET

_FIRST_PORT = 29400  # of rendezvous without a port, as PyTorch's


@dataclass
class Settings:
    """What the command line says.

    Args:
        command: what each process runs.
        processes: the number of processes on this machine.
        nodes: the smallest and the largest number of machines.
        node_rank: this machine's rank, with static rendezvous; -1: the order of arrival.
        endpoint: host and port of the store by which launchers find each other; port 0: any.
    """

    command: Sequence[str]
    processes: int
    nodes: tuple[int, int] = (1, 1)
    node_rank: int = -1
    endpoint: tuple[str, int] = ("127.0.0.1", 0)
    run_id: str = "none"
    max_restarts: int = 0
    monitor_interval: float = 0.1
    role: str = "default"
    log_folder: Path | None = None
    redirects: str = "0"
    tee: str = "0"
    shown: frozenset[int] | None = None
    join_timeout: float = 600.0
    last_call: float = 30.0
    signals: Sequence[str] = field(default=("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"))


class Stopped(BaseException):
    """A signal asked the launcher to end.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"the launcher received {signal.Signals(number).name}")
        self.number = signal.Signals(number)


class Failed(Exception):
    """Processes have failed, and no restart is left.

    Args:
        workers: the processes of this machine that failed, in the order of their ends.
    """

    def __init__(self, workers: Sequence[Worker]) -> None:
        super().__init__(_report(workers))
        self.workers = list(workers)


def _report(workers: Sequence[Worker]) -> str:
    lines = ["run: expected all processes to end well, got failures (the first one first):"]
    for worker in workers:
        code = worker.process.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        lines.append(
            f"  rank {worker.rank} (local rank {worker.local_rank}, pid {worker.process.pid}): {how}"
        )
    if not workers:
        lines.append("  a process on another machine")
    return "\n".join(lines)


class Agent:
    """The launcher of this machine.

    Args:
        settings: what the command line says.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = self._open_store()
        self._logs = self._log_folder()

    def _open_store(self) -> TCPStore:
        host, port = self._settings.endpoint
        timeout = timedelta(seconds=self._settings.join_timeout)
        serves = self._settings.node_rank in (-1, 0)
        if serves:
            try:
                return TCPStore(host, port, is_master=True, timeout=timeout)
            except DistNetworkError:  # another launcher serves it, or another machine
                if self._settings.nodes[1] == 1 or self._settings.node_rank == 0:
                    raise
        return TCPStore(host, port, timeout=timeout)

    def _log_folder(self) -> Path | None:
        if self._settings.log_folder is None and {self._settings.redirects, self._settings.tee} == {"0"}:
            return None
        parent = self._settings.log_folder
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{self._settings.run_id}_", dir=parent))

    def run(self) -> None:
        """Run all attempts. Raises: Failed when the last one fails; Stopped when a signal comes."""
        with _signals(self._settings.signals):
            for attempt in range(self._settings.max_restarts + 1):
                failed = self._attempt(attempt)
                if failed is None:
                    self._leave(attempt)
                    return
                if attempt == self._settings.max_restarts:
                    raise Failed(failed)
                text = (
                    f"run: restarting all processes ({self._settings.max_restarts - attempt} restarts left)"
                )
                print(text, file=sys.stderr, flush=True)

    def _rendezvous(self, store: Store) -> tuple[int, int]:
        """Return this machine's rank and the number of machines."""
        least, most = self._settings.nodes
        if most == 1:
            return 0, 1
        mine = self._settings.node_rank
        joined = store.add("joined", 1)
        if mine < 0:
            mine = joined - 1
        if mine == 0:
            store.set("nodes", str(self._wait_for_nodes(store, least, most)))
        store.wait(["nodes"], timedelta(seconds=self._settings.join_timeout + self._settings.last_call))
        nodes = int(store.get("nodes"))
        if mine >= nodes:
            raise RuntimeError(f"run: expected at most {nodes} machines, got one more after the rendezvous")
        return mine, nodes

    def _wait_for_nodes(self, store: Store, least: int, most: int) -> int:
        began, enough = time.monotonic(), 0.0
        while (joined := store.add("joined", 0)) < most:
            now = time.monotonic()
            if joined < least and now - began > self._settings.join_timeout:
                raise DistStoreError(f"run: expected {least} machines, got {joined} in time")
            enough = (enough or now) if joined >= least else 0.0
            if enough and now - enough > self._settings.last_call:
                break
            time.sleep(0.05)
        return min(joined, most)

    def _environments(self, attempt: int, node: int, nodes: int, store: Store) -> list[dict[str, str]]:
        count = self._settings.processes
        store.set(f"processes/{node}", str(count))
        counts = [int(store.get(f"processes/{i}")) for i in range(nodes)]
        first, size = sum(counts[:node]), sum(counts)
        host = self._store.host
        fixed = {
            "LOCAL_WORLD_SIZE": str(count),
            "WORLD_SIZE": str(size),
            "GROUP_RANK": str(node),
            "GROUP_WORLD_SIZE": str(nodes),
            "ROLE_NAME": self._settings.role,
            "ROLE_WORLD_SIZE": str(size),
            "MASTER_ADDR": host,
            "MASTER_PORT": str(self._store.port),
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(self._settings.max_restarts),
            "TORCHELASTIC_RUN_ID": self._settings.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        if count > 1 and "OMP_NUM_THREADS" not in os.environ:
            fixed["OMP_NUM_THREADS"] = "1"
        if nodes == 1 and RPC_SECRET not in os.environ:  # several launchers would make several
            fixed[RPC_SECRET] = secrets.token_hex(32)
        ranks = [
            {"LOCAL_RANK": str(i), "RANK": str(first + i), "ROLE_RANK": str(first + i)} for i in range(count)
        ]
        return [fixed | rank for rank in ranks]

    def _attempt(self, attempt: int) -> list[Worker] | None:
        """Run all processes once; return those that failed, or None."""
        store = PrefixStore(f"run/{self._settings.run_id}/{attempt}", self._store)
        node, nodes = self._rendezvous(store)
        environments = self._environments(attempt, node, nodes, store)
        folder = None if self._logs is None else self._logs / f"attempt_{attempt}"
        count = self._settings.processes
        redirects, tee = Std.parse(self._settings.redirects, count), Std.parse(self._settings.tee, count)
        logs = Logs(folder, redirects, tee, self._settings.shown, self._settings.role)
        workers = Workers(self._settings.command, environments, logs)
        try:
            return self._watch(workers, store, nodes)
        except Stopped as stopped:
            workers.end(stopped.number)
            raise
        finally:
            workers.end(signal.SIGTERM)

    def _watch(self, workers: Workers, store: Store, nodes: int) -> list[Worker] | None:
        while True:
            failed = workers.failed()
            if failed:
                if nodes > 1:
                    store.set("failed", "1")
                return failed
            if workers.all_ended():
                return self._wait_for_others(store, nodes)
            if nodes > 1 and store.check(["failed"]):
                return []
            time.sleep(self._settings.monitor_interval)

    def _wait_for_others(self, store: Store, nodes: int) -> list[Worker] | None:
        """Wait until the processes of all machines have ended; a failure of one restarts all."""
        if nodes == 1:
            return None
        store.add("ended", 1)
        while store.add("ended", 0) < nodes:
            if store.check(["failed"]):
                return []
            time.sleep(self._settings.monitor_interval)
        return None

    def _leave(self, attempt: int) -> None:
        """Let the launcher that serves the store be the last."""
        if self._settings.nodes[1] == 1:
            return
        store = PrefixStore(f"run/{self._settings.run_id}/{attempt}", self._store)
        nodes = int(store.get("nodes"))
        with contextlib.suppress(DistNetworkError):
            store.add("left", 1)
        until = time.monotonic() + 10
        if self._store._server is not None:
            while store.add("left", 0) < nodes and time.monotonic() < until:
                time.sleep(0.02)


@contextlib.contextmanager
def _signals(names: Sequence[str]) -> Iterator[None]:
    """Raise Stopped when one of the signals comes."""

    def stop(number: int, frame: FrameType | None) -> None:
        for name in names:
            signal.signal(getattr(signal, name), signal.SIG_IGN)  # the processes are being ended already
        raise Stopped(number)

    before = {name: signal.signal(getattr(signal, name), stop) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def endpoint_of(text: str, default: str, port: int = _FIRST_PORT) -> tuple[str, int]:
    """Return host and port of ``host:port``. Raises: ValueError for another form.

    >>> endpoint_of("node1:29500", "localhost"), endpoint_of("", "localhost", 0)
    (('node1', 29500), ('localhost', 0))
    """
    host, _, number = text.strip().rpartition(":") if ":" in text else (text.strip(), "", "")
    if number and not number.isdigit():
        raise ValueError(f"run: expected host:port, got {text!r}")
    return host or default, int(number) if number else port


def new_run_id() -> str:
    """Return a name for a run."""
    return secrets.token_hex(8)


def local_host() -> str:
    """Return the name of this machine."""
    return socket.gethostname()
