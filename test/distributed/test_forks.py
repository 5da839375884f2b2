"""Forks that run ranks: environment, output, status and `__main__` are those of `python script`."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from distributed.ranks import Job, environment, run
from oracle import pytorch

FACTS = """
import pickle, threading
__main__ = __import__("__main__")

def double(x):
    return 2 * x

print("to stdout", flush=True)
os.system("echo to the output of a child")
put({
    "variables": {k: v for k, v in os.environ.items() if k not in ("_", "MASTER_PORT")},
    "script": [pathlib.Path(p).name for p in (*sys.argv, __file__, sys.path[0], __main__.__file__)],
    "pickled": pickle.loads(pickle.dumps(double))(3), "name": __name__, "stdin": sys.stdin.read(),
    "leader": os.getsid(0) == os.getpid(), "threads": threading.active_count(),
    "seed": fw.initial_seed(),
})
"""


@pytest.fixture(autouse=True)
def oracle():
    return pytorch()


def test_a_fork_is_as_a_new_process():
    """The second job must not find what the first has changed."""
    for number in ("1", "2"):
        job = Job(1, FACTS + "os.environ['LEFT'] = os.curdir\nfw.manual_seed(5)\n", "torch", NUMBER=number)
        (ended,) = job.ends()
        assert ended.status == 0, ended.output
        assert ended.output.splitlines() == ["to stdout", "to the output of a child"]
        found = ended.values
        assert found["variables"]["NUMBER"] == number and "LEFT" not in found["variables"]
        assert found["variables"]["RANK"] == "0" and found["variables"]["PYTHONPATH"]
        name = Path(job.folder.name).name
        assert found["script"] == ["script.py", "script.py", name, "script.py"]
        assert found["pickled"] == 6 and found["name"] == "__main__" and found["stdin"] == ""
        assert found["leader"] and found["threads"] == 1 and found["seed"] != 5


def test_errors_and_exit_codes_are_seen():
    (ended,) = Job(1, "def inner():\n    raise KeyError('lost')\ninner()\n", "torch").ends()
    assert ended.status == 1 and "in inner" in ended.output and ended.output.endswith("KeyError: 'lost'\n")
    assert Job(1, "sys.exit(7)\n", "torch").ends()[0].status == 7
    assert Job(1, "os.kill(os.getpid(), 11)\n", "torch").ends()[0].status == -signal.SIGSEGV
    with pytest.raises(AssertionError, match="lost"):
        run(1, "raise KeyError('lost')\n", "torch")


def test_killed_and_late_forks():
    job = Job(2, "touch(f'here-{rank}')\ntime.sleep(60)\n", "torch")
    for rank in range(2):
        job.wait_for(f"here-{rank}")
    job.kill(0)
    with pytest.raises(AssertionError, match=r"ranks \[1\] did not end in 0.5 s"):
        job.ends(0.5)
    assert [p.returncode for p in job.processes] == [-signal.SIGKILL] * 2
    job.kill(0)  # without effect: another process may have the number


def test_the_forking_process_ends_with_the_process_that_started_it(tmp_path):
    tmp_path.joinpath("script.py").write_text("import os, sys\nprint(os.getppid())\nsys.exit(3)\n")
    code = """
import pathlib, sys
import forks
from distributed import ranks
folder = pathlib.Path(sys.argv[1])
own = forks.Forks()
process = own.start(folder / "script.py", folder / "output", ranks.environment())
assert process.wait(60) == process.wait() == 3
assert int(folder.joinpath("output").read_text()) == own.process.pid
print(own.process.pid)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    try:
        handle = os.pidfd_open(int(done.stdout))
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 30)[0], "it still runs"
    finally:
        os.close(handle)
