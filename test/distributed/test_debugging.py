"""TORCH_DISTRIBUTED_DEBUG=DETAIL: mistakes raise on all ranks and name the lines; the flight recorder."""

import functools
import json
import re
import signal
import time

import pytest
from distributed.ranks import Job, run

MISTAKES = """
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
one, two = fw.ones(2), fw.ones(3)

def order():
    if rank == 0:
        dist.all_reduce(one)  # first of order
    else:
        dist.barrier()  # second of order

def shape():
    dist.all_reduce(one if rank == 0 else two)

def same_elements():
    dist.all_reduce(fw.ones(2, 3) if rank == 0 else fw.ones(3, 2))

def dtype():
    dist.broadcast(one if rank == 0 else one.int(), src=0)

def reduction():
    dist.all_reduce(one, dist.ReduceOp.SUM if rank == 0 else dist.ReduceOp.MAX)

def root():
    dist.broadcast(one, src=rank)

def gathered():
    dist.all_gather([fw.ones(1 + rank) for _ in range(size)], fw.ones(1 + rank))

def backward():
    net = fw.nn.parallel.DistributedDataParallel(fw.nn.Linear(2, 2))
    loss = net(fw.ones(1, 2)).sum()
    if rank == 0:
        loss.backward()  # reduces
    else:
        dist.barrier()

found = {}
for case in (order, shape, same_elements, dtype, reduction, root, gathered, backward):
    found[case.__name__] = raised(case)

def right():
    # what ranks may do differently, and all kinds of collectives
    x = fw.full((2,), float(rank))
    dist.all_reduce(x)
    parts = [fw.zeros(1 + r) for r in range(size)]
    dist.all_gather(parts, fw.ones(1 + rank))
    dist.all_gather_into_tensor(fw.zeros(2 * size), fw.ones(2))
    dist.reduce_scatter_tensor(fw.zeros(1), fw.ones(size))
    dist.reduce_scatter(fw.zeros(1), [fw.ones(1)] * size)
    dist.gather(x, [fw.zeros(2) for _ in range(size)] if rank == 0 else None)
    dist.scatter(x, [fw.zeros(2) for _ in range(size)] if rank == 0 else None)
    dist.all_to_all_single(fw.zeros(size), fw.ones(size))
    dist.all_to_all([fw.zeros(1) for _ in range(size)], [fw.ones(1) for _ in range(size)])
    dist.reduce(x, 0)
    dist.all_reduce(x, dist._make_nccl_premul_sum(2.0))
    dist.all_gather_object([None] * size, rank)
    works = [dist.all_reduce(fw.ones(rows), async_op=True) for rows in range(4)]
    [work.wait() for work in works]
    part = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(x, group=part)
        y = fw.ones(1 + rank)
        dist.send(y[:1], 1) if rank == 0 else dist.recv(y[:1], 0)
    with dist._coalescing_manager():
        dist.all_reduce(x)
        dist.all_reduce(x)
    keys = [k for k in dist.group.WORLD.store.list_keys() if "collective/" in k]
    dist.barrier()
    return len(keys)

found["right"] = right()
found["record"] = dist._dump_flight_record(str(folder / f"record-{rank}"))
found["file"] = json.loads((folder / f"record-{rank}").read_text()) == found["record"]
put(found)
"""


@functools.cache
def values(size: int) -> list:
    return run(size, MISTAKES, TORCH_DISTRIBUTED_DEBUG="DETAIL")


LINES = {
    "order": (r"all_reduce\(float32\[2\], op=SUM\)", r"barrier\(\)"),
    "shape": (r"all_reduce\(float32\[2\], op=SUM\)", r"all_reduce\(float32\[3\], op=SUM\)"),
    "same_elements": (r"all_reduce\(float32\[2, 3\], op=SUM\)", r"all_reduce\(float32\[3, 2\], op=SUM\)"),
    "dtype": (r"broadcast\(float32\[2\], root=0\)", r"broadcast\(int32\[2\], root=0\)"),
    "reduction": (r"all_reduce\(float32\[2\], op=SUM\)", r"all_reduce\(float32\[2\], op=MAX\)"),
    "root": (r"broadcast\(float32\[2\], root=0\)", r"broadcast\(float32\[2\], root=1\)"),
    "gathered": (r"all_gather\(float32\[1\], elements=", r"all_gather\(float32\[2\], elements="),
    "backward": (r"all_reduce\(float32\[6\], op=SUM\)", r"barrier\(\)"),
}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("case", LINES)
def test_a_mistake_names_the_calls_of_all_ranks(case, size):
    texts = set()
    for found in values(size):
        kind, text = found[case]
        assert kind == "RuntimeError", text
        texts.add(text.partition(": ")[2])
        calls = re.findall(r"rank (\d): (.*?) at \S*script\.py:(\d+)", text)
        assert [int(rank) for rank, _, _ in calls] == list(range(size))
        assert re.match(LINES[case][0], calls[0][1])
        assert re.match(LINES[case][1], calls[1][1])
        assert "Detected mismatch between collectives on ranks" in text
    assert len(texts) == 1, "all ranks say the same"


