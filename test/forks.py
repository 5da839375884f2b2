"""Starts processes that use PyTorch as forks of one process that has imported it.

A new interpreter needs one to two seconds of processor time for the import. Processes that use flambeau
always start as new interpreters: programs start them so, and the order of a set differs among them.
"""

import importlib
import json
import os
import select
import subprocess
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Fork:
    """A process that `Forks` started, with the members of `subprocess.Popen` that a job uses."""

    def __init__(self, forks: "Forks", pid: int) -> None:
        self.forks, self.pid, self.returncode = forks, pid, None
        self.handle = os.pidfd_open(pid)

    def wait(self, seconds: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self.handle], [], [], seconds)[0]:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", seconds)
            os.close(self.handle)
            self.returncode = self.forks.ask(end=self.pid)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:  # no other process has the number before the end is asked for
            os.kill(self.pid, number)


class Forks:
    """A process that imports `modules` and forks, from the first request until this process ends."""

    def __init__(self, *modules: str) -> None:
        self.modules, self.process = modules, None

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, script: Path, output: Path, variables: dict[str, str]) -> Fork:
        """Run `script` in a session of its own, with `variables` as environment; append what it prints.

        Modules are found, and threads are counted, as in the process that forks.
        """
        if self.process is None:
            # Libraries start no threads, which forks would lack.
            path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "test")])
            around = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
            self.process = subprocess.Popen(
                [sys.executable, __file__, *self.modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=around,
            )
        return Fork(self, self.ask(script=str(script), output=str(output), variables=variables))


PARTS = ("checkpoint", "fsdp", "pipelining", "rpc", "tensor")
PYTORCH = Forks("torch", *(f"torch.distributed.{name}" for name in PARTS))


def run(script: str, output: str, variables: dict[str, str]) -> None:
    """Become the process that `python script` is."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv, sys.path[0] = [script], str(Path(script).parent)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = script
    exec(compile(Path(script).read_text(), script, "exec"), main.__dict__)
    sys.exit()


def serve(modules: list[str]) -> None:
    """Answer each line of stdin: start a script and tell its number, or tell the status of what has ended."""
    for name in modules:
        importlib.import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "forks would lack the threads"
    answers = os.dup(1)
    for line in sys.stdin:
        question = json.loads(line)
        if "end" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["end"], 0)[1])
        else:
            answer = os.fork()
            if not answer:
                os.close(answers)
                return run(**question)
        os.write(answers, f"{answer}\n".encode())


if __name__ == "__main__":
    serve(sys.argv[1:])
