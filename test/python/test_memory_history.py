"""The history of the CPU's allocator: actions, stacks, limits, threads and processes; its counts."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import types
import weakref

import flambeau as fb
import pytest
from flambeau.cpu import memory

LARGE = 600_000  # elements; their block is a large one
SMALL = 1_000


@pytest.fixture(autouse=True)
def without_history():
    yield
    memory._record_memory_history(None, clear_history=True)


def begin(**options):
    memory._record_memory_history(clear_history=True, **options)


def trace():
    return memory._snapshot()["device_traces"][0]


def actions(size, entries=None):
    return [e["action"] for e in (trace() if entries is None else entries) if e["size"] == size]


def names(entry):
    return [f["name"].rpartition(".")[2] for f in entry["frames"]]


def in_use(snapshot, size):
    return [
        b
        for s in snapshot["segments"]
        for b in s["blocks"]
        if b["state"] == "active_allocated" and b["requested_size"] == size
    ]


def test_allocations_and_releases_have_the_stack_of_their_caller():
    def the_maker():
        return fb.ones(SMALL + 3)

    begin()
    x = the_maker()
    del x
    rows = [e for e in trace() if e["size"] == 4 * (SMALL + 3)]
    assert [e["action"] for e in rows] == ["alloc", "free_requested", "free_completed"]
    me = "test_allocations_and_releases_have_the_stack_of_their_caller"
    assert names(rows[0])[:2] == ["the_maker", me] and names(rows[1])[0] == me
    line = the_maker.__code__.co_firstlineno + 1
    assert rows[0]["frames"][0] == {"filename": __file__, "line": line, "name": f"{the_maker.__qualname__}"}
    assert len({e["addr"] for e in rows}) == 1 and rows[0]["time_us"] <= rows[1]["time_us"]


def test_an_operator_without_the_gil_has_the_stack_on_leaving():
    x = fb.ones(LARGE, requires_grad=True)

    def the_caller():
        return (x.exp() * 2).sum()

    begin()
    the_caller().backward()
    rows = [e for e in trace() if e["size"] == 4 * LARGE and e["action"] == "alloc"]
    assert len(rows) >= 3
    forward = [e for e in rows if not e["in_backward"]]
    backward = [e for e in rows if e["in_backward"]]
    assert forward and backward
    assert all(names(e)[0] == "the_caller" for e in forward)
    assert all(names(e)[0].startswith("test_an_operator") for e in backward)


@pytest.mark.parametrize("context", [None, "state", "alloc", "all"])
def test_which_actions_have_stacks(context):
    begin(context=context)
    kept = fb.ones(SMALL + 5)
    gone = fb.ones(SMALL + 7)
    del gone
    snapshot = memory._snapshot()
    rows = {
        e["action"]: bool(e["frames"]) for e in snapshot["device_traces"][0] if e["size"] == 4 * SMALL + 28
    }
    assert rows == {
        "alloc": context in ("alloc", "all"),
        "free_requested": context == "all",
        "free_completed": context == "all",
    }
    (block,) = in_use(snapshot, 4 * SMALL + 20)
    assert bool(block["frames"]) == (context is not None)
    assert kept.numel() == SMALL + 5


def test_state_keeps_blocks_but_no_history():
    begin(enabled="state")
    kept, gone = fb.ones(SMALL + 9), fb.ones(SMALL + 11)
    del gone
    snapshot = memory._snapshot()
    assert snapshot["device_traces"] == [[]]
    assert len(in_use(snapshot, 4 * SMALL + 36)) == 1 and not in_use(snapshot, 4 * SMALL + 44)
    assert kept.numel() == SMALL + 9


def test_large_blocks_are_listed_without_a_history():
    x = fb.ones(LARGE + 1)
    snapshot = memory._snapshot()
    (block,) = in_use(snapshot, 4 * LARGE + 4)
    assert block["address"] == x.data_ptr() and block["size"] == 4 << 20 and block["frames"] == []
    del x
    snapshot = memory._snapshot()
    assert not in_use(snapshot, 4 * LARGE + 4)
    kept = {s["address"]: s["blocks"][0]["state"] for s in snapshot["segments"]}
    assert kept[block["address"]] == "inactive"
    memory.empty_cache()
    assert block["address"] not in {s["address"] for s in memory.memory_snapshot()}


def test_sums_of_a_snapshot_are_those_of_the_allocator():
    begin()
    kept = [fb.ones(n) for n in (1, 100, SMALL, LARGE)]
    snapshot = memory._snapshot()
    listed = sum(s["requested_size"] for s in snapshot["segments"])
    assert listed + snapshot["unlisted_bytes"] == snapshot["stats"]["allocated_bytes"]
    assert listed >= sum(x.nbytes for x in kept)
    for s in snapshot["segments"]:
        assert s["total_size"] == sum(b["size"] for b in s["blocks"]) >= s["requested_size"]
        assert (s["segment_type"] == "large") == (s["total_size"] > 1 << 20)


def test_segments_come_and_go():
    memory.empty_cache()
    begin()
    x = fb.ones(LARGE)
    del x
    memory.empty_cache()
    assert actions(4 << 20) == ["segment_alloc", "segment_free"]
    assert actions(4 * LARGE) == ["alloc", "free_requested", "free_completed"]


def test_a_lack_of_memory_is_an_action():
    begin()
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        fb.empty(1 << 60)
    (row,) = [e for e in trace() if e["action"] == "oom"]
    assert row["size"] == 1 << 62 and "addr" not in row
    assert names(row)[0] == "test_a_lack_of_memory_is_an_action"


def test_newer_actions_replace_the_oldest():
    begin(max_entries=9, skip_actions=["segment_alloc", "segment_free", "snapshot"])
    for n in range(50):
        fb.ones(n + 1)
    snapshot = memory._snapshot()
    rows = snapshot["device_traces"][0]
    assert [e["size"] for e in rows] == [4 * n for n in (48, 49, 50) for _ in range(3)]
    assert snapshot["lost_entries"] == 50 * 3 - 9
    times = [e["time_us"] for e in rows]
    assert times == sorted(times)
    memory._record_memory_history(max_entries=4, skip_actions=["snapshot"])
    assert [e["size"] for e in trace()] == [4 * n for n in (49, 50, 50, 50)]
    memory._record_memory_history(max_entries=100, skip_actions=["segment_alloc", "snapshot"])
    fb.ones(77)
    assert [e["size"] for e in trace()] == [4 * n for n in (49, 50, 50, 50, 77, 77, 77)]


def test_skipped_actions():
    begin(skip_actions=["free_requested", "alloc"])
    fb.ones(SMALL)
    assert actions(4 * SMALL) == ["free_completed"]
    assert [e["action"] for e in trace() if e["action"] == "snapshot"] == ["snapshot"]


def test_a_history_stays_after_its_end():
    begin()
    x = fb.ones(SMALL + 13)
    memory._record_memory_history(None)
    fb.ones(SMALL + 17)
    assert actions(4 * SMALL + 52) == ["alloc"] and actions(4 * SMALL + 68) == []
    del x
    memory._record_memory_history()
    assert actions(4 * SMALL + 52) == ["alloc"], "a release between two histories is not seen"
    assert not in_use(memory._snapshot(), 4 * SMALL + 52)
    memory._record_memory_history(None, clear_history=True)
    assert trace() == []


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"enabled": "most"}, ValueError, "expected enabled among None, 'state', 'all', got 'most'"),
        ({"enabled": True}, ValueError, "got True"),
        ({"enabled": 0}, ValueError, "got 0"),
        ({"context": "python"}, ValueError, "expected context among None, 'state', 'alloc', 'all'"),
        ({"stacks": None}, ValueError, "expected stacks among 'python', 'all', got None"),
        ({"max_entries": 0}, ValueError, "expected max_entries of 1 or more, got 0"),
        ({"max_entries": 2.5}, TypeError, "expected an int as max_entries, got 2.5"),
        ({"max_entries": True}, TypeError, "got True"),
        ({"device": "cuda"}, ValueError, "expected device 'cpu', got 'cuda'"),
        ({"skip_actions": ["free"]}, ValueError, "expected skip_actions among 'alloc', .* got 'free'"),
    ],
)
def test_what_is_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        memory._record_memory_history(**arguments)
    fb.ones(SMALL + 19)
    assert actions(4 * SMALL + 76) == [], "nothing is recorded after an error"


def test_huge_limits_are_limits():
    begin(max_entries=1 << 70)
    fb.ones(SMALL)
    assert actions(4 * SMALL)[0] == "alloc"


# --- threads, signals, processes -------------------------------------------------------------------------


def test_threads_record_side_by_side():
    begin()
    rounds = 400

    def work(number):
        for _ in range(rounds):
            fb.ones(5_000 + number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for _ in range(20):  # while they run
        memory._snapshot()
        memory._record_memory_history()
    for t in threads:
        t.join()
    rows = trace()
    for number in range(4):
        own = [e for e in rows if e["size"] == 4 * (5_000 + number)]
        assert len(own) == 3 * rounds and len({e["thread"] for e in own}) == 1
        assert all(names(e)[0] == "work" for e in own)
    balance = {}
    for e in rows:
        if e["action"] in ("alloc", "free_completed"):
            step = 1 if e["action"] == "alloc" else -1
            balance[e["addr"]] = balance.get(e["addr"], 0) + step
            assert balance[e["addr"]] in (0, 1, -1), "an address has one tensor at a time"


def test_clearing_while_others_compute_without_the_gil():
    begin()
    stop = threading.Event()
    x = fb.ones(LARGE)

    def work():
        while not stop.is_set():
            x.exp().sin()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(60):
        memory._record_memory_history(clear_history=True)
        for e in trace():
            assert all(isinstance(f["line"], int) for f in e["frames"])
    stop.set()
    for t in threads:
        t.join()


def test_a_block_that_another_thread_releases():
    begin()
    box = [fb.ones(SMALL + 21)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    rows = [e for e in trace() if e["size"] == 4 * SMALL + 84]
    assert [e["action"] for e in rows] == ["alloc", "free_requested", "free_completed"]
    assert rows[0]["thread"] != rows[1]["thread"]


def test_finalizers_that_allocate_while_garbage_is_collected():
    class Cycle:
        def __init__(self):
            self.self = self
            self.tensor = fb.ones(2 * SMALL)

        def __del__(self):
            self.other = fb.ones(3 * SMALL) + 1

    begin()
    before = gc.get_threshold()
    gc.set_threshold(2, 2, 2)
    try:
        for _ in range(100):
            Cycle()
        gc.collect()
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()
    assert actions(8 * SMALL).count("alloc") == 100
    assert actions(12 * SMALL).count("alloc") == 200


def test_deep_stacks():
    def deep(n):
        return fb.ones(SMALL + 23) if n == 0 else deep(n - 1)

    begin()
    limit = sys.getrecursionlimit()
    depth = limit - 200
    assert deep(depth).numel() == SMALL + 23
    (row,) = [e for e in trace() if e["size"] == 4 * SMALL + 92 and e["action"] == "alloc"]
    assert names(row).count("deep") == depth + 1


def test_code_is_released_with_the_history():
    scope = {"fb": fb}
    exec("def made_once():\n    return fb.ones(33)", scope)
    code = scope["made_once"].__code__
    before = sys.getrefcount(code)
    begin()
    for _ in range(10):
        scope["made_once"]()
    assert sys.getrefcount(code) in (before + 1, before + 2), "one a place in the code, not one a call"
    memory._record_memory_history(None, clear_history=True)
    assert sys.getrefcount(code) == before


def test_code_that_no_action_tells_of_is_released():
    def template():
        return fb.ones(34)

    begin(max_entries=10)
    codes = []
    for line in range(1, 60_001):
        code = template.__code__.replace(co_firstlineno=line)
        codes.append(weakref.ref(code))
        types.FunctionType(code, globals())()
    assert sum(code() is not None for code in codes) < 40_000
    rows = [e for e in trace() if e["action"] != "snapshot"]
    assert len(rows) >= 9 and all(names(e)[0] == "template" for e in rows if e["action"] == "alloc")
    assert rows[-1]["frames"][0]["name"] == "test_code_that_no_action_tells_of_is_released"


def test_releases_of_code_run_finalizers_that_allocate():
    def template():
        return fb.ones(34)

    done = []
    begin(max_entries=10)
    for line in range(1, 40_001):
        code = template.__code__.replace(co_firstlineno=line)
        weakref.finalize(code, lambda: done.append(fb.ones(36).numel()))
        types.FunctionType(code, globals())()
    del code
    memory._record_memory_history(None, clear_history=True)
    assert len(done) == 40_000


def test_recording_again_keeps_what_is_in_use():
    begin()
    x = fb.ones(SMALL + 15)
    memory._record_memory_history(context="alloc")
    memory._record_memory_history(clear_history=True)
    (block,) = in_use(memory._snapshot(), 4 * SMALL + 60)
    assert block["frames"][0]["name"] == "test_recording_again_keeps_what_is_in_use"
    assert block["address"] == x.data_ptr()


def run(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_threads_of_one_operator_do_not_wait_for_python():
    program = """
    import flambeau as fb
    fb.set_num_threads(4)
    fb.cpu.memory._record_memory_history()
    a, b = fb.ones(400, 400), fb.ones(8, 16, 60, 60)
    for _ in range(5):
        (a @ a).softmax(1).sort()
        fb.nn.functional.conv2d(b, fb.ones(16, 16, 3, 3))
        fb.nn.functional.scaled_dot_product_attention(*[fb.ones(4, 8, 64, 32)] * 3)
    print(len(fb.cpu.memory._snapshot()["device_traces"][0]) > 30)
    """
    assert run(program).strip() == "True"


def test_a_child_of_a_fork_continues():
    program = """
    import os, threading
    import flambeau as fb
    fb.cpu.memory._record_memory_history(max_entries=1000)
    fb.cpu.memory._snapshot()  # imports what children need
    on = [True]
    def work():
        while on: fb.ones(999)
    threads = [threading.Thread(target=work) for _ in range(2)]
    [t.start() for t in threads]
    for n in range(20):
        child = os.fork()
        if child == 0:
            x = fb.ones(12345)
            rows = fb.cpu.memory._snapshot()["device_traces"][0]
            found = [e for e in rows if e["size"] == 4 * 12345]
            os._exit(0 if len(found) == 1 and found[0]["thread"] == os.getpid() else 1)
        assert os.waitpid(child, 0)[1] == 0, n
    on.clear()
    [t.join() for t in threads]
    """
    run(program)


def test_a_program_ends_while_it_records():
    program = """
    import threading
    import flambeau as fb
    fb.cpu.memory._record_memory_history()
    def work():
        while True: fb.ones(300_000).exp()
    [threading.Thread(target=work, daemon=True).start() for _ in range(3)]
    kept = [fb.ones(100_000) for _ in range(50)]
    class Late:
        def __del__(self): fb.ones(10)
    late = Late(); late.self = late
    """
    for _ in range(3):
        run(program)


# --- counts ----------------------------------------------------------------------------------------------


def test_counts():
    before = memory.memory_allocated()
    x = fb.ones(LARGE)
    assert memory.memory_allocated("cpu") - before == 4 * LARGE
    assert memory.memory_allocated(fb.device("cpu")) == memory.memory_stats()["allocated_bytes"]
    assert memory.max_memory_allocated() >= before + 4 * LARGE
    del x
    memory.reset_peak_memory_stats()
    assert memory.max_memory_allocated() == memory.memory_allocated()
    assert memory.memory_reserved() >= 4 * LARGE + memory.memory_allocated()
    for function in (memory.memory_allocated, memory.memory_stats, memory.reset_peak_memory_stats):
        with pytest.raises(ValueError, match=f"{function.__name__}: expected device 'cpu', got 'cuda'"):
            function("cuda")