def test_the_named_lines_are_those_of_the_calls():
    job = Job(0, MISTAKES)  # writes the script and runs nothing
    text = job.path("script.py").read_text().splitlines()
    lines = [int(n) for n in re.findall(r"script\.py:(\d+)", values(2)[0]["order"][1])]
    assert ["first of order" in text[lines[0] - 1], "second of order" in text[lines[1] - 1]] == [True, True]
    (first, _) = (int(n) for n in re.findall(r"script\.py:(\d+)", values(2)[0]["backward"][1]))
    assert "loss.backward()" in text[first - 1]


@pytest.mark.parametrize("size", [2, 3])
def test_correct_programs_run_after_mistakes_and_leave_few_keys(size):
    for found in values(size):
        assert found["right"] <= 2 * size + 4, "two numbers of each group"
        assert found["file"] is True


def test_the_record_has_the_operations_in_order():
    record = values(2)[0]["record"]
    assert [entry["place"] for entry in record] == list(range(len(record)))
    first = record[0]
    assert (first["name"], first["shapes"], first["dtypes"]) == ("all_reduce", [[2]], ["float32"])
    assert first["state"] == "failed" and "Detected mismatch" in first["error"]
    assert first["stack"][0]["function"] == "order"
    assert {entry["name"] for entry in record} >= {"send", "barrier", "scatter", "all_to_all_single"}
    assert record[-1]["state"] == "completed"
    of_world = [entry["number"] for entry in record if entry["group"] == first["group"]]
    assert of_world == list(range(1, len(of_world) + 1))


MISSING = """
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=SECONDS))
x = fw.ones(2)
dist.all_reduce(x)  # the last one of all
touch(f"ready-{rank}")
began = time.monotonic()
if rank == 0:
    put([*raised(dist.all_reduce, x), time.monotonic() - began])
else:
    wait_for("done") if "SLEEP" == "yes" else time.sleep(60)
touch("done")
"""


def test_a_missing_rank_is_named_with_its_last_call():
    code = MISSING.replace("SECONDS", "1").replace("SLEEP", "yes")
    kind, text, seconds = run(2, code, TORCH_DISTRIBUTED_DEBUG="DETAIL")[0]
    assert kind == "DistBackendError"
    assert "timed out after 1000ms" in text and 0.9 < seconds < 10
    assert re.search(
        r"nothing in rank 1, whose last one was all_reduce\(float32\[2\], op=SUM\) at \S+:\d+", text
    )


def test_a_killed_rank_is_noticed_while_calls_are_compared():
    job = Job(2, MISSING.replace("SECONDS", "30").replace("SLEEP", "no"), TORCH_DISTRIBUTED_DEBUG="DETAIL")
    for rank in range(2):
        job.wait_for(f"ready-{rank}")
    time.sleep(0.2)
    job.kill(1)
    ended = job.ends(20)
    assert ended[1].status == -signal.SIGKILL
    kind, text, seconds = ended[0].values
    assert kind == "DistBackendError" and "rank 1, which has died" in text and seconds < 5


HANGING = """
import threading
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
x = fw.ones(3)
for _ in range(5):
    dist.all_reduce(x)
if rank == 0:
    thread = threading.Thread(target=dist.barrier)
    thread.start()
    time.sleep(0.3)
    put(dist._dump_flight_record())
    touch("recorded")
    thread.join()
else:
    wait_for("recorded")
    dist.barrier()
    put(dist._dump_flight_record())
"""


def test_the_record_shows_what_hangs():
    first, second = run(2, HANGING, TORCH_FR_BUFFER_SIZE="4")
    assert [(e["name"], e["state"]) for e in first] == [("all_reduce", "completed")] * 3 + [
        ("barrier", "started")
    ]
    assert [e["number"] for e in first] == [3, 4, 5, 6]
    assert second[-1]["state"] == "completed"
    json.dumps(first)


SETTINGS = """
found = [dist._dump_flight_record(), raised(dist.init_process_group, "gloo", store=dist.HashStore(), rank=0,
                                            world_size=1)]
put(found)
"""


def test_without_settings_nothing_is_recorded():
    code = HANGING.replace("put(dist._dump_flight_record())", "put([])", 1)
    assert run(2, code)[1] == []


def test_wrong_sizes_of_the_record_are_errors():
    assert run(1, SETTINGS, TORCH_FR_BUFFER_SIZE="few")[0][1][0] == "ValueError"
    assert run(1, SETTINGS, TORCH_FR_BUFFER_SIZE="-1")[0][1][0] == "ValueError"
    assert run(1, SETTINGS, TORCH_FR_BUFFER_SIZE="0")[0] == [[], None]
