"""Simulated steps against closed forms, and invariants of all of them."""

import math
import random

import pytest
from distributed.simulated_steps import FAST, device, layers, node, step
from flambeau.distributed.simulate import Cluster, Device, Link, Plan, preset, simulate_step, transformer
from flambeau.distributed.simulate._engine import Graph, Task
from flambeau.distributed.simulate._simulation import simulated_tasks

# --- pipelines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages, micros", [(2, 2), (4, 4), (4, 16), (8, 3), (8, 24)])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_bubble_of_pipelines(schedule, stages, micros):
    result = step(layers(8), node(stages), pipeline=stages, micro_batches=micros, pipeline_schedule=schedule)
    per_micro = 3.0 * 8 / stages
    assert result.step == pytest.approx((micros + stages - 1) * per_micro)
    assert result.bubble == pytest.approx((stages - 1) / (micros + stages - 1))


@pytest.mark.parametrize("chunks", [2, 4])
@pytest.mark.parametrize("stages, micros", [(2, 4), (4, 8)])
def test_chunks_divide_the_bubble(stages, micros, chunks):
    plan = {"pipeline": stages, "micro_batches": micros}
    many = {"pipeline_schedule": "interleaved", "chunks": chunks}
    whole, parts = step(layers(16), node(stages), **plan), step(layers(16), node(stages), **plan, **many)
    ideal = micros * 3.0 * 16 / stages
    assert parts.step - ideal == pytest.approx((whole.step - ideal) / chunks)


@pytest.mark.parametrize("work", [(1.0, 1.0, 1.0), (2.0, 3.0, 2.0)])
@pytest.mark.parametrize("stages, micros", [(2, 4), (4, 8), (6, 24)])
def test_gradients_of_parameters_fill_the_bubble(stages, micros, work):
    forward, inputs, own = work
    plan = {"pipeline": stages, "micro_batches": micros}
    result = step(layers(stages, work), node(stages), pipeline_schedule="zero_bubble", **plan)
    lost = (stages - 1) * (forward + inputs - own)  # ZB-H1 of Qi et al. 2023
    assert result.step == pytest.approx(micros * sum(work) + lost)


def test_stages_keep_at_most_as_many_micro_batches_as_follow_them():
    stages, micros = 4, 12
    model, plan = layers(4, saved=1.0), {"pipeline": 4, "micro_batches": micros}
    few = step(model, node(stages), **plan)
    assert [rank.memory["activations"] for rank in few.ranks] == [4, 3, 2, 1]
    all_at_once = step(model, node(stages), pipeline_schedule="gpipe", **plan)
    assert [rank.memory["activations"] for rank in all_at_once.ranks] == [micros] * stages
    put_off = step(model, node(stages), pipeline_schedule="zero_bubble", **plan)
    assert max(rank.memory["activations"] for rank in put_off.ranks) == stages


def test_messages_lengthen_the_pipeline():
    stages, micros, cost = 4, 4, 0.25
    link = Link(0.0, 1.0 / cost)
    result = step(
        layers(4, output=1.0), node(stages, link), pipeline=4, micro_batches=micros, pipeline_schedule="gpipe"
    )
    # The first micro-batch passes through all stages, and so does the last one's gradient.
    assert result.step == pytest.approx((micros + stages - 1) * 3.0 + 2 * (stages - 1) * cost)
    sends = [[e for e in rank.events if e.kind == "send" and e.stream] for rank in result.ranks]
    assert [len(found) for found in sends] == [micros, 2 * micros, 2 * micros, micros]


def test_circular_messages_of_chunks_cross_nodes():
    cluster = Cluster(device=device(), nodes=2, per_node=2, inside=Link(0.0, FAST), between=Link(1.0, FAST))
    plan = {"pipeline": 4, "micro_batches": 4, "pipeline_schedule": "interleaved", "chunks": 2}
    result = step(layers(8, output=1.0), cluster, **plan)
    slow = {
        rank.stage: {e.end - e.start for e in rank.events if e.kind == "send" and e.stream}
        for rank in result.ranks
    }
    assert {stage: {round(t) for t in times} for stage, times in slow.items()} == {
        0: {0, 1},
        1: {0, 1},
        2: {0, 1},
        3: {0, 1},
    }


