"""Processes that are killed at random points of training, and training that continues after it."""

import json
import os
import random
import re
import subprocess
import sys

import pytest
from distributed.ranks import ROOT, environment, free_port, left_behind, run, segments

# Forks the processes of one job after another, since imports take longest. The victim of a job announces a
# phase of a step in a pipe and is killed a random time after it. The others write when which error reached
# them.
DRIVER = """
import json, os, pathlib, random, signal, sys, time
import flambeau as fb
import flambeau.distributed.checkpoint as dcp
from flambeau import nn
from flambeau.distributed.checkpoint.api import CheckpointException
dist = fb.distributed
SIZE = 3
PHASES = ("forward", "backward", "optimizer", "collective", "save", "async_save")

def train(folder, announce):
    dist.init_process_group("gloo")
    fb.manual_seed(0)
    layers = [m for _ in range(4) for m in (nn.Linear(256, 256), nn.Tanh())]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.3)
    optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), fb.optim.Adam)
    future = None
    for step in range(1000):
        announce("forward", step)
        loss = model(fb.ones(64, 256)).square().mean()
        announce("backward", step)
        loss.backward()
        announce("optimizer", step)
        optimizer.step()
        optimizer.zero_grad()
        announce("collective", step)
        x = fb.ones(200_000)
        dist.all_reduce(x)
        dist.broadcast(x, step % SIZE)
        dist.all_to_all_single(fb.empty(9), x[:9].clone())
        state = {"step": fb.full((300_000,), float(step)), "n": step, "m": {"k": fb.full((5,), float(step))}}
        announce("save", step)
        dcp.save(state, checkpoint_id=folder)
        announce("async_save", step)
        future = dcp.async_save(state, checkpoint_id=folder)
        dist.all_reduce(fb.ones(10))
        future.result()

def rank_of(rank, port, folder, phase, victim, at):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(SIZE), "LOCAL_RANK": str(rank)}

    def announce(name, step):
        if rank == victim and (name, step) == (phase, at):
            os.write(pipe[1], b"x")

    try:
        train(folder, announce)
    except BaseException as error:
        found = [type(error).__name__, str(error), time.time()]
        folder.joinpath(f"error-{rank}").write_text(json.dumps(found))

def attempt(number, rng, root):
    global pipe
    from distributed.ranks import free_port
    folder = root / str(number)
    folder.mkdir()
    phase, victim, at = PHASES[number % len(PHASES)], rng.randrange(SIZE), rng.randrange(1, 3)
    delay = rng.random() * 0.006
    pipe, port = os.pipe(), free_port()
    children = []
    for rank in range(SIZE):
        child = os.fork()
        if child == 0:
            os.setsid()
            rank_of(rank, port, folder, phase, victim, at)
            os._exit(0) if rank % 2 else sys.exit(0)
        children.append(child)
    os.close(pipe[1])
    assert os.read(pipe[0], 1) == b"x", "the victim ended before it was killed"
    os.close(pipe[0])
    time.sleep(delay)
    killed = time.time()
    os.kill(children[victim], signal.SIGKILL)
    until = killed + 20
    ended = {}
    while len(ended) < SIZE and time.time() < until:
        for child in children:
            if child not in ended and os.waitpid(child, os.WNOHANG)[0]:
                ended[child] = time.time() - killed
        time.sleep(0.005)
    for child in children:
        if child not in ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    errors = [json.loads(p.read_text()) for p in sorted(folder.glob("error-*"))]
    found = {"n": -1, "step": fb.zeros(300_000), "m": {"k": fb.zeros(5)}}
    dcp.load(found, checkpoint_id=folder, no_dist=True)
    whole = found["step"].eq(found["n"]).all().item() and found["m"]["k"].eq(found["n"]).all().item()
    return {
        "phase": phase, "victim": victim, "step": at, "delay": delay, "ended": len(ended), "whole": whole,
        "last": found["n"], "errors": [[name, text, when - killed] for name, text, when in errors],
        "longest": max(ended.values(), default=99),
    }

if __name__ == "__main__":
    root, seed, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    for number in range(count):
        print(json.dumps(attempt(number, rng, root)), flush=True)
"""


def test_kills_at_random_points(tmp_path):
    seed = int(os.environ.get("FLAMBEAU_KILL_SEED", random.SystemRandom().randrange(1 << 30)))
    print("FLAMBEAU_KILL_SEED", seed)  # pytest shows it if the test fails
    before = segments()
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(seed), "20"],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == 20
    for one in found:
        assert one["ended"] == 3 and one["longest"] < 5, one  # no process is left
        assert len(one["errors"]) == 2, one
        for name, text, after in one["errors"]:
            assert name in ("DistBackendError", "CheckpointException", "DistStoreError", "RuntimeError"), one
            assert after < 2 and f"rank {one['victim']}, which has died" in text, one
            assert name != "DistBackendError" or re.match(r"\w+: expected an answer", text), one
        assert one["whole"] and one["last"] >= one["step"] - 1, one
    assert left_behind(before) == set()


