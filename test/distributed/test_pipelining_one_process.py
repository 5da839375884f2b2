"""Pipelines of one process: gradients of modules and batches of all kinds."""

import flambeau as fb
import pytest
from distributed.one_process_pipelines import (
    MULTI,
    alone_in_a_group,
    batch,
    equal,
    grads,
    reference,
    schedule_of,
    stage_of,
)
from flambeau.distributed import pipelining
from flambeau.distributed.pipelining import schedules
from flambeau.nn import functional as F

pytestmark = pytest.mark.usefixtures(alone_in_a_group.__name__)


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


WAITING = []  # arguments and gradients of `Deferred`, whose backward leaves out the gradient of the weight


class Deferred(fb.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        WAITING.append((x.detach(), grad))
        return grad @ weight.t(), None


class DeferredLinear(fb.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = fb.nn.Parameter(fb.randn(3, 3))

    def forward(self, x):
        return Deferred.apply(x, self.weight)

    def builder(self):
        x, grad = WAITING.pop()

        def add():
            found = x.t() @ grad
            self.weight.grad = found if self.weight.grad is None else self.weight.grad + found

        return add


@pytest.mark.parametrize("name", MULTI)
def test_a_builder_of_weight_gradients(name):
    module, first, last = DeferredLinear(), fb.nn.Linear(3, 3), fb.nn.Linear(3, 3)
    plain = fb.nn.Linear(3, 3, bias=False)
    with fb.no_grad():
        plain.weight.copy_(module.weight.t())
    x, y = batch(8)
    order = range(3, -1, -1) if name == "LoopedBFS" else range(4)
    wanted = reference([fb.nn.Sequential(first, plain), last], x, y, 4, order)
    front = stage_of(fb.nn.Sequential(first, module), 0, 2, dw_builder=module.builder)
    schedules.get_schedule_class(name)([front, stage_of(last, 1, 2)], 4, F.mse_loss).step(x, target=y)
    assert not WAITING
    assert fb.allclose(module.weight.grad.t(), wanted[2], atol=1e-6)
    assert equal(grads(first) + grads(last), [*wanted[:2], *wanted[3:]])
