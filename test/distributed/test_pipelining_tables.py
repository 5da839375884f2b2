"""Tables of pipelines: orders as in PyTorch, dependencies, waiting, messages, CSV, and what is refused."""

import importlib
import itertools
import random
from unittest.mock import MagicMock

import pytest
from flambeau.distributed.pipelining import _lowering, _orders, _timeline, schedules
from flambeau.distributed.pipelining._actions import MESSAGES, RECV_B, RECV_F, parts_of
from flambeau.distributed.pipelining.schedules import _Action, _ComputationType, get_schedule_class
from oracle import pytorch

ORDERS = {
    "GPipe": (_orders.gpipe, (1,)),
    "1F1B": (_orders.one_f_one_b, (1,)),
    "LoopedBFS": (_orders.looped_breadth_first, (1, 2, 3)),
    "Interleaved1F1B": (_orders.interleaved, (1, 2, 3)),
    "InterleavedZeroBubble": (_orders.interleaved_zero_bubble, (1, 2, 3)),
    "ZBVZeroBubble": (_orders.zero_bubble_v, (2,)),
    "DualPipeV": (_orders.dual_pipe_v, (2,)),
}


def cases(name, ranks=range(1, 6), numbers=range(1, 13)):
    """Yield ranks, stages per rank, micro-batches, and the orders of all ranks."""
    order, per_rank = ORDERS[name]
    for size, local, n in itertools.product(ranks, per_rank, numbers):
        try:
            yield size, local, n, {rank: order(rank, size, local, n) for rank in range(size)}
        except ValueError:
            yield size, local, n, None


def oracle(module):
    return importlib.import_module(f"{pytorch().__name__}.distributed.pipelining.{module}")


def schedule_of_oracle(name, ranks, local, n, rank=0):
    """PyTorch's schedule for stages without modules."""
    kind, base = oracle("schedules").get_schedule_class(name), oracle("stage")._PipelineStageBase
    count = ranks * local
    v = name in ("ZBVZeroBubble", "DualPipeV")

    def stage(index):
        fake = MagicMock(spec=base, stage_index=index, num_stages=count, group_size=ranks, group_rank=rank)
        fake.is_first, fake.is_last, fake.submod, fake.get_mesh = index == 0, index == count - 1, None, None
        places = {i: min(i, count - 1 - i) if v else i % ranks for i in range(count)}
        fake.stage_index_to_group_rank = places
        return fake

    if local == 1 and name in ("GPipe", "1F1B"):
        return kind(stage(rank), n)
    return kind([stage(i) for i in ([0, count - 1] if v else range(0, count, ranks))], n)


def theirs(name, ranks, local, n):
    """PyTorch's order of each rank; None where it raises ValueError."""
    try:
        if local == 1 and name in ("GPipe", "1F1B"):
            made = [schedule_of_oracle(name, ranks, local, n, rank) for rank in range(ranks)]
            rows = {rank: one._get_pipeline_order()[rank] for rank, one in enumerate(made)}
        else:
            rows = schedule_of_oracle(name, ranks, local, n).pipeline_order
    except ValueError:
        return None
    return {r: [str(a) for a in row if a is not None and "REDUCE" not in str(a)] for r, row in rows.items()}


@pytest.mark.parametrize("name", [name for name in ORDERS if name != "1F1B"])
def test_orders_are_those_of_pytorch(name):
    compared = refused = 0
    for ranks, local, n, orders in cases(name, range(1, 5), range(1, 11)):
        mine = None if orders is None else {r: [str(a) for a in row] for r, row in orders.items()}
        assert mine == theirs(name, ranks, local, n), (ranks, local, n)
        compared += mine is not None
        refused += mine is None
    assert compared >= 20
    assert refused > 0 or name not in ("Interleaved1F1B", "InterleavedZeroBubble", "DualPipeV")


@pytest.mark.parametrize("name", ORDERS)
def test_every_table_is_a_schedule_with_and_without_messages(name):
    checked = 0
    for ranks, local, n, orders in cases(name):
        if orders is None:
            continue
        _timeline.check(orders, ranks * local, n)
        table = _timeline.timed(orders)
        _timeline.check(table, ranks * local, n)
        assert {r: [a for a in row if a is not None] for r, row in table.items()} == orders
        _timeline.check(_lowering.with_messages(table), ranks * local, n)
        forward = _lowering.forward_only(table)
        _timeline.start_times(forward)
        _timeline.start_times(_lowering.with_messages(forward))
        checked += 1
    assert checked > 15


@pytest.mark.parametrize("name", ORDERS)
def test_in_a_timed_table_each_action_comes_after_the_step_of_those_that_it_needs(name):
    for ranks, local, _, orders in cases(name, range(1, 5), range(1, 9)):
        if orders is None:
            continue
        last = ranks * local - 1
        time = {}
        for row in _timeline.timed(orders).values():
            for step, action in enumerate(row):
                for part in parts_of([action]):
                    kind = part.computation_type.value.replace("B", "I")
                    time[part.stage_index, kind, part.microbatch_index] = step
        for (stage, kind, m), step in time.items():
            if kind == "F" and stage:
                assert time[stage - 1, "F", m] < step
            if kind == "I":
                assert time[stage, "F", m] < step
                assert stage == last or time[stage + 1, "I", m] < step
            if kind == "W":
                assert time[stage, "I", m] < step