# --- data parallelism ----------------------------------------------------------------------------------


def test_buckets_overlap_with_backward():
    """Each bucket is one layer's gradients: only the last one is not covered by computation."""
    elements = 1 << 20  # 4 MiB, more than the first bucket holds
    ranks, cost = 4, 0.5
    bandwidth = 2 * (ranks - 1) / ranks * 4 * elements / cost
    plan = {"bucket_cap_mb": 4.0}
    result = step(layers(4, elements=elements), node(ranks, Link(0.0, bandwidth)), **plan)
    assert result.step == pytest.approx(12 + cost)
    assert result.exposed == pytest.approx(cost)
    assert result.ranks[0].communication == pytest.approx(4 * cost)
    one = step(layers(4, elements=elements), node(ranks, Link(0.0, bandwidth)), bucket_cap_mb=1024.0)
    assert len(one.ranks[0].collectives()) == 2  # the first bucket has 1 MiB at most
    assert one.step == pytest.approx(12 + 3 * cost)


def test_slow_links_bound_the_step():
    elements, ranks, cost = 1 << 20, 4, 10.0
    bandwidth = 2 * (ranks - 1) / ranks * 4 * elements / cost
    result = step(layers(4, elements=elements), node(ranks, Link(0.0, bandwidth)), bucket_cap_mb=4.0)
    # Forward and the last layer's backward come before the first of four reductions.
    assert result.step == pytest.approx(4 + 2 + 4 * cost)


def test_gathering_is_hidden_except_for_the_first_group():
    elements, ranks, cost = 1 << 10, 4, 0.5
    bandwidth = (ranks - 1) / ranks * 4 * elements / cost
    result = step(layers(4, elements=elements), node(ranks, Link(0.0, bandwidth)), schedule="fsdp")
    # The first gather of each pass and the last reduction run alone. In backward, a reduction and the gather
    # of the group after the next share the link, and computation covers both.
    assert result.step == pytest.approx(12 + 3 * cost)
    assert result.exposed == pytest.approx(3 * cost)
    alone = step(layers(4, elements=elements), node(ranks, Link(0.0, bandwidth)), schedule="fsdp", prefetch=0)
    assert alone.step == pytest.approx(12 + 12 * cost)  # each gather follows a reduction on the link


def test_devices_that_do_not_overlap_expose_all_communication():
    elements, ranks, cost = 1 << 10, 4, 0.5
    bandwidth = (ranks - 1) / ranks * 4 * elements / cost
    link = Link(0.0, bandwidth)
    for schedule, collectives in (("fsdp", 12), ("ddp", 2)):
        result = step(layers(4, elements=elements), node(ranks, link, overlaps=False), schedule=schedule)
        total = sum(e.end - e.start for e in result.ranks[0].events if not e.is_work)
        assert result.step == pytest.approx(12 + total) and result.exposed == pytest.approx(total)
        assert len(result.ranks[0].collectives()) <= collectives


def test_gathers_happen_once_if_parameters_stay():
    counts = {}
    for reshards in (True, False):
        result = step(
            layers(4, elements=8), node(4), schedule="fsdp", reshard_after_forward=reshards, optimizer="adamw"
        )
        counts[reshards] = [kind for kind, _, _ in result.ranks[0].collectives()].count("all_gather")
    assert counts == {True: 8, False: 4}


def test_copies_add_a_reduction_of_parts():
    result = step(layers(2, elements=64), node(8), schedule="fsdp", copies=2)
    found = result.ranks[0].collectives()
    assert found.count(("all_gather", 256.0, 4)) == 4
    assert found.count(("reduce_scatter", 256.0, 4)) == 2
    assert found.count(("all_reduce", 64.0, 2)) == 2
    assert len(found) == 8


def test_sums_over_copies_do_not_overlap():
    """`fully_shard` starts them when the next group is reduced, and waits."""
    result = step(layers(4, elements=1 << 16), node(8, Link(0.0, 1e6)), schedule="fsdp", copies=2)
    events = result.ranks[0].events
    sums = [e for e in events if e.kind == "all_reduce"]
    assert len(sums) == 4
    for e in events:
        assert not e.is_work or all(e.end <= s.start or e.start >= s.end for s in sums)
    assert result.exposed >= sum(s.end - s.start for s in sums) > 0


