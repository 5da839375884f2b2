"""Processes that die, leave or come late; operations that run out of time; forks; threads; signals."""

import signal
import time

import pytest
from distributed.ranks import Job, left_behind, run

WAITING = """
dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=30))
x = fw.ones(1000)
dist.all_reduce(x)
touch(f"ready-{rank}")
began = None
try:
    if rank == VICTIM:
        time.sleep(60)
    OPERATION
    put("no error")
except dist.DistBackendError as error:
    put([str(error), time.time()])
"""
OPERATIONS = {
    "all_reduce": "dist.all_reduce(x)",
    "barrier": "dist.barrier()",
    "recv": "dist.recv(x, VICTIM)",
    "recv of any": "dist.recv(x)",
    "large send": "dist.send(fw.ones(1 << 20), VICTIM)",
    "future": "dist.all_reduce(x, async_op=True).get_future().wait()",
    "many": "[w.wait() for w in [dist.all_reduce(x, async_op=True) for _ in range(10)]]",
    "new group": "dist.new_group([0, 1, 2][:size])",
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_survivors_of_a_killed_rank_raise_within_two_seconds(operation):
    size, victim = (3, 2) if operation == "all_reduce" else (2, 1)
    code = WAITING.replace("OPERATION", OPERATIONS[operation]).replace("VICTIM", str(victim))
    if operation == "new group":
        code = code.replace("dist.DistBackendError", "RuntimeError")
    job = Job(size, code)
    for rank in range(size):
        job.wait_for(f"ready-{rank}")
    time.sleep(0.1)
    killed = time.time()
    job.kill(victim)
    ended = job.ends(20)
    assert ended[victim].status == -signal.SIGKILL
    for rank in range(size):
        if rank != victim:
            assert ended[rank].status == 0, ended[rank].output
            text, when = ended[rank].values
            assert f"rank {victim}, which has died" in text
            assert when - killed < 2
    assert left_behind(job.before) == set()


def test_the_death_of_rank_0_is_noticed():
    job = Job(3, WAITING.replace("OPERATION", "dist.all_reduce(x)").replace("VICTIM", "0"))
    for rank in range(3):
        job.wait_for(f"ready-{rank}")
    killed = time.time()
    job.kill(0)
    for ended in job.ends(20)[1:]:
        assert "rank 0, which has died" in ended.values[0] and ended.values[1] - killed < 2


def test_an_exception_of_one_rank_ends_the_others():
    code = """
dist.init_process_group("gloo")
if rank == 1:
    raise KeyError("mine")
try:
    dist.all_reduce(fw.ones(1))
except dist.DistBackendError as error:
    put(str(error))
"""
    ended = Job(2, code).ends(20)
    assert ended[1].status == 1 and "KeyError: 'mine'" in ended[1].output
    assert "rank 1, which has ended with an error" in ended[0].values


def test_what_was_sent_before_the_end_arrives():
    code = """
dist.init_process_group("gloo")
if rank == 1:
    dist.send(fw.arange(10.0), 0)
else:
    time.sleep(0.7)  # the sender has ended
    x = fw.zeros(10)
    dist.recv(x, 1)
    put(x.tolist())
"""
    assert run(2, code)[0] == list(range(10))


LATE = """
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
soon = datetime.timedelta(milliseconds=200)
group = dist.new_group([0, 1])
found = []
if rank == 0:
    work = dist.all_reduce(fw.ones(2), group=group, async_op=True)
    began = time.time()
    found.append(raised(work.wait, soon))
    found.append(0.15 < time.time() - began < 5)
    found.append([work.is_completed(), work.is_success(), type(work.exception()).__name__])
    found.append(raised(dist.all_reduce, fw.ones(2), group=group))  # the group is broken
short = dist.new_group([0, 1], timeout=soon)
if rank == 0:
    found.append(raised(dist.recv, fw.ones(2), 1, short))
dist.barrier()  # the default group is not
put(found)
"""


def test_time_runs_out():
    first, second = run(2, LATE)
    error, in_time, state, again, received = first
    assert error[0] == "DistBackendError" and "timed out after 200ms" in error[1] and in_time
    assert state == [True, False, "DistBackendError"]
    assert again[0] == "DistBackendError" and received[0] == "DistBackendError" and second == []


BARRIERS = """
dist.init_process_group("gloo")
soon = datetime.timedelta(milliseconds=300)
found = []
dist.monitored_barrier(timeout=datetime.timedelta(seconds=20))
for every in (False, True):
    found.append(raised(dist.monitored_barrier, timeout=soon, wait_all_ranks=every) if rank == 0 else None)
    dist.barrier()
put(found)
"""


def test_a_monitored_barrier_names_who_is_missing():
    first, *_ = run(3, BARRIERS)
    assert "Rank 1 failed to pass monitoredBarrier in 300 ms" in first[0][1]
    assert "Ranks 1, 2 failed to pass monitoredBarrier in 300 ms" in first[1][1]
    assert first[0][0] == "RuntimeError"


def test_a_rank_that_does_not_come_is_an_error():
    code = """
if rank == 1:
    raise SystemExit(3)
put(raised(dist.init_process_group, "gloo", timeout=datetime.timedelta(milliseconds=500)))
"""
    ended = Job(2, code).ends(20)
    assert ended[0].values[0] in ("DistStoreError", "DistNetworkError") and ended[0].status == 0


FORKED = """
dist.init_process_group("gloo")
dist.all_reduce(fw.ones(1))
child = os.fork()
if child == 0:
    error = raised(dist.all_reduce, fw.ones(1))
    os._exit(0 if error and "fork" in error[1] else 1)
status = os.waitpid(child, 0)[1]
dist.barrier()
put(status)
"""


def test_a_forked_child_is_refused_and_its_end_is_no_death():
    assert run(2, FORKED) == [0, 0]


THREADS = """
import threading
dist.init_process_group("gloo")
groups = [dist.new_group([0, 1]) for _ in range(4)]
sums = [0.0] * 4
def work(i):
    for k in range(50):
        x = fw.ones(10) * (i + rank)
        dist.all_reduce(x, group=groups[i])
        sums[i] += x[0].item()
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
put(sums)
"""


def test_threads_use_groups_of_their_own():
    assert run(2, THREADS) == [[50.0 * (2 * i + 1) for i in range(4)]] * 2


INTERRUPTED = """
import signal
dist.init_process_group("gloo")
touch(f"ready-{rank}")
if rank == 0:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    def stop(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, stop)
    began = time.time()
    try:
        dist.recv(fw.ones(2), 1)
    except KeyboardInterrupt:
        put(time.time() - began)
else:
    time.sleep(1.5)
    put(0)
"""


def test_a_signal_interrupts_a_wait():
    assert run(2, INTERRUPTED)[0] < 1.5


def test_more_ranks_than_cores_take_turns():
    code = """
dist.init_process_group("gloo")
x = fw.ones(100)
for _ in range(300):
    dist.all_reduce(x, dist.ReduceOp.MAX)
put(x.sum().item())
"""
    assert run(4, code) == [100.0] * 4
