"""Simulated steps against those of DistributedDataParallel and fully_shard under a virtual clock.

This process is rank 0 of a group whose other ranks do not exist. Layers and collectives take no real time:
they move a clock, as a device with one stream of computation and one link would. What the wrappers do, in
which order, and what they wait for, is real.
"""

import flambeau
import pytest
from distributed.simulated_steps import device, layers, step
from flambeau import distributed as dist
from flambeau import nn
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.simulate import Cluster, Link

BACKEND = "virtual"


class Clock:
    """Seconds of computation, and when the link is free."""

    def __init__(self, link, size):
        self.now, self.free, self.link, self.size = 0.0, 0.0, link, size

    def transfer(self, passes, nbytes):
        """Start a transfer around a ring after those before it; return when it ends."""
        steps = passes * (self.size - 1)
        seconds = steps * self.link.latency + steps / self.size * nbytes / self.link.bandwidth
        self.free = max(self.free, self.now) + seconds
        return self.free


class Ends(dist.Work):
    def __init__(self, clock, end):
        super().__init__()
        self.clock, self.end = clock, end

    def wait(self, timeout=None):
        self.clock.now = max(self.clock.now, self.end)
        return True


class Group(dist.ProcessGroup):
    """Rank 0 of several: its collectives leave tensors as they are, and take their time on the clock."""

    clock = None

    def getBackendName(self):
        return BACKEND

    def _transfer(self, passes, tensor):
        return Ends(self.clock, self.clock.transfer(passes, tensor.numel() * tensor.element_size()))

    def allreduce(self, tensors, opts=None):
        return self._transfer(2, tensors[0])

    def _allgather_base(self, output, input, opts=None):
        return self._transfer(1, output)

    def _reduce_scatter_base(self, output, input, opts=None):
        return self._transfer(1, input)

    def allgather(self, output_tensors, input_tensors, opts=None):
        for output in output_tensors[0]:
            output.copy_(input_tensors[0])
        return dist.Work()

    def broadcast(self, tensors, opts=None):
        return dist.Work()

    def barrier(self, opts=None):
        return dist.Work()


class Tick(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, clock, forward, backward):
        ctx.clock, ctx.backward_seconds, ctx.shape = clock, backward, weight.shape
        clock.now += forward
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        ctx.clock.now += ctx.backward_seconds
        return grad, flambeau.zeros(ctx.shape), None, None, None


class Layer(nn.Module):
    def __init__(self, clock, elements, forward, backward):
        super().__init__()
        self.weight, self.times = nn.Parameter(flambeau.zeros(elements)), (clock, forward, backward)

    def forward(self, x):
        return Tick.apply(x, self.weight, *self.times)


@pytest.fixture
def group():
    def create(store, rank, size, timeout):
        return Group(rank, size)

    dist.Backend.register_backend(BACKEND, create)
    yield lambda size: dist.init_process_group(BACKEND, store=dist.HashStore(), rank=0, world_size=size)
    dist.destroy_process_group()
    del dist.Backend.VIRTUAL, dist.Backend._plugins["VIRTUAL"]
    dist.Backend.backend_list.remove(BACKEND)
    del dist.Backend.backend_capability[BACKEND]


def real(schedule, clock, count, elements, work, micros=1, **plan):
    forward, *gradients = work
    model = nn.Sequential(*(Layer(clock, elements, forward, sum(gradients)) for _ in range(count)))
    if schedule == "ddp":
        cap = plan.get("bucket_cap_mb", 25.0)
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=cap)
    else:
        for layer in model:
            fully_shard(layer, reshard_after_forward=plan.get("reshard_after_forward"))
        fully_shard(model)
        if "prefetch" in plan:
            prefetch(list(model), plan["prefetch"])
    for _ in range(2):  # the second step prefetches in the order of the first
        begin = clock.now = max(clock.now, clock.free)
        for _ in range(micros):
            model(flambeau.zeros(1)).backward()
        end = clock.now
        model.zero_grad()
    return end - begin


def prefetch(parts, count):
    for i, part in enumerate(parts):
        part.set_modules_to_forward_prefetch(parts[i + 1 :][:count])
        part.set_modules_to_backward_prefetch(parts[:i][::-1][:count])


@pytest.mark.parametrize("cost", [0.01, 0.3, 0.9, 1.7, 4.0])
@pytest.mark.parametrize(
    "plan",
    [
        {"schedule": "ddp", "bucket_cap_mb": 0.002},
        {"schedule": "ddp", "bucket_cap_mb": 0.004},
        {"schedule": "ddp"},
        {"schedule": "fsdp"},
        {"schedule": "fsdp", "reshard_after_forward": False},
        {"schedule": "fsdp", "micro_batches": 3},
        {"schedule": "fsdp", "prefetch": 0},
        {"schedule": "fsdp", "prefetch": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("work", [(1.0, 1.0, 1.0), (0.5, 2.0, 0.25)], ids=str)
def test_the_wrappers_wait_where_the_simulator_waits(group, plan, cost, work):
    size, count, elements = 4, 6, 512
    nbytes = 4 * elements
    link = Link(cost / 10, (size - 1) / size * nbytes / cost)
    group(size)
    clock = Group.clock = Clock(link, size)
    options = dict(plan)
    micros = options.get("micro_batches", 1)
    found = real(options.pop("schedule"), clock, count, elements, work, micros, **options)
    cluster = Cluster(device=device(), per_node=size, inside=link, algorithms=("ring",))
    predicted = step(layers(count, work, elements), cluster, **plan)
    assert found == pytest.approx(predicted.step, rel=1e-9)