FAILING = """
import flambeau.distributed.checkpoint as dcp
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
class Fails:
    def state_dict(self):
        if rank == 1:
            raise KeyError("no state")
        return {"a": 1}
    def load_state_dict(self, state):
        pass
class Uncopied:
    def __deepcopy__(self, memo):
        if rank == 1:
            raise ValueError("no copy")
        return 7
class Writer(dcp.FileSystemWriter):
    def reset(self, checkpoint_id=None):
        if rank == 1 and hasattr(self, "path"):
            raise OSError("no place")
        super().reset(checkpoint_id)
found = []
began = time.time()
for state in ({"o": Fails()}, {"o": Uncopied()}):
    try:
        future = dcp.async_save(state, checkpoint_id=folder / "bad")
        found.append("begun")
        future.result()
    except BaseException as error:
        found.append([type(error).__name__, str(error)])
for save in (dcp.save, lambda *a, **k: dcp.async_save(*a, **k).result()):
    try:
        save({"a": 1}, storage_writer=Writer(folder / "bad"))
    except BaseException as error:
        found.append([type(error).__name__, str(error)])
seconds = time.time() - began
good = dcp.async_save({"a": fw.ones(2)}, checkpoint_id=folder / "good").result()
put([found, seconds, sorted(good.state_dict_metadata), (folder / "bad").exists()])
"""


def test_a_failure_before_the_writing_reaches_all_ranks():
    others, own = run(2, FAILING)
    for _, seconds, keys, bad in (others, own):
        assert seconds < 5 and keys == ["a"] and not bad
    # The rank that fails raises its exception at once; the futures of the others name it.
    assert own[0][:2] == [["KeyError", "'no state'"], ["ValueError", "no copy"]]
    assert [others[0][0], others[0][2]] == ["begun", "begun"]
    texts = [others[0][i] for i in (1, 3, 4, 5)]
    for text, word in zip(texts, ("no state", "no copy", "no place", "no place"), strict=True):
        assert text[0] == "CheckpointException" and word in text[1] and "1" in text[1], text
    assert [error[0] for error in own[0][2:]] == ["OSError", "OSError"]


# Runs examples/distributed/checkpointed.py. In each of the first attempts, one rank is killed at a random
# moment of a random step.
DOOMED = """
import os, random, runpy, signal, sys, threading
sys.path.insert(0, os.environ["EXAMPLES"])
import transformer
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
rng = random.Random(1000 * int(os.environ["SEED"]) + attempt)
victim = rng.randrange(int(os.environ["WORLD_SIZE"]))
step, delay = rng.randrange(4, 6), rng.random() / 100
calls, plain = 0, transformer.loss_of

def die():
    if os.environ["DEATHS"] == "machine":  # first its launcher
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

def loss_of(*arguments):
    global calls
    calls += 1
    if os.environ["DEATHS"] == "machine":
        dies = attempt == 0
    else:
        dies = attempt < int(os.environ["DEATHS"]) and rank == victim
    if dies and calls == step:
        threading.Timer(delay, die).start()
    return plain(*arguments)

transformer.loss_of = loss_of
runpy.run_path(os.path.join(os.environ["EXAMPLES"], "checkpointed.py"), run_name="__main__")
"""


def losses_by_step(output: str) -> dict[int, float]:
    """Return the last loss of each step; a line that a killed process left unfinished counts for nothing."""
    found: dict[int, float] = {}
    step = 0
    for line in output.splitlines():
        if line.startswith("continued at step "):
            step = int(line.split()[3])
        elif line.startswith("loss ") and len(line) == 13:
            found[step] = float(line[5:])
            step += 1
    return found


# The launcher, once another one serves the store of the job.
LATER = """
import socket, sys, time
from flambeau.distributed.run import main
port = int(sys.argv[1])
while socket.socket().connect_ex(("127.0.0.1", port)):
    time.sleep(0.02)
main(sys.argv[2:])
"""


def elastic(tmp_path, name, *words, after=None, **variables):
    script = tmp_path / f"{name}.py"
    script.write_text(DOOMED)
    program = ["-m", "flambeau.distributed.run"] if after is None else ["-c", LATER, str(after)]
    return subprocess.Popen(
        [sys.executable, *program, *map(str, words), str(script), str(tmp_path / name)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(EXAMPLES=str(ROOT / "examples/distributed"), **variables),
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    places = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    script = ROOT / "examples/distributed/checkpointed.py"
    command = [sys.executable, str(script), str(tmp_path_factory.mktemp("whole"))]
    found = losses_by_step(subprocess.check_output(command, text=True, timeout=60, env=environment(**places)))
    assert sorted(found) == list(range(12)) and found[11] < 0.8 * found[0]
    return found


def test_restarts_reach_the_loss_of_an_uninterrupted_run(tmp_path, uninterrupted):
    seed = os.environ.get("FLAMBEAU_KILL_SEED", str(random.SystemRandom().randrange(1 << 20)))
    print("FLAMBEAU_KILL_SEED", seed)
    before = segments()
    words = ["--standalone", "--nproc-per-node", 2, "--max-restarts", 3]
    process = elastic(tmp_path, "broken", *words, DEATHS="2", SEED=seed)
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    assert errors.count("restarting all processes") == 2, errors
    assert output.count("continued at step") == 2
    assert losses_by_step(output) == pytest.approx(uninterrupted, rel=1e-5)
    assert left_behind(before) == set()


def test_training_continues_without_a_machine_that_dies(tmp_path, uninterrupted):
    before, port = segments(), free_port()
    words = [
        "--nnodes",
        "1:2",
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        f"127.0.0.1:{port}",
        "--rdzv-id",
        "j",
    ]
    words += ["--rdzv-conf", "last_call_timeout=3", "--max-restarts", 3]
    first = elastic(tmp_path, "elastic", *words, DEATHS="0", SEED="1")
    second = elastic(tmp_path, "elastic", *words, after=port, DEATHS="machine", SEED="1")
    outputs = [process.communicate(timeout=90) for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, -9), outputs
    text = outputs[1][0] + outputs[0][0]  # rank 0 prints; it was on either machine before the death
    assert text.count("continued at step") == 1
    assert losses_by_step(text) == pytest.approx(uninterrupted, rel=1e-5)
    assert left_behind(before) == set()
