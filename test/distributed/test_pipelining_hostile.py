"""Pipelines: arguments that are refused, batches and modules of all kinds, and schedules of one process."""

import copy

import flambeau as fb
import pytest
from flambeau import distributed as dist
from flambeau.distributed import pipelining
from flambeau.distributed.pipelining import schedules
from flambeau.nn import functional as F

CPU = fb.device("cpu")
MULTI = ("LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")


@pytest.fixture(autouse=True)
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def stage_of(module=None, index=0, count=1, **options):
    return pipelining.PipelineStage(
        fb.nn.Linear(3, 3) if module is None else module, index, count, CPU, **options
    )


def schedule_of(*modules, name=None, n=2, loss_fn=F.mse_loss, **options):
    """A schedule of modules on one rank."""
    stages = [stage_of(module, i, len(modules)) for i, module in enumerate(modules)]
    kind = schedules.get_schedule_class(name or ("GPipe" if len(modules) == 1 else "LoopedBFS"))
    return kind(
        stages if issubclass(kind, schedules.PipelineScheduleMulti) else stages[0], n, loss_fn, **options
    )


def batch(rows=4, width=3):
    return fb.randn(rows, width), fb.randn(rows, width)


def grads(module):
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


def equal(first, second):
    return all(a is b or bool((a == b).all()) for a, b in zip(first, second, strict=True))


def reference(modules, x, y, n, order=None, loss_fn=F.mse_loss, scale=True):
    """Gradients of copies of some modules, accumulated over micro-batches."""
    whole = fb.nn.Sequential(*copy.deepcopy(modules))
    whole.zero_grad()
    pieces = list(zip(x.tensor_split(n), y.tensor_split(n), strict=True))
    for m in order or range(n):
        loss_fn(whole(pieces[m][0]), pieces[m][1]).backward()
    found = grads(whole)
    return [None if g is None else g / n if scale else g for g in found]


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("index", "count"), [(1, 1), (-1, 2), (5, 3), (0, 0)])
def test_a_stage_that_does_not_exist(index, count):
    with pytest.raises(ValueError, match="PipelineStage: expected a stage_index from 0"):
        stage_of(None, index, count)


def test_a_stage_of_what_is_no_module():
    with pytest.raises(TypeError, match="expected a Module as submodule, got function"):
        stage_of(lambda x: x)
    with pytest.raises(ValueError, match="expected get_mesh=None"):
        stage_of(get_mesh=lambda: None)


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
        with pytest.raises(TypeError, match="stage 0, micro-batch 0: expected a plain tensor, or a"):
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


# --- what is computed --------------------------------------------------------------------------------------


def test_steps_accumulate_gradients_of_their_own_scale():
    """PyTorch divides the gradients of earlier steps again."""
    layer = fb.nn.Linear(3, 3)
    schedule = schedule_of(layer, n=4)
    x, y = batch(8)
    one = reference([layer], x, y, 4)
    schedule.step(x, target=y)
    assert equal(grads(layer), one)
    schedule.step(x, target=y)
    schedule.step(x, target=y)
    assert equal(grads(layer), [g + g + g for g in one])
    layer.zero_grad()
    schedule_of(layer, n=4, scale_grads=False).step(x, target=y)
    assert equal(grads(layer), reference([layer], x, y, 4, scale=False))


@pytest.mark.parametrize("rows", [2, 3, 5, 7])
def test_uneven_batches(rows):
    layer = fb.nn.Linear(3, 3)
    x, y = batch(rows)
    losses = []
    out = schedule_of(layer, n=2).step(x, target=y, losses=losses)
    assert out.shape == (rows, 3) and len(losses) == 2
    assert equal(grads(layer), reference([layer], x, y, 2))


