"""Saves in threads, and processes that are killed while they save."""

import os
import signal
import subprocess
import sys
import time

import flambeau as fb
import flambeau.distributed.checkpoint as dcp
import numpy as np
import pytest
from distributed.one_process import load, save
from distributed.ranks import environment
from flambeau.distributed.checkpoint.api import CheckpointException


def test_async_save_writes_what_was_there_at_the_call(tmp_path):
    weight, number = fb.nn.Parameter(fb.ones(1000)), fb.zeros(())
    values, data = {1, 2}, bytearray(b"ab")
    state = {"w": weight, "n": number, "l": [1, [2]], "d": {"v": (number, 1)}, "set": values, "bytes": data}
    futures = []
    for k in range(4):
        futures.append(dcp.async_save(state, checkpoint_id=tmp_path / str(k % 2), no_dist=True))
        with fb.no_grad():
            weight.mul_(2)
            number.add_(1)
        state["l"][1].append(k)
        values.add(10 + k)
        data.append(100 + k)
        state["later"] = k
    assert all("w" in f.result(30).state_dict_metadata for f in futures)
    for k in (2, 3):
        want = {
            "w": fb.zeros(1000),
            "n": fb.ones(()),
            "l": None,
            "d": {"v": None},
            "set": None,
            "bytes": None,
        }
        found = load(want, tmp_path / str(k % 2))
        assert found["w"].tolist() == [2.0**k] * 1000 and found["n"].item() == k
        assert found["l"] == [1, [2, *range(k)]] and found["d"]["v"][0].item() == k
        assert found["set"] == {1, 2, *range(10, 10 + k)} and found["bytes"] == b"ab" + bytes(
            range(100, 100 + k)
        )
    assert "later" in futures[1].result().state_dict_metadata


def test_async_save_reports_failures_in_its_future(tmp_path):
    (tmp_path / "file").write_text("")
    bad = dcp.async_save({"a": 1}, checkpoint_id=tmp_path / "file", no_dist=True)
    good = dcp.async_save({"a": 1}, checkpoint_id=tmp_path / "good", no_dist=True)
    with pytest.raises(CheckpointException, match=r"FileExistsError|NotADirectoryError"):
        bad.result(30)
    assert sorted(good.result(30).state_dict_metadata) == ["a"]


def test_save_waits_for_saves_that_have_begun(tmp_path):
    class Slow(dcp.FileSystemWriter):
        def write_data(self, plan, planner):
            time.sleep(0.3)
            return super().write_data(plan, planner)

    future = dcp.async_save({"a": 1}, storage_writer=Slow(tmp_path), no_dist=True)
    save({"a": 2}, tmp_path)
    assert future.done() and load({"a": 0}, tmp_path) == {"a": 2}


def test_async_save_completes_before_the_interpreter_ends(tmp_path):
    code = "import flambeau as fb, flambeau.distributed.checkpoint as c, sys\n"
    code += "c.async_save({'w': fb.ones(300_000)}, checkpoint_id=sys.argv[1], no_dist=True)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment(), timeout=60)
    assert load({"w": fb.zeros(300_000)}, tmp_path)["w"].sum().item() == 300_000


# Saves again and again; all values of a checkpoint are one number.
SAVER = """
import itertools, sys
import flambeau as fb, flambeau.distributed.checkpoint as c
print("ready", flush=True)
for i in itertools.count(1):
    state = {"a": fb.full((50_000,), float(i)), "b": {"c": fb.full((7, 9), float(i))}, "n": i}
    writer = c.FileSystemWriter(sys.argv[1], single_file_per_rank=bool(i % 2))
    if sys.argv[2] == "async":
        c.async_save(state, storage_writer=writer, no_dist=True)
        if i % 4 == 0:
            c.async_save(state, storage_writer=writer, no_dist=True).result()
    else:
        c.save(state, storage_writer=writer, no_dist=True)
"""


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_kill_at_any_time_leaves_a_whole_checkpoint(tmp_path, way):
    rng = np.random.default_rng(5)
    save({"a": fb.ones(50_000), "b": {"c": fb.ones(7, 9)}, "n": 1}, tmp_path)
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(tmp_path), way], env=environment(), stdout=subprocess.PIPE
        )
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(0.05 + rng.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = load({"a": fb.zeros(50_000), "b": {"c": fb.zeros(7, 9)}, "n": 0}, tmp_path)
        last = found["n"]
        assert last > 0 and found["a"].eq(last).all() and found["b"]["c"].eq(last).all()
    save({"n": -1}, tmp_path)
    assert (
        sorted(p.name for p in tmp_path.iterdir() if p.name.endswith(".distcp") or p.name[0] == ".")[0]
        == ".metadata"
    )
    assert len(list(tmp_path.glob("*.distcp"))) == 1  # what killed saves left is gone


def test_a_kill_at_each_step_leaves_the_old_or_the_new_checkpoint(tmp_path):
    """A child is killed at the n-th line of the storage, for all n, over a checkpoint of its own."""
    line, new = 0, False
    while not new:
        save({"w": fb.full((2,), 1.0), "v": fb.zeros(3)}, tmp_path)
        child = os.fork()
        if child == 0:
            left = line

            def trace(frame, event, _):
                nonlocal left
                if not frame.f_code.co_filename.endswith(("checkpoint/filesystem.py", "_replacement.py")):
                    return None
                if event == "line":
                    left -= 1
                    if left < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                return trace

            sys.settrace(trace)
            save({"w": fb.full((2,), 2.0), "v": fb.zeros(3)}, tmp_path)
            os._exit(0)
        new = os.waitpid(child, 0)[1] == 0
        found = load({"w": fb.zeros(2), "v": fb.ones(3)}, tmp_path)["w"].tolist()
        assert found in ([1, 1], [2, 2]), line
        line += 4
    assert found == [2, 2] and line > 60


def test_values_around_the_size_that_is_written_at_once(tmp_path):
    generator = fb.Generator().manual_seed(0)
    state = {}
    for size in (0, 1, 65_535, 65_536, 65_537, 200_000):
        whole = fb.randint(256, (size + 3,), dtype=fb.uint8, generator=generator)
        state[f"own-{size}"], state[f"part-{size}"] = whole[:size].clone(), whole[3:]
        state[f"object-{size}"] = bytes(whole.tolist())
    state["columns"] = fb.randn(300, 200, generator=generator).bfloat16()[:, 50:150]
    state["scalar"] = fb.arange(9.0)[4]
    state["complex"] = fb.randn(3, 5, dtype=fb.complex64, generator=generator)[1:].conj()
    save(state, tmp_path)
    files = sum(p.stat().st_size for p in tmp_path.glob("*.distcp"))
    # Pickle takes 1.5 bytes for each byte of an object. The columns do not bring their whole storage.
    assert files < 3.5 * 396_609 + 60_000 + 20_000
    kept = {key: fb.empty_like(v) if isinstance(v, fb.Tensor) else b"" for key, v in state.items()}
    found = load(kept, tmp_path)
    for key, value in state.items():
        assert fb.equal(found[key], value) if isinstance(value, fb.Tensor) else found[key] == value, key
