"""Starts the processes of a job, bounds their time, and checks that nothing of them remains."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from forks import PYTORCH

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path("/dev/shm")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "test")])
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "SLURM", "TORCHELASTIC"))}
    return keep | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | more


def segments() -> set[str]:
    """Files of MPI in shared memory."""
    return {p.name for p in SHARED.iterdir() if "mpich" in p.name} if SHARED.is_dir() else set()


def left_behind(before: set[str], seconds: float = 20) -> set[str]:
    """Files in shared memory since `before` that stay; those of other jobs vanish once they have begun."""
    left, end = segments() - before, time.monotonic() + seconds
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left &= segments()
    return left


class Ended:
    """What a process left: its status, its output and the values that it wrote."""

    def __init__(self, process, output: str, values) -> None:
        self.status, self.output, self.values = process.returncode, output, values


class Job:
    """Processes that run `code` with the environment of env://.

    Each writes its values with ``put(value)`` as JSON.
    """

    def __init__(self, size: int, code: str, framework: str = "flambeau", **variables: str) -> None:
        self.before = segments()
        self.folder = tempfile.TemporaryDirectory()
        port = str(free_port())
        self.processes, self.outputs = [], []
        script = Path(self.folder.name, "script.py")
        ending = OF_ORACLE if framework == "torch" else ""
        script.write_text(PREAMBLE.format(folder=self.folder.name, framework=framework) + code + ending)
        for rank in range(size):
            places = {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
            }
            path = Path(self.folder.name, f"output-{rank}")
            output = path.open("w+")
            around = environment(**places, LOCAL_RANK=str(rank), **variables)
            if framework == "torch":
                process = PYTORCH.start(script, path, around)
            else:
                process = subprocess.Popen(
                    [sys.executable, str(script)],
                    env=around,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self.processes.append(process)
            self.outputs.append(output)

    def kill(self, rank: int) -> None:
        self.processes[rank].send_signal(signal.SIGKILL)

    def path(self, name: str) -> Path:
        return Path(self.folder.name, name)

    def wait_for(self, name: str, seconds: float = 30) -> None:
        """Wait until a process has touched a file."""
        until = time.monotonic() + seconds
        while not self.path(name).exists():
            assert time.monotonic() < until, f"no process wrote {name}: {[e.output for e in self.ends(0)]}"
            time.sleep(0.005)

    def ends(self, seconds: float = 45) -> list[Ended]:
        """Wait for all processes, end what remains, and return what they left."""
        until = time.monotonic() + seconds
        late = []
        for rank, process in enumerate(self.processes):
            try:
                process.wait(max(until - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                late.append(rank)
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # children that were left behind
            except ProcessLookupError:
                pass
            process.wait()
        found = []
        for rank, process in enumerate(self.processes):
            self.outputs[rank].seek(0)
            text = self.outputs[rank].read()
            self.outputs[rank].close()
            values = self.path(f"values-{rank}")
            found.append(Ended(process, text, json.loads(values.read_text()) if values.exists() else None))
        assert not late, f"ranks {late} did not end in {seconds} s: {[(e.status, e.output) for e in found]}"
        return found

    def values(self, seconds: float = 45) -> list:
        """Return the values of all processes, each of which must end well and leave no shared memory."""
        ended = self.ends(seconds)
        assert [e.status for e in ended] == [0] * len(ended), "\n".join(e.output for e in ended)
        assert left_behind(self.before) == set()
        return [e.values for e in ended]


PREAMBLE = """
import datetime, json, os, pathlib, sys, time, warnings
import {framework} as fw
dist = fw.distributed
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
folder = pathlib.Path({folder!r})

def put(value):
    folder.joinpath(f"values-{{rank}}").write_text(json.dumps(value))

def touch(name):
    folder.joinpath(name).touch()

def wait_for(name):
    while not folder.joinpath(name).exists():
        time.sleep(0.002)

def raised(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None
"""

# PyTorch's processes abort now and then ("terminate called without an active exception") when the interpreter
# ends while threads of their group run.
OF_ORACLE = """
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""


RESET = "Connection reset by peer"  # PyTorch's gloo, now and then, while a loaded machine connects the ranks


def run(size: int, code: str, framework: str = "flambeau", seconds: float = 45, **variables: str) -> list:
    job = Job(size, code, framework, **variables)
    if framework != "torch":
        return job.values(seconds)
    try:
        values = job.values(seconds)
    except AssertionError as error:
        if RESET not in str(error):
            raise
        values = [RESET]
    return Job(size, code, framework, **variables).values(seconds) if RESET in json.dumps(values) else values


def near(a, b, tolerance: float = 2e-4) -> bool:
    """Whether values that two jobs wrote are equal, floats nearly so."""
    if isinstance(a, list):
        same = isinstance(b, list) and len(a) == len(b)
        return same and all(near(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        same = isinstance(b, dict) and a.keys() == b.keys()
        return same and all(near(a[k], b[k], tolerance) for k in a)
    return abs(a - b) <= tolerance if isinstance(a, float) and isinstance(b, float) else a == b