# With forward, gradients of inputs and of weights of duration 1 per stage. In all: until the last rank ends.
PUBLISHED = {
    "GPipe": lambda p: 3 * (p - 1),  # (p - 1)(t_f + t_b), arXiv:1811.06965
    "1F1B": lambda p: 3 * (p - 1),  # the same, arXiv:2104.04473, 2.2.1
    "LoopedBFS": lambda p: 3 * (p - 1),  # of one of v stages per rank, so 1 / v of it, arXiv:2211.05953
    "Interleaved1F1B": lambda p: 3 * (p - 1),  # the same, arXiv:2104.04473, 2.2.2
    "InterleavedZeroBubble": lambda p: p - 1,  # (p - 1)(t_f + t_b - 2 t_w), arXiv:2401.10241, ZB-H1
    "ZBVZeroBubble": lambda p: p - 1,  # nothing between a rank's actions, which begin one after another
    "DualPipeV": lambda p: 2 * (p - 1),  # (2p/2 - 1)(F&B + B - 3W), arXiv:2412.19437, table 2
}


@pytest.mark.parametrize("name", ORDERS)
def test_ranks_wait_as_long_as_published(name):
    for ranks, local in itertools.product((2, 3, 4, 6), ORDERS[name][1]):
        n = 4 * ranks
        waiting = _timeline.waiting({r: ORDERS[name][0](r, ranks, local, n) for r in range(ranks)})
        assert {whole for whole, _ in waiting.values()} == {PUBLISHED[name](ranks)}
        if name == "ZBVZeroBubble":
            assert {between for _, between in waiting.values()} == {0}


def stored(order):
    """The most micro-batches whose activations a rank keeps at one time."""
    most = now = 0
    for action in parts_of(order):
        kind = action.computation_type.value
        now += {"F": 1, "B": -1, "W": -1}.get(kind, 0)
        most = max(most, now)
    return most


def test_one_f_one_b_keeps_as_many_activations_as_there_are_stages_ahead():
    for ranks in (2, 4, 8):
        kept = [stored(_orders.one_f_one_b(r, ranks, 1, 32)) for r in range(ranks)]
        assert kept == [ranks - r for r in range(ranks)]
        assert [stored(_orders.gpipe(r, ranks, 1, 32)) for r in range(ranks)] == [32] * ranks
        v = [stored(_orders.zero_bubble_v(r, ranks, 2, 32)) for r in range(ranks)]
        assert max(v) <= 2 * ranks  # halves of a stage: as 1F1B, arXiv:2405.15362


def test_receives_are_in_the_order_of_sends_and_one_computation_ahead():
    orders = {r: _orders.one_f_one_b(r, 3, 1, 4) for r in range(3)}
    rows = {r: " ".join(map(str, row)) for r, row in _lowering.with_messages(orders).items()}
    assert rows[0] == (
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0F2 0SEND_F2 0B0 0RECV_B1 0F3 0SEND_F3 0RECV_B2 0B1 0RECV_B3 0B2 "
        "0B3 0REDUCE_GRAD"
    )
    for row in _lowering.with_messages(orders).values():
        for place, action in enumerate(row):
            if action.computation_type in (RECV_F, RECV_B):
                later = [a for a in row[place:] if a.computation_type not in MESSAGES]
                used = next(
                    i
                    for i, a in enumerate(later)
                    if a.microbatch_index == action.microbatch_index
                    and (a.computation_type.value == "F") == (action.computation_type is RECV_F)
                )
                assert used <= 1


def test_receives_follow_a_sender_that_has_another_order():
    """Rank 1 uses micro-batch 1 first, but receives 0 before it."""
    rows = {0: "0F0 0F1 0B1 0B0", 1: "1F1 1B1 1F0 1B0"}
    table = {r: [_Action.from_str(a) for a in row.split()] for r, row in rows.items()}
    low = _lowering.with_messages(table)
    _timeline.check(low, 2, 2)
    assert [str(a) for a in low[1] if a.computation_type is RECV_F] == ["1RECV_F0", "1RECV_F1"]


# --- what the verifier finds -----------------------------------------------------------------------------

