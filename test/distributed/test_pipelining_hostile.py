"""Pipelines of one process: arguments, modules and loss functions that are refused."""

import flambeau as fb
import pytest
from distributed.one_process_pipelines import (
    alone_in_a_group,
    batch,
    equal,
    grads,
    reference,
    schedule_of,
    stage_of,
)
from flambeau.distributed.pipelining import schedules
from flambeau.nn import functional as F

pytestmark = pytest.mark.usefixtures(alone_in_a_group.__name__)


@pytest.mark.parametrize(("index", "count"), [(1, 1), (-1, 2), (5, 3), (0, 0)])
def test_a_stage_that_does_not_exist(index, count):
    with pytest.raises(ValueError, match="PipelineStage: expected a stage_index from 0"):
        stage_of(None, index, count)


def test_a_stage_of_what_is_no_module():
    with pytest.raises(TypeError, match="expected a Module as submodule, got function"):
        stage_of(lambda x: x)
    with pytest.raises(TypeError, match="expected a callable get_mesh, got 3"):
        stage_of(get_mesh=3)


one, bfs = schedules.ScheduleGPipe, schedules.ScheduleLoopedBFS
zbv, dual = schedules.ScheduleZBVZeroBubble, schedules.ScheduleDualPipeV


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: schedules.ScheduleGPipe(fb.nn.Linear(2, 2), 2),
            TypeError,
            "expected a PipelineStage, got Linear",
        ),
        (
            lambda: schedules.ScheduleGPipe(stage_of(), 0),
            ValueError,
            "expected a positive n_microbatches, got 0",
        ),
        (lambda: one(stage_of(), 2.0), ValueError, "expected a positive n_microbatches"),
        (
            lambda: schedules.ScheduleGPipe(stage_of(), 2, 3),
            TypeError,
            "expected a callable loss_fn, got int",
        ),
        (
            lambda: schedules.ScheduleGPipe(stage_of(None, 0, 2), 2),
            ValueError,
            "expected 2 stages on 1 ranks",
        ),
        (lambda: bfs([], 2), TypeError, "expected a list of stages"),
        (lambda: bfs(stage_of(), 2), TypeError, "expected a list of stages"),
        (
            lambda: zbv([stage_of()], 2),
            ValueError,
            "requires exactly 2 stages per rank",
        ),
        (
            lambda: dual([stage_of()], 2),
            ValueError,
            "requires exactly 2 stages per rank",
        ),
        (
            lambda: dual([stage_of(None, 0, 2), stage_of(None, 1, 2)], 1),
            ValueError,
            "requires at least as many microbatches as stages: expected 2 microbatches, got 1",
        ),
        (
            lambda: bfs([stage_of(None, 0, 2), stage_of(None, 0, 2)], 2),
            ValueError,
            r"expected the stages \[0, 1\] on rank 0, got \[0, 0\]",
        ),
        (
            lambda: bfs([stage_of(None, 0, 2), stage_of(None, 1, 3)], 2),
            ValueError,
            "expected stages of one group and one num_stages",
        ),
        (
            lambda: bfs([stage_of()], 2, backward_requires_autograd=False),
            ValueError,
            "expected backward_requires_autograd=True",
        ),
    ],
)
def test_schedules_that_do_not_fit_together(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_calls_that_are_refused_leave_the_schedule_usable():
    layer = fb.nn.Linear(3, 3)
    schedule = schedule_of(layer, n=3)
    x, y = batch(6)
    for call, error, words in (
        (lambda: schedule.step(x), ValueError, "expected a target on the rank with the last stage"),
        (lambda: schedule.step(x[:2], target=y[:2]), ValueError, "a batch with at least 3 elements"),
        (lambda: schedule.step(x, target=y[:1]), ValueError, "a batch with at least 3 elements"),
        (lambda: schedule.step(x[:0], target=y), ValueError, "expected a batch with elements"),
        (lambda: schedule.step(fb.tensor(1.0), target=y), IndexError, "Dimension out of range"),
        (lambda: schedule.step(x, target=y, losses=3), TypeError, "losses must be a list but got a"),
        (
            lambda: schedule.step(x, x, target=y),
            RuntimeError,
            "stage 0, micro-batch 0: failed to run",
        ),
        (
            lambda: schedule.step(x[:, :2], target=y),
            RuntimeError,
            "stage 0, micro-batch 0: failed to run",
        ),
        (lambda: schedule.step(x, target=y, loss_kwargs={"no": 1}), TypeError, "no"),
    ):
        with pytest.raises(error, match=words):
            call()
    with fb.no_grad(), pytest.raises(RuntimeError, match="step.. requires gradients to be enabled"):
        schedule.step(x, target=y)
    layer.zero_grad()
    schedule.step(x, target=y)
    assert equal(grads(layer), reference([layer], x, y, 3))


def test_a_step_that_fails_leaves_earlier_gradients():
    layers = [fb.nn.Linear(3, 3), fb.nn.Linear(3, 3)]
    x, y = batch()
    schedule_of(*layers).step(x, target=y)
    before = [g for layer in layers for g in grads(layer)]
    losses = iter([F.mse_loss])
    with pytest.raises(StopIteration):
        schedule_of(*layers, name="Interleaved1F1B", loss_fn=lambda a, b: next(losses)(a, b)).step(
            x, target=y
        )
    assert equal([g for layer in layers for g in grads(layer)], before)


@pytest.mark.parametrize(
    ("loss_fn", "words"),
    [
        (
            lambda out, target: out - target,
            "a loss_fn that returns a tensor with one element, got shape",
        ),
        (lambda out, target: None, "a loss_fn that returns a tensor with one element, got NoneType"),
        (lambda out, target: 1.0, "a loss_fn that returns a tensor with one element, got float"),
        (lambda out, target: (out - target).detach().sum(), "a loss that requires a gradient"),
    ],
)
def test_a_wrong_loss_fn_names_stage_and_micro_batch(loss_fn, words):
    x, y = batch()
    with pytest.raises(RuntimeError, match=f"stage 1, micro-batch 0: expected {words}"):
        schedule_of(fb.nn.Linear(3, 3), fb.nn.Linear(3, 3), name="LoopedBFS", n=1, loss_fn=loss_fn).step(
            x, target=y
        )


def test_an_error_in_loss_fn_keeps_its_type_and_has_a_note():
    def broken(out, target):
        raise ZeroDivisionError("broken")

    x, y = batch()
    with pytest.raises(ZeroDivisionError) as caught:
        schedule_of(fb.nn.Linear(3, 3), loss_fn=broken).step(x, target=y)
    assert "in loss_fn for stage 0, micro-batch 0" in caught.value.__notes__


def test_errors_in_forward_and_backward_name_stage_and_micro_batch():
    class Fails(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("no gradient")

    class Module(fb.nn.Module):
        calls = 0

        def forward(self, x):
            Module.calls += 1
            if Module.calls == 2:
                raise KeyError("no value")
            return Fails.apply(x)

    x, y = batch()
    for name, fails in (("LoopedBFS", "backward"), ("InterleavedZeroBubble", "backward")):
        Module.calls = 0
        with pytest.raises(
            RuntimeError, match="stage 1, micro-batch 1: failed to run forward: KeyError: 'no"
        ):
            schedule_of(fb.nn.Linear(3, 3), Module(), name="LoopedBFS").step(x, target=y)
        Module.calls = 2
        with pytest.raises(RuntimeError, match=rf"stage 1, micro-batch \d: failed to run {fails}: KeyError"):
            schedule_of(fb.nn.Linear(3, 3), Module(), name=name).step(x, target=y)


def test_what_a_stage_that_another_follows_may_return():
    class Returns(fb.nn.Module):
        def __init__(self, make):
            super().__init__()
            self.make = make

        def forward(self, x):
            return self.make(x)

    x, y = batch()
    for make in (lambda x: {"a": x}, lambda x: 3, lambda x: (x, [x])):
        with pytest.raises(
            TypeError, match="stage 0, micro-batch 0: expected a plain tensor or a DTensor, or a"
        ):
            schedule_of(Returns(make), fb.nn.Linear(3, 3)).step(x, target=y)
    layer = fb.nn.Linear(3, 3)
    takes = Returns(lambda x: x)
    takes.forward = lambda x, none, y: layer(x) + y
    takes.layer = layer
    out = schedule_of(Returns(lambda x: [x * 2, None, x]), takes).step(x, target=y)
    assert fb.allclose(out, layer(x * 2) + x, atol=1e-6)
    # the last stage may return anything that loss_fn takes
    last = Returns(lambda x: {"logits": x, "name": "one"})
    out = schedule_of(layer, last, loss_fn=lambda out, y: F.mse_loss(out["logits"], y)).step(x, target=y)
    assert sorted(out) == ["logits", "name"] and out["name"] == "one" and out["logits"].shape == (4, 3)


def test_arguments_and_results_are_compared_with_those_of_the_constructor():
    x, y = batch()
    like = x[:2]
    kept = {"input_args": like, "output_args": (like,)}
    schedules.ScheduleGPipe(stage_of(**kept), 2, F.mse_loss).step(x, target=y)
    for wrong, words in (
        ({"input_args": x}, "expected arguments like"),
        ({"output_args": (like, like)}, "expected results like"),
        ({"output_args": like.double()}, "expected results like"),
        ({"input_args": (like.int(),)}, "expected arguments like"),
    ):
        with pytest.raises(RuntimeError, match=f"stage 0, micro-batch 0: {words}"):
            schedules.ScheduleGPipe(stage_of(**wrong), 2, F.mse_loss).step(x, target=y)
    stages = [stage_of(None, 0, 2, output_grads=like), stage_of(None, 1, 2, input_grads=like)]
    schedules.ScheduleLoopedBFS(stages, 2, F.mse_loss).step(x, target=y)
    stages = [stage_of(None, 0, 2, output_grads=x), stage_of(None, 1, 2)]
    with pytest.raises(
        RuntimeError, match=r"stage 0, micro-batch \d: expected gradients of the results like"
    ):
        schedules.ScheduleLoopedBFS(stages, 2, F.mse_loss).step(x, target=y)


# --- tables of files ---------------------------------------------------------------------------------------


def test_a_table_of_a_file(tmp_path):
    layers = [fb.nn.Linear(3, 3), fb.nn.Linear(3, 3)]
    stages = [stage_of(layer, i, 2) for i, layer in enumerate(layers)]
    schedule = schedules._PipelineScheduleRuntime(stages, 2, F.mse_loss)
    x, y = batch()
    for call in (schedule.step, schedule.eval):
        with pytest.raises(RuntimeError, match="expected a table of `_load_csv`, got none"):
            call(x, target=y)
    path = tmp_path / "table.csv"
    path.write_text("0F0,0F1,1F1,1I1,,1F0,1B0,0I1,0B0,1W1,0W1\n")
    schedule._load_csv(str(path))
    schedule.step(x, target=y)
    assert equal([g for layer in layers for g in grads(layer)][2:], reference(layers, x, y, 2, [0, 1])[2:])
    for kind in ("compute_only", "compute_comms"):
        schedule._dump_csv(str(path), kind)
        schedule._load_csv(str(path), kind)
        schedule.step(x, target=y)
    reductions = []
    stages[0].gradients.reduce = lambda: reductions.append(0)
    stages[1].gradients.reduce = lambda: reductions.append(1)
    schedule.step(x, target=y)
    assert "0REDUCE_GRAD" in path.read_text() and sorted(reductions) == [0, 1]
    path.write_text(path.read_text().replace(",0REDUCE_GRAD", ""))
    schedule._load_csv(str(path), "compute_comms")
    schedule.step(x, target=y)
    assert sorted(reductions) == [0, 0, 1, 1]
    for text, words in (
        ("0F0,0F1,1F1,1B1,1F0,1B0,0B1\n", "stage 0 and micro-batch 0"),
        ("0F0\n1F0\n", "expected 1 rows, got 2"),
        ("0B0,0F0,0F1,1F1,1B1,1F0,1B0,0B1\n", "deadlock"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            schedule._load_csv(str(path))
    path.write_text("0F0,hello\n")
    with pytest.raises(RuntimeError, match="Invalid action string: hello"):
        schedule._load_csv(str(path))
    with pytest.raises(ValueError, match="expected format compute_only or compute_comms"):
        schedule._load_csv(str(path), "other")
    schedule.step(x, target=y)  # the table before is still there
