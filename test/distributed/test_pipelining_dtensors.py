"""DTensors between the stages of a pipeline: tensor parallelism within stages, and no gathering between."""

import pytest
from distributed.ranks import run

MODEL = """
import copy
nn = fw.nn
from flambeau.distributed import pipelining
from flambeau.distributed.pipelining import schedules
from flambeau.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
dist.init_process_group()
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
pp, tp = mesh.get_group("pp"), mesh["tp"]
cpu, asked = fw.device("cpu"), []

def get_mesh(names, sizes):
    asked.append([list(names), list(sizes)])
    return tp

class First(nn.Module):
    # A divided result, one that all ranks have, and a plain one.
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 6), nn.Linear(3, 5)
    def forward(self, x):
        return self.a(x).tanh(), self.b(x).tanh(), x * 2

class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 4), nn.Linear(5, 4), nn.Linear(3, 4)
    def forward(self, a, b, x):
        y = self.a(a) + self.b(b)
        if isinstance(y, DTensor):
            y = y.redistribute(placements=[Replicate()]).to_local()
        return y + self.c(x)

class Divided(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        a, b, plain = self.inner(distribute_tensor(x, tp, [Replicate()]))
        return a.redistribute(placements=[Shard(1)]), b, plain.to_local()

def divide(module, dims):
    for name, dim in dims.items():
        layer = getattr(module, name)
        for key, p in list(layer.named_parameters()):
            placement = Replicate() if dim is None or (dim == 1 and key == "bias") else Shard(dim)
            layer.register_parameter(key, nn.Parameter(distribute_tensor(p.detach(), tp, [placement])))
    return module

def whole(t):
    return t.full_tensor() if isinstance(t, DTensor) else t

fw.manual_seed(0)
first, last = First(), Last()
"""

TRAIN = (
    MODEL
    + """
found = {}
for name in ("GPipe", "1F1B"):
    twins = copy.deepcopy(first), copy.deepcopy(last)
    own = copy.deepcopy(first if pp.rank() == 0 else last)
    if pp.rank() == 0:
        module = Divided(divide(own, {"a": 0, "b": None}))
    else:
        module = divide(own, {"a": 1, "b": None})
    stage = pipelining.PipelineStage(module, pp.rank(), 2, cpu, group=pp, get_mesh=get_mesh)
    schedule = schedules.get_schedule_class(name)(stage, 3, nn.functional.mse_loss)
    optimizers = [fw.optim.SGD([p for m in models for p in m.parameters()], lr=0.1)
                  for models in ([own], twins)]
    far = []
    for step in range(3):
        x = (fw.arange(21.0).view(7, 3) + step).sin()
        y = (fw.arange(28.0).view(7, 4) - step).cos()
        losses = []
        schedule.step(x, target=y, losses=losses)
        for rows, target in zip(x.tensor_split(3), y.tensor_split(3)):
            (nn.functional.mse_loss(twins[1](*twins[0](rows)), target) / 3).backward()
        for p, q in zip(own.parameters(), twins[pp.rank()].parameters()):
            far.append((whole(p.grad) - q.grad).abs().max().item())
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    found[name] = max(far)
    with fw.no_grad():
        result = schedule.eval(x)
        if result is not None:
            found[name] = max(found[name], (result - twins[1](*twins[0](x))).abs().max().item())
put([found, asked[:1], pp.rank()])
dist.destroy_process_group()
"""
)


def test_parts_travel_between_stages():
    for found, asked, stage in run(4, TRAIN, seconds=60):
        assert max(found.values()) < 1e-6, found
        assert asked == ([[["tp"], [2]]] if stage else [])


WRONG = (
    MODEL
    + """
kind = os.environ["KIND"]
class Sums(nn.Module):
    def forward(self, x):
        return DTensor.from_local(x, tp, [Partial()])

module = Sums() if kind == "sums" else Divided(divide(first, {"a": 0, "b": None}))
module = module if pp.rank() == 0 else divide(last, {"a": 1, "b": None})
callback = {"none": None, "sizes": lambda *_: mesh, "sums": get_mesh}[kind]
stage = pipelining.PipelineStage(module, pp.rank(), 2, cpu, group=pp, get_mesh=callback)
schedule = schedules.ScheduleGPipe(stage, 2)
if kind != "sums" or pp.rank() == 0:  # the next stage would wait for what never comes
    put(raised(schedule.step, fw.ones(4, 3)))
os._exit(0)
"""
)


@pytest.mark.parametrize(
    ("kind", "stage", "error", "text"),
    [
        ("none", 1, "ValueError", "expected get_mesh for a DTensor"),
        ("sizes", 1, "ValueError", "expected get_mesh to return a mesh of (2,), got (2, 2)"),
        ("sums", 0, "TypeError", "expected DTensors with Shard and Replicate between stages, got P"),
    ],
)
def test_what_cannot_travel(kind, stage, error, text):
    values = run(4, WRONG, seconds=60, KIND=kind)
    for rank in (0, 1) if stage == 0 else (2, 3):
        assert values[rank][0] == error and text in values[rank][1], values[rank]