def test_losses_outputs_and_loss_kwargs():
    layer = fb.nn.Linear(3, 3)
    x, y = batch()
    losses = ["old", "values", "here"]
    schedule = schedule_of(layer)
    assert schedule.step(x, target=y, losses=losses, return_outputs=False) is None
    assert [loss.item() for loss in losses] == [
        F.mse_loss(layer(a), b).item() for a, b in zip(x.chunk(2), y.chunk(2), strict=True)
    ]
    schedule.step(x, target=y, losses=losses, loss_kwargs={"reduction": "sum"})
    assert losses[0].item() == F.mse_loss(layer(x[:2]), y[:2], reduction="sum").item()
    out = schedule.eval(x, target=y, losses=losses)
    assert len(losses) == 2 and not out.requires_grad and equal([out], [fb.cat([layer(x[:2]), layer(x[2:])])])
    assert schedule.eval(x).shape == (4, 3)


def test_without_a_loss_fn_there_are_only_forward_passes():
    layer = fb.nn.Linear(3, 3)
    x, y = batch()
    schedule = schedule_of(layer, loss_fn=None)
    assert fb.allclose(schedule.step(x, target=y), layer(x)) and layer.weight.grad is None
    with fb.no_grad():
        assert schedule.step(x).shape == (4, 3)


def test_gradients_of_the_arguments():
    x, y = batch()
    for name in (None, "InterleavedZeroBubble", "ZBVZeroBubble"):
        given = x.clone().requires_grad_()
        layers = [fb.nn.Linear(3, 3), fb.nn.Linear(3, 3)]
        schedule_of(*layers, name=name, scale_grads=False).step(given, target=y)
        twin = x.clone().requires_grad_()
        for a, b in zip(twin.chunk(2), y.chunk(2), strict=True):
            F.mse_loss(fb.nn.Sequential(*layers)(a), b).backward()
        assert equal([given.grad], [twin.grad])


