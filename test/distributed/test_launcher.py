"""The launcher: variables, restarts, several machines, logs, exit codes, signals, what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from distributed.ranks import environment, free_port
from flambeau.distributed import run as launcher
from flambeau.distributed._agent import endpoint_of
from flambeau.distributed._workers import Std

SHOW = """
import json, os, pathlib, sys
names = ("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME "
         "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID MASTER_ADDR").split()
shown = {name: os.environ[name] for name in names} | {"arguments": sys.argv[1:], "pid": os.getpid()}
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
folder = pathlib.Path(__file__).parent
part = folder.joinpath(f"part-{os.environ['RANK']}-{attempt}")
part.write_text(json.dumps(shown))
part.rename(folder.joinpath(f"shown-{os.environ['RANK']}-{attempt}"))  # which is whole when it is there
"""
MEET = """
import flambeau as fb
dist = fb.distributed
dist.init_process_group("gloo")
x = fb.ones(1)
dist.all_reduce(x)
folder.joinpath(f"sum-{dist.get_rank()}-{attempt}").write_text(str(x.item()))
"""


def command(*words):
    return [sys.executable, "-m", "flambeau.distributed.run", *map(str, words)]


def launch(*words, seconds=60, **variables):
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=seconds, env=environment(**variables)
    )


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(SHOW + text)
        return path

    return write


def shown(folder: Path, attempt=0):
    found = [json.loads(p.read_text()) for p in sorted(folder.glob(f"shown-*-{attempt}"))]
    return sorted(found, key=lambda one: int(one["RANK"]))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_variables_and_arguments(script, tmp_path):
    path = script(MEET)
    done = launch("--standalone", "--nproc-per-node=2", "--role", "r", path, "--x", "-m", "1")
    assert done.returncode == 0, done.stderr
    for rank, one in enumerate(shown(tmp_path)):
        assert one["RANK"] == one["LOCAL_RANK"] == one["ROLE_RANK"] == str(rank)
        assert one["WORLD_SIZE"] == one["LOCAL_WORLD_SIZE"] == "2" and one["GROUP_RANK"] == "0"
        assert one["arguments"] == ["--x", "-m", "1"] and one["ROLE_NAME"] == "r"
        assert one["MASTER_ADDR"] == "127.0.0.1" and one["TORCHELASTIC_MAX_RESTARTS"] == "0"
    assert [(tmp_path / f"sum-{rank}-0").read_text() for rank in range(2)] == ["2.0", "2.0"]


def test_a_failure_restarts_all(script, tmp_path):
    path = script(MEET + "\nif attempt == '0' and dist.get_rank() == 1: sys.exit(7)\ndist.barrier()\n")
    done = launch("--standalone", "--nproc_per_node", 2, "--max-restarts", 2, path)
    assert done.returncode == 0, done.stderr
    assert "restarting all processes (2 restarts left)" in done.stderr
    assert len(shown(tmp_path, 0)) == len(shown(tmp_path, 1)) == 2 and not shown(tmp_path, 2)
    assert (tmp_path / "sum-0-1").read_text() == "2.0"


def test_the_last_failure_is_reported(script, tmp_path):
    path = script("import time\nif os.environ['RANK'] == '1': sys.exit(5)\ntime.sleep(60)\n")
    began = time.monotonic()
    done = launch("--standalone", "--nproc-per-node", 2, "--max-restarts", 1, path)
    assert done.returncode == 1 and time.monotonic() - began < 30
    first = done.stderr.partition("the first one first")[2].splitlines()[1]
    assert "rank 1 (local rank 1" in first and "exit code 5" in first
    assert all(gone(one["pid"]) for attempt in (0, 1) for one in shown(tmp_path, attempt))


def test_a_killed_process_is_named_by_its_signal(script):
    path = script("import signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    done = launch("--standalone", path)
    assert done.returncode == 1 and "signal SIGKILL" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_processes(script, tmp_path, number):
    path = script("import time\ntime.sleep(60)\n")
    process = subprocess.Popen(
        command("--standalone", "--nproc-per-node", 2, path),
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while len(shown(tmp_path)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1 and f"received {signal.Signals(number).name}" in errors
    assert all(gone(one["pid"]) for one in shown(tmp_path))


def test_processes_end_with_a_killed_launcher(script, tmp_path):
    path = script("import time\ntime.sleep(60)\n")
    process = subprocess.Popen(command("--standalone", path), env=environment())
    until = time.monotonic() + 30
    while not shown(tmp_path) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.wait()
    while not gone(shown(tmp_path)[0]["pid"]) and time.monotonic() < until:
        time.sleep(0.05)
    assert gone(shown(tmp_path)[0]["pid"])


def test_logs_and_tee(script, tmp_path):
    path = script("print('to out', os.environ['RANK'])\nprint('to err', file=sys.stderr)\n")
    logs = tmp_path / "logs"
    words = ["--standalone", "--nproc-per-node", 2, "--log-dir", logs, "-r", "0:3", "-t", "1:1", path]
    done = launch(*words)
    assert done.returncode == 0 and done.stdout == "[default1]:to out 1\n"
    files = {str(p.relative_to(logs)).partition("/")[2]: p.read_text() for p in logs.rglob("*.log")}
    assert files == {
        "attempt_0/0/stdout.log": "to out 0\n",
        "attempt_0/0/stderr.log": "to err\n",
        "attempt_0/1/stdout.log": "to out 1\n",
    }
    done = launch("--standalone", "--nproc-per-node", 2, "--local-ranks-filter", "1", path)
    assert done.stdout == "to out 1\n"


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_two_machines(script, tmp_path, backend):
    path = script(MEET)
    port = free_port()
    words = {
        "static": ["--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", port],
        "c10d": ["--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"],
    }[backend]
    if backend == "c10d":
        words += ["--rdzv-id", "job", "--rdzv-conf", "last_call_timeout=20"]
    processes = []
    for node in range(2):
        own = ["--node-rank", node] if backend == "static" else []
        processes.append(
            subprocess.Popen(
                command(*words, *own, "--nproc-per-node", node + 1, path),
                env=environment(),
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    errors = [p.communicate(timeout=60)[1] for p in processes]
    assert [p.returncode for p in processes] == [0, 0], errors
    found = shown(tmp_path)
    assert [one["RANK"] for one in found] == ["0", "1", "2"]
    assert {one["WORLD_SIZE"] for one in found} == {"3"} and {one["GROUP_WORLD_SIZE"] for one in found} == {
        "2"
    }
    assert (tmp_path / "sum-2-0").read_text() == "3.0"


def test_fewer_machines_are_enough_after_the_last_call(script, tmp_path):
    path = script("")
    words = ["--nnodes", "1:3", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
    done = launch(*words, "--rdzv-conf", "last_call_timeout=0.3", path)
    assert done.returncode == 0, done.stderr
    assert [one["WORLD_SIZE"] for one in shown(tmp_path)] == ["1"]


def test_modules_and_other_programs(tmp_path):
    done = launch("--standalone", "-m", "platform")
    assert done.returncode == 0 and "Linux" in done.stdout
    done = launch("--standalone", "--no-python", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert done.stdout == "0 of 1\n"
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    done = launch("--standalone", "--run-path", script, "a")
    assert done.stdout == "__main__ ['a']\n"
    assert launch("--standalone", "--no-python", "/nonexistent/program").returncode == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nnodes", "2:1", "x"], "MIN:MAX"),
        (["--nnodes", "a", "x"], "MIN:MAX"),
        (["--nnodes", "1:2", "x"], "one number of machines"),
        (["--nnodes", "2", "--node-rank", "2", "x"], "node rank from 0 to 1"),
        (["--standalone", "--nproc-per-node", "gpu", "x"], "Cuda is not available"),
        (["--standalone", "--nproc-per-node", "0", "x"], "Unsupported nproc_per_node"),
        (["--rdzv-backend", "etcd", "x"], "static or c10d"),
        (["--standalone", "-r", "x", "x"], "expected 0 to 3"),
        (["--rdzv-backend", "c10d", "--rdzv-endpoint", "a:b", "x"], "host:port"),
        (["--standalone", "--no-python", "-m", "x"], "got both"),
    ],
)
def test_wrong_options(words, text, capsys):
    with pytest.raises(SystemExit) as ended:
        launcher.main(words)
    assert ended.value.code == 1 and text in capsys.readouterr().err


def test_defaults_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "7")
    monkeypatch.setenv("PET_MAX_RESTARTS", "3")
    options = launcher.parse_args(["script.py"])
    assert options.nproc_per_node == "7" and options.max_restarts == 3
    assert launcher.determine_local_world_size("cpu") == len(os.sched_getaffinity(0))


def test_texts_of_options():
    assert endpoint_of("a:1", "b", 2) == ("a", 1) and endpoint_of("a", "b", 2) == ("a", 2)
    assert endpoint_of("", "b", 2) == ("b", 2) and endpoint_of(":5", "b", 2) == ("b", 5)
    assert Std.parse("2", 2) == [Std.ERR] * 2 and Std.parse("1:3", 2) == [Std.NONE, Std.ALL]
