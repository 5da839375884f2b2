"""The process manager of MPI, for processes that no MPI launcher started: PMI-1 over a store.

MPI's library asks its process manager for its rank, and exchanges addresses with the others through it.
The protocol is lines of ``key=value`` on the socket whose descriptor PMI_FD names. `serve` answers them in a
thread, and puts what others must see into the store. MPI is initialised without the GIL, so that this thread
can run.

Source: the PMI-1 wire protocol, as in MPICH's documentation of PMI.
"""

from __future__ import annotations

import os
import socket
import threading
from datetime import timedelta

from flambeau.distributed._errors import DistError
from flambeau.distributed._store import Store

_VERSION = "pmi_version=1 pmi_subversion=1"
_MAXIMA = "kvsname_max=256 keylen_max=64 vallen_max=1024"


def _parsed(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


class _Manager:
    """Answers the requests of this process.

    Args:
        store: holds the values of all processes.
        size: the number of processes.
        job: a name that no other job of the machine has.
        mapping: which processes are on which host, as PMI_process_mapping.
    """

    def __init__(self, store: Store, size: int, job: str, mapping: str) -> None:
        self._store, self._size, self._job, self._mapping = store, size, job, mapping
        self._barriers = 0

    def answer(self, line: str) -> str | None:
        """Return the answer to one request; None if there is none."""
        fields = _parsed(line)
        command = fields.get("cmd", "")
        if command == "init":
            return f"cmd=response_to_init {_VERSION} rc=0"
        if command == "get_maxes":
            return f"cmd=maxes {_MAXIMA}"
        if command == "get_appnum":
            return "cmd=appnum appnum=0"
        if command == "get_my_kvsname":
            return f"cmd=my_kvsname kvsname={self._job}"
        if command == "get_universe_size":
            return f"cmd=universe_size size={self._size}"
        if command == "put":
            self._store.set(f"kvs/{fields['key']}", line.partition(" value=")[2])
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            return self._get(fields["key"])
        if command == "barrier_in":
            self._barrier()
            return "cmd=barrier_out rc=0"
        if command == "finalize":
            return "cmd=finalize_ack rc=0"
        return None

    def _get(self, key: str) -> str:
        if key == "PMI_process_mapping":
            return f"cmd=get_result rc=0 msg=success value={self._mapping}"
        if not self._store.check([f"kvs/{key}"]):
            return "cmd=get_result rc=-1 msg=unknown_key value=unknown"
        return f"cmd=get_result rc=0 msg=success value={self._store.get(f'kvs/{key}').decode()}"

    def _barrier(self) -> None:
        name = f"barrier/{self._barriers}"
        self._barriers += 1
        if self._store.add(name, 1) == self._size:
            self._store.set(f"{name}/open", "1")
        self._store.wait([f"{name}/open"], timedelta(days=1))


def _serve(manager: _Manager, requests: socket.socket) -> None:
    with requests, requests.makefile("r", encoding="ascii", newline="\n") as lines:
        for line in lines:
            try:
                answer = manager.answer(line.rstrip("\n"))
            except (DistError, OSError):
                return  # the store has ended; MPI notices that its socket is closed
            if answer is not None:
                requests.sendall(f"{answer}\n".encode())


def serve(store: Store, rank: int, size: int, job: str, mapping: str) -> None:
    """Let MPI's library find its process manager, whose requests a thread answers.

    Args:
        store: what all processes of the job share.
        rank: this process's rank.
        size: the number of processes.
        job: a name that no other job of the machine has.
        mapping: which processes are on which host, as PMI_process_mapping.
    """
    ours, theirs = socket.socketpair()
    theirs.set_inheritable(False)
    descriptor = theirs.detach()
    os.environ.update(PMI_FD=str(descriptor), PMI_RANK=str(rank), PMI_SIZE=str(size))
    manager = _Manager(store, size, job, mapping)
    threading.Thread(
        target=_serve, args=(manager, ours), name="flambeau process manager", daemon=True
    ).start()


def mapping_of(hosts: list[str]) -> str:
    """Return PMI_process_mapping for the hosts of all ranks: blocks of (node, nodes, processes per node).

    >>> mapping_of(["a", "a", "b"])
    '(vector,(0,1,2),(1,1,1))'
    """
    numbers = {host: i for i, host in enumerate(dict.fromkeys(hosts))}
    blocks: list[list[int]] = []
    for host in hosts:
        if blocks and blocks[-1][0] == numbers[host]:
            blocks[-1][1] += 1
        else:
            blocks.append([numbers[host], 1])
    return "(vector," + ",".join(f"({node},1,{count})" for node, count in blocks) + ")"