@pytest.mark.parametrize("name", MULTI)
def test_modules_without_parameters_frozen_ones_and_shared_uses(name):
    class Twice(fb.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = fb.nn.Linear(3, 3), fb.nn.Parameter(fb.ones(3))

        def forward(self, x):
            return self.layer(fb.tanh(self.layer(x))) * self.scale + self.scale

    frozen = fb.nn.Linear(3, 3).requires_grad_(False)
    half = fb.nn.Linear(3, 3)
    half.bias.requires_grad_(False)
    x, y = batch(8)
    for modules in (
        [fb.nn.Tanh(), fb.nn.Linear(3, 3)],  # nothing to train in front
        [fb.nn.Linear(3, 3), fb.nn.Identity()],
        [frozen, fb.nn.Linear(3, 3)],
        [fb.nn.Linear(3, 3), frozen],
        [half, Twice()],
        [Twice(), Twice()],
        [fb.nn.Sequential(fb.nn.LayerNorm(3), fb.nn.Linear(3, 3), fb.nn.ReLU()), fb.nn.LayerNorm(3)],
    ):
        order = range(3, -1, -1) if name == "LoopedBFS" else range(4)
        wanted = reference(modules, x, y, 4, order)
        for module in modules:
            module.zero_grad()
        schedule_of(*modules, name=name, n=4).step(x, target=y)
        assert equal([g for module in modules for g in grads(module)], wanted)


def test_parameters_that_no_micro_batch_uses_have_no_gradient():
    class Unused(fb.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = fb.nn.Linear(3, 3), fb.nn.Linear(3, 3)

        def forward(self, x):
            return self.used(x), self.unused(x)

    class First(fb.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = fb.nn.Linear(3, 3)

        def forward(self, x, other):
            return self.layer(x)

    x, y = batch()
    for name in MULTI:
        modules = [Unused(), First()]
        schedule_of(*modules, name=name).step(x, target=y)
        assert [g is None for g in grads(modules[0])] == [False, False, True, True]
        assert all(g is not None for g in grads(modules[1]))


def test_a_stage_in_two_schedules_and_steps_between_evals():
    layers = [fb.nn.Linear(3, 3), fb.nn.Linear(3, 3)]
    stages = [stage_of(layer, i, 2) for i, layer in enumerate(layers)]
    first = schedules.ScheduleInterleaved1F1B(stages, 2, F.mse_loss)
    second = schedules.ScheduleZBVZeroBubble(stages, 4, F.mse_loss)
    x, y = batch(8)
    for schedule, n in ((first, 2), (second, 4), (first, 2)):
        for layer in layers:
            layer.zero_grad()
        schedule.step(x, target=y)
        schedule.eval(x)
        assert equal([g for layer in layers for g in grads(layer)], reference(layers, x, y, n))


def test_chunk_and_merge_specifications_and_keyword_arguments():
    class Module(fb.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = fb.nn.Linear(3, 3)

        def forward(self, x, mask, scale=1.0):
            return (self.layer(x.transpose(0, 1)) * mask * scale).transpose(0, 1)

    spec = pipelining.microbatch.TensorChunkSpec
    module = Module()
    x, mask = fb.randn(5, 4, 3), fb.rand(4, 1, 3)
    schedule = schedule_of(
        module,
        loss_fn=lambda out, target: F.mse_loss(out, target.transpose(0, 1)),
        args_chunk_spec=(spec(1),),
        kwargs_chunk_spec={"mask": spec(0), "scale": None},
        output_merge_spec=spec(1),
    )
    out = schedule.step(x, target=fb.zeros(4, 5, 3), mask=mask, scale=2.0)
    assert fb.allclose(out, module(x, mask, 2.0))
    with pytest.raises(ValueError, match="expected 1 specifications, one per value"):
        schedule_of(module, args_chunk_spec=(spec(1), spec(0))).step(x, target=x, mask=mask)
    with pytest.raises(ValueError, match=r"expected specifications of \['mask'\], got \['other'\]"):
        schedule_of(module, kwargs_chunk_spec={"other": spec(0)}).step(x, target=x, mask=mask)
    with pytest.raises(TypeError, match="Expected TensorChunkSpec, got int"):
        schedule_of(module, args_chunk_spec=(0,)).step(x, target=x, mask=mask)
    swapped = schedule_of(
        module,
        loss_fn=lambda out, target: out.sum(),
        args_chunk_spec=(spec(1),),
        kwargs_chunk_spec={"scale": None, "mask": spec(0)},
        output_merge_spec=spec(1),
    )
    assert fb.allclose(swapped.step(x, target=fb.zeros(4), mask=mask, scale=2.0), module(x, mask, 2.0))


@pytest.mark.parametrize("name", MULTI)
def test_a_builder_of_weight_gradients(name):
    """The module's backward leaves out gradients of weights, which the function of dw_builder adds."""
    waiting = []

    class Deferred(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            waiting.append((x.detach(), grad))
            return grad @ weight.t(), None

    class Module(fb.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = fb.nn.Parameter(fb.randn(3, 3))

        def forward(self, x):
            return Deferred.apply(x, self.weight)

    module, first, last = Module(), fb.nn.Linear(3, 3), fb.nn.Linear(3, 3)

    def builder():
        x, grad = waiting.pop()

        def add():
            found = x.t() @ grad
            module.weight.grad = found if module.weight.grad is None else module.weight.grad + found

        return add

    x, y = batch(8)
    plain = fb.nn.Linear(3, 3, bias=False)
    with fb.no_grad():
        plain.weight.copy_(module.weight.t())
    modules = [fb.nn.Sequential(first, plain), last]
    order = range(3, -1, -1) if name == "LoopedBFS" else range(4)
    wanted = reference(modules, x, y, 4, order)
    stages = [
        stage_of(fb.nn.Sequential(first, module), 0, 2, dw_builder=builder),
        stage_of(last, 1, 2),
    ]
    schedules.get_schedule_class(name)(stages, 4, F.mse_loss).step(x, target=y)
    assert not waiting
    assert fb.allclose(module.weight.grad.t(), wanted[2], atol=1e-6)
    assert equal(grads(first) + grads(last), [*wanted[:2], *wanted[3:]])


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
    assert "0REDUCE_GRAD" in path.read_text()
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