WRONG = [
    (["0F0 0B0", "1F0"], "one F, and one B or one I and one W, for stage 1 and micro-batch 0, got 1 F"),
    (["0F0 0B0", "1F0 1B0 1B0"], "for stage 1 and micro-batch 0"),
    (["0F0 0F0 0B0", "1F0 1B0"], "for stage 0 and micro-batch 0"),
    (["0F0 0I0", "1F0 1B0"], "for stage 0 and micro-batch 0"),
    (["0F0 0B0 0W0", "1F0 1B0"], "for stage 0 and micro-batch 0"),
    (["0F0 0B0 0F1 0B1", "1F0 1B0"], "expected micro-batches 0 to 0"),
    (["0B0 0F0", "1F0 1B0"], "deadlock"),
    (["0F0 0W0 0I0", "1F0 1B0"], "deadlock"),
    (["0F0 0B0", "1B0 1F0"], "deadlock"),
    (["0F0 0B0"], "expected actions of the stages 0 to 1, got"),
    (["0F0 0B0", "1F0 1B0 2F0 2B0"], "expected actions of the stages 0 to 1, got"),
    (["0F0 1B0", "1F0 0B0"], "expected stage"),
    (["0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0"], "expected 0RECV_B in the order of 1SEND_B"),
    (["0F0 0SEND_F0 0RECV_B0 0B0", "1F0 1B0 1SEND_B0"], "expected 1RECV_F in the order of 0SEND_F"),
    (["0F0 0SEND_F0 0RECV_B0 0B0", "1F0 1RECV_F0 1B0 1SEND_B0"], "deadlock"),
    (["0F0 0SEND_F0 1RECV_F0 1F0 1B0 1SEND_B0 0RECV_B0 0B0"], "expected no message between stages 0 and 1"),
]


@pytest.mark.parametrize(("rows", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_mistakes_are_found(rows, words):
    table = {r: [_Action.from_str(a) for a in row.split()] for r, row in enumerate(rows)}
    with pytest.raises(ValueError, match="schedule: expected") as caught:
        _timeline.check(table, 2, 1)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ORDERS)
def test_any_action_that_is_lost_doubled_or_changed_is_found(name):
    generator = random.Random(name)
    for ranks, local, n, orders in cases(name, (2, 3), (4, 6)):
        if orders is None:
            continue
        for _ in range(15):
            table = {r: list(row) for r, row in _lowering.with_messages(orders).items()}
            row = table[generator.randrange(ranks)]
            places = [i for i, a in enumerate(row) if a.computation_type.value != "REDUCE_GRAD"]
            place = generator.choice(places)
            kind = generator.choice(("lose", "double", "renumber"))
            if kind == "lose":
                del row[place]
            elif kind == "double":
                row.insert(place, row[place])
            else:
                parts = row[place].sub_actions
                changed = parts[0] if parts else row[place]
                row[place] = changed._replace(microbatch_index=changed.microbatch_index + n)
            with pytest.raises(ValueError, match="schedule: expected"):
                _timeline.check(table, ranks * local, n)


# --- text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORDERS)
def test_csv_keeps_a_table(name, tmp_path):
    _, _, _, orders = next(case for case in cases(name, (3,), (6,)))
    table = _timeline.timed(orders)
    path = str(tmp_path / "table.csv")
    _lowering.write_csv(table, path)
    assert _lowering.read_csv(path) == table


@pytest.mark.parametrize("name", ["LoopedBFS", "Interleaved1F1B", "ZBVZeroBubble", "DualPipeV"])
def test_tables_with_messages_that_pytorch_wrote_are_schedules(name, tmp_path):
    path = str(tmp_path / "table.csv")
    for ranks in (2, 3):
        schedule_of_oracle(name, ranks, 2, 2 * ranks)._dump_csv(path)
        table = _lowering.read_csv(path)
        assert any(a.computation_type in MESSAGES for row in table.values() for a in row)
        _timeline.check(table, 2 * ranks, 2 * ranks)


def test_actions_are_read_and_written_as_pytorch_does():
    other = oracle("schedules")._Action
    texts = "0F0 12B3 2I1 3W10 2REDUCE_GRAD 3UNSHARD 3RESHARD 1RECV_F2 1SEND_B0 (0F3;3B1)OVERLAP_F_B".split()
    for text in texts:
        mine, his = _Action.from_str(text), other.from_str(text)
        assert str(mine) == repr(mine) == text == str(his)
        assert (mine.stage_index, mine.microbatch_index) == (his.stage_index, his.microbatch_index)
        assert mine.computation_type.name == his.computation_type.name
    assert _Action.from_str("") is None and _Action.from_str("  ") is None
    for wrong in ("x", "F0", "0X1", "-1F0", "0F0 1F0", "0F0;"):
        with pytest.raises(RuntimeError, match="Invalid action string"):
            _Action.from_str(wrong)


def test_names_of_schedules_are_those_of_pytorch():
    other = oracle("schedules")
    for name in (*ORDERS, "gpipe", "1f1b", "PipelineScheduleMulti", "pipelineschedulesingle"):
        assert get_schedule_class(name).__name__ == other.get_schedule_class(name).__name__
    for wrong in ("ScheduleGPipe", "", "_PipelineScheduleRuntime"):
        with pytest.raises(ValueError, match="Unknown schedule name"):
            get_schedule_class(wrong)
        with pytest.raises(ValueError, match="Unknown schedule name"):
            other.get_schedule_class(wrong)
    assert {k.name: k.value for k in _ComputationType} == {k.name: k.value for k in other._ComputationType}
    assert set(other.__all__) <= set(dir(schedules))
