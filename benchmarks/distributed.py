"""Benchmark cases of distributed training: two processes of a job, with one thread each.

The job stays from case to case; cases of starting and of memory take a fresh one.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from families import Case

HERE = Path(__file__).parent
_jobs = {}


class Job:
    """Processes that answer questions together."""

    def __init__(self, side, size=2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(HERE / "ranks.py"), side],
                env=os.environ
                | places
                | {"RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]
        for answer in self._answers():
            if answer != "ready":
                raise RuntimeError(f"a process of {side} did not start")

    def _answers(self):
        for process in self.processes:
            line = process.stdout.readline().strip()
            while line.startswith("["):  # a note of a library
                line = process.stdout.readline().strip()
            yield line

    def ask(self, question):
        """Return the largest answer of the processes."""
        for process in self.processes:
            print(question, file=process.stdin, flush=True)
        return max(map(float, self._answers()))

    def end(self):
        """End the processes in order."""
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(30)


def ask(side, question):
    """Ask the job of this process."""
    if side not in _jobs:
        _jobs[side] = Job(side)
    return _jobs[side].ask(question)


def ask_fresh(side, question):
    """Ask a job of its own."""
    job = Job(side)
    try:
        return job.ask(question)
    finally:
        job.end()


def launch(side):
    """Return the seconds from the launcher's start to its end, with a program that does nothing."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text("")
        start = time.perf_counter()
        words = ["--standalone", "--nproc-per-node", "2", str(program)]
        subprocess.run(
            [sys.executable, "-m", f"{side}.distributed.run", *words], check=True, stderr=subprocess.DEVNULL
        )
        return time.perf_counter() - start


def _case(name, statement, unit="once"):
    return Case("distributed", name, "from distributed import ask, ask_fresh, launch", statement, 1, unit)


def _asked(name, question):
    return _case(name, f"ask(torch.__name__, {question!r})")


DISTRIBUTED = (
    *(
        _asked(f"all_reduce, {count:,}", f"all_reduce {count}")
        for count in (1, 1 << 10, 1 << 16, 1 << 20, 1 << 23)
    ),
    _asked("all_gather, 1M from each", f"all_gather {1 << 20}"),
    _asked("reduce_scatter, 1M for each", f"reduce_scatter {1 << 20}"),
    _asked("all_to_all_single, 2M", f"all_to_all {1 << 21}"),
    _asked("barrier", "barrier"),
    _asked("step of the digits network, DDP", "digits"),
    _asked("step of a 6-layer GPT, DDP", "gpt"),
    _case("init_process_group", "ask_fresh(torch.__name__, 'init')"),
    _case("launcher, two empty programs", "launch(torch.__name__)"),
    _case("peak of fully_shard, 12 x 4 MiB", "ask_fresh(torch.__name__, 'fsdp_memory 12')", "bytes"),
)