def test_memory_of_parts():
    """Parameters, gradients and states of Adam are divided; one group's wholes come in addition."""
    elements, ranks = 1 << 16, 8
    model = layers(4, elements=elements)
    whole = step(model, node(ranks), optimizer="adamw")
    parts = step(model, node(ranks), schedule="fsdp", optimizer="adamw")
    nbytes = 4 * 4 * elements
    assert whole.memory_of(3) == {"parameters": nbytes, "gradients": nbytes, "optimizer": 2 * nbytes + 16}
    assert parts.memory_of(3) == {
        "parameters": nbytes // 8,
        "gradients": nbytes // 8,
        "optimizer": nbytes // 4 + 16,
    }
    assert parts.fullest.memory["parameters"] == nbytes // 8
    assert whole.peak > 2 * parts.peak


def test_uneven_parts_count_their_own_elements():
    model = layers(1, elements=10)
    result = step(model, node(4), schedule="fsdp")
    assert [result.memory_of(rank)["parameters"] // 4 for rank in range(4)] == [3, 3, 3, 1]
    # The collective sends equal parts, with padding.
    assert result.ranks[0].collectives()[0] == ("all_gather", 4 * 12.0, 4)
    assert [
        step(layers(1, elements=3), node(8), schedule="fsdp").memory_of(r)["gradients"] for r in (0, 7)
    ] == [4, 0]


def test_repeating_forward_keeps_only_inputs():
    model = layers(4, saved=10.0, output=1.0)
    kept, repeated = step(model, node(1)), step(model, node(1), recompute=True)
    assert repeated.step == pytest.approx(kept.step + 4)
    assert kept.fullest.memory["activations"] == 40
    assert repeated.fullest.memory["activations"] == 4 + 10
    assert repeated.utilisation == pytest.approx(12 / 16)


# --- tensor parallelism --------------------------------------------------------------------------------


def test_tensor_parallelism_adds_two_sums_per_pass_of_a_block():
    sizes = {
        "layers": 3,
        "width": 64,
        "heads": 4,
        "vocabulary": 100,
        "sequence": 16,
        "divide_vocabulary": False,
    }
    model = transformer(compute_dtype=None, **sizes)
    result = step(model, node(4, flops=1e9), tensor=4)
    found = result.ranks[0].collectives()
    assert found == [("all_reduce", 16 * 64 * 4.0, 4)] * (3 * 2 * 2)
    one = step(model, node(1, flops=1e9))
    assert result.ranks[0].busy < one.ranks[0].busy / 2
    divided = sum(layer.parameters for layer in model.layers[1:-1])
    norms = 3 * 2 * 64
    outside = 2 * 100 * 64 + 64
    assert result.memory_of(0)["parameters"] == 4 * ((divided - norms) // 4 + norms + outside)


def test_sequence_parallelism_divides_all_activations():
    model = transformer(layers=2, width=64, heads=4, vocabulary=100, sequence=16, compute_dtype=None)
    usual = step(model, node(4, flops=1e9), tensor=4)
    divided = step(model, node(4, flops=1e9), tensor=4, sequence_parallel=True)
    one = step(model, node(1, flops=1e9))
    assert divided.fullest.memory["activations"] == pytest.approx(one.fullest.memory["activations"] / 4)
    assert usual.fullest.memory["activations"] > divided.fullest.memory["activations"]
    kinds = {kind for kind, _, size in divided.ranks[0].collectives() if size == 4}
    assert kinds == {"reduce_scatter", "all_gather"}


# --- invariants ----------------------------------------------------------------------------------------

MODEL = transformer(layers=8, width=64, heads=8, vocabulary=128, sequence=32)
PLANS = [
    {"schedule": "ddp"},
    {"schedule": "ddp", "micro_batches": 3, "gradient_as_bucket_view": True},
    {"schedule": "ddp", "tensor": 2, "bucket_cap_mb": 0.01},
    {"schedule": "fsdp"},
    {"schedule": "fsdp", "copies": 4, "prefetch": 2},
    {"schedule": "fsdp", "micro_batches": 2, "reduce_each": False, "reduce_dtype": "bfloat16"},
    {"schedule": "fsdp", "tensor": 4, "sequence_parallel": True, "recompute": True},
    {"schedule": "fsdp", "pipeline": 4, "micro_batches": 6, "reshard_after_forward": True},
    {"schedule": "fsdp", "pipeline": 4, "micro_batches": 4, "pipeline_schedule": "interleaved", "chunks": 2},
    {"schedule": "fsdp", "pipeline": 2, "tensor": 2, "micro_batches": 5, "pipeline_schedule": "zero_bubble"},
    {"schedule": "ddp", "pipeline": 2, "tensor": 4, "micro_batches": 5, "pipeline_schedule": "gpipe"},
    {
        "schedule": "fsdp",
        "pipeline": 2,
        "micro_batches": 3,
        "pipeline_schedule": "zero_bubble",
        "reshard_after_forward": True,
        "recompute": True,
    },
]


def checked(result):
    """Assert what holds for each simulated step."""
    for rank in result.ranks:
        assert rank.busy + rank.exposed + rank.idle == pytest.approx(result.step)
        assert min(rank.busy, rank.exposed, rank.idle) >= -1e-12 * result.step
        assert rank.peak == pytest.approx(sum(rank.memory.values()))
        assert all(nbytes >= -1e-6 for nbytes in rank.memory.values())
        streams = {}
        for event in rank.events:
            assert 0 <= event.start <= event.end <= result.step
            for stream in event.stream:
                streams.setdefault(stream, []).append(event)
        for events in streams.values():
            for before, after in zip(events, events[1:], strict=False):
                assert before.end <= after.start, "a stream runs two events at once"
        work = sum(e.end - e.start for e in rank.events if e.is_work)
        assert work == pytest.approx(rank.busy)
    return result


def left_over(tasks):
    """Class of ranks and kind of memory -> bytes that tasks take and do not give back."""
    sums = {}
    for task in tasks:
        for change in task.changes:
            key = change.rank, change.kind
            sums[key] = sums.get(key, 0.0) + change.nbytes
    return sums


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_streams_run_one_event_at_a_time(plan):
    checked(simulate_step(MODEL, preset("h100", 16), Plan(**plan)))


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_activations_and_buffers_are_freed(plan):
    """What a step takes in addition is given back, except gradients: a second peak can't be higher."""
    sums = left_over(simulated_tasks(MODEL, preset("h100", 16), Plan(**plan), {}, True)[0])
    left = {kind for (_, kind), nbytes in sums.items() if abs(nbytes) > 1e-6}
    assert left <= {"gradients"}
    result = simulate_step(MODEL, preset("h100", 16), Plan(**plan))
    if not plan.get("gradient_as_bucket_view"):
        expected = {rank.first: result.memory_of(rank.first)["gradients"] for rank in result.ranks}
        numbers = {index: rank.first for index, rank in enumerate(result.ranks)}
        assert {numbers[r]: n for (r, kind), n in sums.items() if kind == "gradients"} == expected


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_dependencies_end_before_their_use_begins(plan):
    tasks, numbered = simulated_tasks(MODEL, preset("h100", 16), Plan(**plan), {}, True)
    for task in tasks:
        assert all(numbered[other].end <= task.start for other in task.after)


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("slow", [{}, {5: 1.5, 9: 2.0}], ids=["equal", "slow"])
def test_one_rank_of_each_class_stands_for_all(plan, slow):
    cluster = preset("h100", 16)
    few = checked(simulate_step(MODEL, cluster, Plan(**plan), slow=slow))
    each = simulate_step(MODEL, cluster, Plan(**plan), slow=slow, symmetry=False)
    assert len(each.ranks) == 16 and [rank.count for rank in each.ranks] == [1] * 16
    assert len(few.ranks) < 16 or slow
    assert few.step == pytest.approx(each.step, rel=1e-12)
    for rank in each.ranks:
        found = few.ranks[few.classes[rank.first]]
        assert (rank.busy, rank.exposed) == pytest.approx((found.busy, found.exposed))
        # A report has the memory of the lowest rank, whose part is the largest.
        assert found.peak >= rank.peak or rank.peak == pytest.approx(found.peak)
        assert few.memory_of(rank.first) == each.memory_of(rank.first)
        assert [e.kind for e in rank.events if e.is_work] == [e.kind for e in found.events if e.is_work]
        assert sorted(rank.collectives()) == sorted(found.collectives())


def test_groups_that_lie_differently_are_different_classes():
    """Twelve ranks in nodes of eight: groups of four have their links within a node, or partly between."""
    cluster = Cluster(
        device=device(flops=1e12), nodes=3, per_node=6, inside=Link(1e-6, 1e10), between=Link(1e-5, 1e9)
    )
    model = transformer(layers=2, width=64, heads=4, vocabulary=128, sequence=32, compute_dtype=None)
    few = simulate_step(model, cluster, Plan(tensor=2, pipeline=1, schedule="fsdp", copies=3))
    each = simulate_step(model, cluster, Plan(tensor=2, schedule="fsdp", copies=3), symmetry=False)
    assert few.step == pytest.approx(each.step, rel=1e-12)
    assert 1 <= len(few.ranks) < 18
    odd = simulate_step(model, cluster, Plan(tensor=1, pipeline=2, micro_batches=2))
    odd_each = simulate_step(model, cluster, Plan(tensor=1, pipeline=2, micro_batches=2), symmetry=False)
    assert odd.step == pytest.approx(odd_each.step, rel=1e-12)


def test_a_slow_rank_delays_all_that_wait_for_it():
    usual = simulate_step(MODEL, preset("h100", 16), Plan())
    late = simulate_step(MODEL, preset("h100", 16), Plan(), slow={3: 2.0})
    assert late.step > 1.5 * usual.step
    assert {rank.first: rank.count for rank in late.ranks} == {0: 15, 3: 1}
    others, own = late.ranks
    assert others.idle > 0.4 * late.step and own.idle < 0.05 * late.step


@pytest.mark.parametrize("plan", PLANS[:9], ids=str)
def test_faster_links_never_slow_a_step(plan):
    steps = []
    for bandwidth in (1e8, 1e9, 1e10, 1e11, 1e12):
        cluster = Cluster(
            device=device(flops=1e12),
            nodes=2,
            per_node=8,
            inside=Link(1e-6, bandwidth),
            between=Link(1e-5, bandwidth / 8),
        )
        model = transformer(layers=8, width=64, heads=8, vocabulary=128, sequence=32, compute_dtype=None)
        steps.append(simulate_step(model, cluster, Plan(**plan)).step)
    assert steps == sorted(steps, reverse=True) and math.isfinite(steps[0])


def test_tasks_that_wait_for_each_other_are_named():
    graph = Graph()
    for name, other in (("first", "second"), ("second", "first")):
        number = graph.shared(name)
        graph.tasks[number].name = name
        graph.tasks[number].after.append(graph.shared(other))
    graph.add(Task("third", seconds=1.0))
    with pytest.raises(RuntimeError, match="got 2 that never begin: first, second"):
        graph.run()


def test_a_queue_keeps_its_order():
    """A task that could begin waits for those before it in its queue."""
    graph = Graph()
    slow = graph.add(Task("slow", seconds=3.0), [(0, "a")])
    graph.add(Task("waits", seconds=1.0, after=[slow]), [(0, "b")])
    graph.add(Task("free", seconds=1.0), [(0, "b")])
    graph.add(Task("both", seconds=1.0), [(0, "a"), (0, "c")])
    assert [(task.name, task.start) for task in graph.run()] == [
        ("slow", 0.0),
        ("waits", 3.0),
        ("both", 3.0),
        ("free", 4.0),
    ]


def test_work_does_not_grow_with_ranks():
    plan = Plan(schedule="fsdp", tensor=8, pipeline=8, micro_batches=8)
    few, many = (simulate_step(transformer("70b"), preset("h100", ranks), plan) for ranks in (128, 16384))
    assert [rank.count for rank in many.ranks] == [2048] * 8
    assert [len(rank.events) for rank in many.ranks] == [len(rank.events) for rank in few.ranks]


def test_only_divided_layers_have_parts_of_the_operations():
    sizes = {"layers": 2, "width": 64, "heads": 4, "vocabulary": 100, "sequence": 16, "compute_dtype": None}
    busy = {}
    for divides in (True, False):
        model = transformer(divide_vocabulary=divides, **sizes)
        for tensor in (1, 2):
            result = step(model, node(tensor, flops=1e9), tensor=tensor)
            head = [e for e in result.ranks[0].events if e.is_work and e.name.startswith("head")]
            busy[divides, tensor] = sum(e.end - e.start for e in head)
    assert busy[True, 2] == pytest.approx(busy[True, 1] / 2)
    assert busy[False, 2] == pytest.approx(busy[False, 1])


# --- plans at random -----------------------------------------------------------------------------------


def drawn(seed):
    """A model, a cluster and a plan that fits them."""
    draw = random.Random(seed)
    tensor, pipeline, copies = draw.choice((1, 2, 4)), draw.choice((1, 2, 4)), draw.choice((1, 2))
    schedule = draw.choice(("ddp", "fsdp"))
    kind = draw.choice(("gpipe", "1f1b", "zero_bubble", "interleaved")) if pipeline > 1 else "1f1b"
    plan = Plan(
        schedule=schedule,
        tensor=tensor,
        pipeline=pipeline,
        copies=copies if schedule == "fsdp" else 1,
        micro_batch=draw.choice((1, 3)),
        micro_batches=pipeline * draw.choice((1, 2)) if kind == "interleaved" else draw.choice((1, 2, 5)),
        pipeline_schedule=kind,
        chunks=2 if kind == "interleaved" else 1,
        bucket_cap_mb=draw.choice((0.001, 0.1, 25.0)),
        gradient_as_bucket_view=draw.random() < 0.5,
        reshard_after_forward=draw.choice((None, True, False)),
        prefetch=draw.choice((0, 1, 3)),
        reduce_each=draw.choice((None, True, False)),
        reduce_dtype=draw.choice((None, "bfloat16")),
        recompute=draw.random() < 0.5,
        sequence_parallel=tensor > 1 and draw.random() < 0.5,
        optimizer=draw.choice(("sgd", "momentum", "adamw")),
    )
    model = transformer(layers=8, width=48, heads=4, vocabulary=64, sequence=draw.choice((8, 64)))
    cluster = drawn_cluster(draw, tensor * pipeline * copies * draw.choice((1, 2, 3)))
    slow = {draw.randrange(cluster.ranks): 1.5} if draw.random() < 0.5 else {}
    return model, cluster, plan, slow


def drawn_cluster(draw, ranks):
    """Nodes with a multiple of some ranks in all; groups may lie across them in any way."""
    per_node = draw.choice((1, 2, 3, 4, 8))
    fast = Device(
        flops={"float32": 1e11, "bfloat16": 1e12},
        memory=1e9,
        bandwidth=1e11,
        overhead=draw.choice((0.0, 1e-6)),
        overlaps=draw.random() < 0.7,
    )
    inside, between = (Link(draw.choice((0.0, 1e-6)), 10.0 ** draw.randint(8, 11)) for _ in range(2))
    return Cluster(device=fast, nodes=ranks, per_node=per_node, inside=inside, between=between)


@pytest.mark.parametrize("seed", range(25))
def test_invariants_of_plans_at_random(seed):
    model, cluster, plan, slow = drawn(seed)
    result = checked(simulate_step(model, cluster, plan, slow=slow))
    assert sum(rank.count for rank in result.ranks) == cluster.ranks
    assert result.step >= max(rank.busy for rank in result.ranks)
    tasks, numbered = simulated_tasks(model, cluster, plan, slow, True)
    assert all(numbered[other].end <= task.start for task in tasks for other in task.after)
    sums = left_over(tasks)
    assert {kind for (_, kind), nbytes in sums.items() if abs(nbytes) > 1e-6} <= {"gradients"}
    if cluster.ranks <= 24:
        each = simulate_step(model, cluster, plan, slow=slow, symmetry=False)
        assert each.step == pytest.approx(result.step, rel=1e-9)
        assert each.exposed == pytest.approx(result.exposed, rel=1e-6, abs=1e-12)
