"""How DataLoaders and their workers end: well, by death, by signals, and with nothing left."""

import ctypes
import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import flambeau as fb
import pytest
from flambeau.utils.data import DataLoader, Dataset, TensorDataset
from loader_samples import (
    Acts,
    stop_self,
)
from workers import PACKAGE

# A test that waits longer than this has found a hang.
HANG = 60

WAYS = ("fork", "spawn", "forkserver")


# --- workers that die, hang, or refuse to end --------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "how"),
    [
        ((stop_self, signal.SIGKILL), r"killed by signal: Killed \(9\)"),
        ((ctypes.string_at, 0), r"killed by signal: Segmentation fault \(11\)"),
        ((os._exit, 9), "exit code 9"),
        ((os._exit, 0), "exit code 0"),
    ],
    ids=["killed", "segfault", "exit 9", "exit 0"],
)
@pytest.mark.parametrize("way", ["fork", "forkserver"])
def test_a_dead_worker_is_named(act, how, way):
    iterator = iter(DataLoader(Acts(*act), None, num_workers=2, multiprocessing_context=way))
    pids = [process.pid for process in iterator._pool.processes]
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) {pids[0]}\) exited.*{how}"):
        list(iterator)
    assert not any(is_alive(pid) for pid in pids)
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_idle_worker_that_died_is_replaced():
    loader = DataLoader(range(6), None, num_workers=2, persistent_workers=True)
    assert list(loader) == list(range(6))
    os.kill(loader._pool.processes[0].pid, signal.SIGKILL)
    loader._pool.processes[0].join(HANG)
    assert list(loader) == list(range(6))


def test_timeout():
    loader = DataLoader(Acts(time.sleep, 1000), None, num_workers=1, timeout=0.5)
    with pytest.raises(RuntimeError, match="timed out after 0.5 seconds"):
        list(loader)


def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)


def hold_gil():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.PyDLL(None).sleep(1000)


@pytest.mark.parametrize("act", [deaf, hold_gil])
def test_a_worker_that_ignores_signals_is_killed(act):
    iterator = iter(DataLoader(Acts(act), None, num_workers=1))
    assert [next(iterator), next(iterator)] == [0, 1]
    pid = iterator._pool.processes[0].pid
    start = time.monotonic()
    del iterator
    assert not is_alive(pid)
    assert time.monotonic() - start < HANG


# --- the end ---------------------------------------------------------------------------------------


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids):
    end = time.monotonic() + HANG
    while any(map(is_alive, pids)):
        assert time.monotonic() < end, "workers live on"
        time.sleep(0.02)


def program(*lines):
    """A program around a loader with a data set whose third sample never comes."""
    head = [
        "import ctypes, gc, os, signal, sys, threading, time",
        "import flambeau as fb",
        "from flambeau.utils.data import DataLoader, Dataset",
        "class Hangs(Dataset):",
        "    def __len__(self): return 4",
        "    def __getitem__(self, i):",
        "        if i > 1: ctypes.PyDLL(None).sleep(1000)",
        "        return os.getpid()",
    ]
    return "\n".join([*head, *lines])


