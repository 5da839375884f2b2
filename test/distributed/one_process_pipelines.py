"""Stages and schedules of one process, and the gradients that they must give."""

import copy

import flambeau as fb
import pytest
from flambeau import distributed as dist
from flambeau.distributed import pipelining
from flambeau.distributed.pipelining import schedules
from flambeau.nn import functional as F

CPU = fb.device("cpu")
MULTI = ("LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")


@pytest.fixture
def alone_in_a_group():
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