def start(tmp_path, *lines):
    source = tmp_path / "program.py"
    source.write_text(program(*lines))
    return subprocess.Popen(
        [sys.executable, str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("in_thread", [False, True])
def test_workers_end_with_a_process_that_is_killed(tmp_path, way, in_thread):
    process = start(
        tmp_path,
        "def work():",
        f"    batches = iter(DataLoader(Hangs(), None, num_workers=2, multiprocessing_context={way!r}))",
        "    print(next(batches), next(batches), flush=True)",
        "    time.sleep(1000)",
        "if __name__ == '__main__':",
        f"    thread = threading.Thread(target=work) if {in_thread} else None",
        "    thread.start() if thread else work()",
        "    if thread: thread.join()",
    )
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2
    process.kill()
    process.communicate(timeout=HANG)
    wait_until_gone(pids)


ENDINGS = {
    "falls off the end": (),
    "exits": ("sys.exit(0)",),
    "gives up in a loop": ("for x in DataLoader(Hangs(), None, num_workers=2): break",),
    "drops it in a cycle": ("cycle = [batches]", "cycle.append(cycle)", "del batches, cycle", "gc.collect()"),
    "has a cycle at exit": ("cycle = [batches]", "cycle.append(cycle)"),
    "handles an exception": ("try: raise ValueError", "except ValueError: keep = batches"),
    "has a thread that waits": (
        "thread = threading.Thread(target=lambda: next(batches), daemon=True)",
        "thread.start()",
        "time.sleep(0.3)",
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_programs_end_however_they_do(tmp_path, ending):
    process = start(
        tmp_path,
        "if __name__ == '__main__':",
        "    batches = iter(DataLoader(Hangs(), None, num_workers=2))",
        "    print(next(batches), next(batches), flush=True)",
        *(f"    {line}" for line in ENDINGS[ending]),
    )
    out, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0, errors
    # A thread that waits for a batch may still be told, before it ends, that the workers have ended.
    assert errors == "" or ending == "has a thread that waits"
    wait_until_gone([int(pid) for pid in out.split()])


def test_ctrl_c_ends_workers_without_their_tracebacks(tmp_path):
    process = start(
        tmp_path,
        "if __name__ == '__main__':",
        "    batches = iter(DataLoader(Hangs(), None, num_workers=2))",
        "    print(next(batches), next(batches), flush=True)",
        "    next(batches)",
    )
    pids = [int(pid) for pid in process.stdout.readline().split()]
    for pid in (process.pid, *pids):
        os.kill(pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode != 0
    assert errors.count("Traceback") == 1
    assert "KeyboardInterrupt" in errors
    wait_until_gone(pids)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def mappings():
    return Path("/proc/self/maps").read_text().count("memfd:flambeau")


def uses(loader):
    """Ways to use a loader."""
    list(loader)
    for _ in loader:
        break
    next(iter(loader))
    zip_of_two = list(zip(loader, loader, strict=True))
    assert all(a[0].equal(b[0]) for a, b in zip_of_two)
    try:
        for _ in loader:
            raise ValueError("of the consumer")
    except ValueError:
        pass
    list(itertools.islice(loader, 2))


@pytest.mark.parametrize("persistent", [False, True])
def test_nothing_is_left(persistent):
    data = TensorDataset(fb.rand(40, 30_000))

    def use():
        uses(DataLoader(data, 4, num_workers=2, persistent_workers=persistent))
        gc.collect()

    use()
    before = open_files()
    for _ in range(3):
        use()
    assert open_files() == before
    assert mappings() == 0
    assert multiprocessing.active_children() == []


def test_batches_keep_no_file_open():
    before = open_files()
    kept = list(DataLoader(TensorDataset(fb.rand(64, 10_000)), 1, num_workers=1))
    assert open_files() <= before + 2
    assert len(kept) == 64


def test_the_next_pass_forgets_the_one_that_was_given_up():
    loader = DataLoader(range(20), 2, num_workers=2, persistent_workers=True)
    pids = None
    for _ in range(4):
        iterator = iter(loader)
        assert next(iterator).tolist() == [0, 1]
        del iterator
        now = [process.pid for process in loader._pool.processes]
        assert pids in (None, now), "the workers stay"
        pids = now
    assert fb.cat(list(loader)).tolist() == list(range(20))


def test_a_loader_inside_of_a_worker():
    class Outer(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return [b.tolist() for b in DataLoader(range(i, i + 3), 2)]

    assert list(DataLoader(Outer(), None, num_workers=1)) == [[[0, 1], [2]], [[1, 2], [3]]]


def test_threads_share_an_iterator():
    iterator, seen = iter(DataLoader(range(60), None, num_workers=2)), []
    threads = [threading.Thread(target=lambda: seen.extend(iterator)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    assert sorted(seen) == list(range(60))


def test_a_forked_process_cannot_use_the_iterator():
    iterator = iter(DataLoader(range(60), None, num_workers=1))
    next(iterator)
    pid = os.fork()
    if pid == 0:
        try:
            next(iterator)
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(list(iterator)) == 59


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"num_workers": 1, "prefetch_factor": 0},
        {"persistent_workers": True},
        {"multiprocessing_context": "fork"},
        {"num_workers": 1, "multiprocessing_context": "carrier pigeon"},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(ValueError, match=list(options)[-1]):
        DataLoader(range(3), **options)
