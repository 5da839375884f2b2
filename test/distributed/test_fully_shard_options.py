"""fully_shard: collectives, parts and wholes, state dicts, devices, dtypes; misuse."""

import re
from pathlib import Path

from distributed.ranks import run
from distributed.sharded_models import MODELS

OPTIONS = (
    MODELS
    + """
from flambeau.distributed.fsdp import UnshardHandle
fw.manual_seed(0)
mesh = dist.init_device_mesh("cpu", (size,))
group = mesh.get_group()
log = []
gather, scatter = "_allgather_base", "_reduce_scatter_base"

def logged(name):
    inner = getattr(group, name)
    def call(*args):
        log.append(name)
        return inner(*args)
    setattr(group, name, call)

logged(gather)
logged(scatter)

def counted():
    found = [log.count(gather), log.count(scatter)]
    log.clear()
    return found

def watch(model):
    for name, block in model.blocks.named_children():
        block.register_forward_pre_hook(lambda *_, name=name: log.append("forward " + name))
        block.register_full_backward_pre_hook(lambda *_, name=name: log.append("backward " + name))

def equal(a, b, tolerance=1e-6):
    assert (whole(a) - whole(b)).abs().max().item() <= tolerance, (whole(a), whole(b))

def grads_of(model):
    return [None if p.grad is None else whole(p.grad) for p in model.parameters()]

def is_sharded(model):
    return [isinstance(p, DTensor) for p in model.parameters()]

# --- how often, and when ------------------------------------------------------------------------------
model = divide(GPT(), mesh=mesh)
model(tokens[0]).backward()
assert counted() == [7, 4], log  # each of four groups; blocks once more for backward
watch(model)
model(tokens[0]).backward()
assert log == [  # the next group is on its way while one computes
    gather, gather, gather, "forward 0", gather, "forward 1", "forward 2",
    gather, "backward 2", gather, scatter, "backward 1", gather, scatter, "backward 0", scatter, scatter], log
before = grads_of(model)
log.clear()
model.set_requires_gradient_sync(False)
model(tokens[0]).backward()
assert counted() == [7, 0]
for a, b in zip(before, grads_of(model)):
    equal(a, b, 0)
log.clear()
model.set_requires_gradient_sync(True)
with fw.no_grad():
    model(tokens[0])
assert counted() == [4, 0]

# --- parts and wholes ---------------------------------------------------------------------------------
model = divide(GPT(), mesh=mesh)
block = model.blocks[0]
parts = dict(block.named_parameters())
assert all(is_sharded(model)) and isinstance(block, FSDPModule) and type(block).__name__ == "FSDPBlock"
assert type(block).__mro__[1:3] == (FSDPModule, Block) and type(type(block)(8)) is Block
model(tokens[0])  # the root is the first module that runs
assert model.norm.weight.shape == (8,) and not any(is_sharded(model.norm)) and all(is_sharded(block))
assert block.unshard() is None and not any(is_sharded(block)) and not any(is_sharded(model.norm))
weight = block.up.weight
view, address = weight.t(), weight.data_ptr()
block.reshard()
assert all(p is parts[n] for n, p in block.named_parameters())
for gone in (weight, view, weight[0]):  # views as well
    error = raised(lambda: gone + 1)
    assert error[0] == "RuntimeError" and "doesn't have storage" in error[1], error
counted()
handle = block.unshard(async_op=True)
assert isinstance(handle, UnshardHandle) and block.unshard(async_op=True) and counted() == [1, 0]
assert all(is_sharded(block))
handle.wait()
assert block.up.weight is weight and counted() == [0, 0]
equal(weight.detach(), parts["up.weight"].detach(), 0)
array = weight.detach().numpy()
block.reshard()
assert array.shape == (16, 8) and (array == whole(parts["up.weight"].detach()).numpy()).all()
model.reshard()
assert all(is_sharded(model))
first = model(tokens[0])
model.set_reshard_after_forward(True)
counted()
assert model(tokens[0]).item() == first.item() and all(is_sharded(model)) and counted() == [3, 0]
model.set_reshard_after_forward(False)
with fw.inference_mode():
    assert abs(model(tokens[0]).item() - first.item()) < 1e-6
assert not any(is_sharded(model))
model(tokens[0]).backward()
assert all(is_sharded(model)) and all(g is not None for g in grads_of(model))
model.set_reshard_after_backward(False)
model(tokens[0]).backward()
assert not any(is_sharded(model))
counted()
model(tokens[0]).backward()
assert counted() == [0, 4]
block.set_unshard_in_backward(False)
state = model.state_dict()
assert all(isinstance(v, DTensor) for v in state.values()) and all(is_sharded(model))
fresh = GPT()
model.load_state_dict({k: v.detach() for k, v in fresh.state_dict().items()})  # whole tensors
assert farthest(fresh, model) == 0
other = divide(GPT(), mesh=mesh)
other.load_state_dict(model.state_dict(), assign=True)
other(tokens[0]).backward()
assert farthest(fresh, other) == 0 and all(g is not None for g in grads_of(other))
error = raised(other.load_state_dict, fresh.state_dict(), assign=True)
assert error[0] == "RuntimeError" and "expected a DTensor" in error[1], error

# --- files --------------------------------------------------------------------------------------------
import flambeau.distributed.checkpoint as files

model, other = (divide(GPT(), mesh=mesh) for _ in range(2))
optimizers = [fw.optim.AdamW(m.parameters(), 0.01) for m in (model, other)]
for m, x, optimizer in zip((model, other), tokens, optimizers):
    m(x).backward()
    optimizer.step()
fw.save(model.state_dict(), folder / f"state-{rank}")
other.load_state_dict(fw.load(folder / f"state-{rank}"))
assert farthest(model, other) == 0
copied = copy.deepcopy(mesh)
assert copied == mesh and copied.get_group() is mesh.get_group()
fresh, other = GPT(), divide(GPT(), mesh=mesh)
place = str(folder / "checkpoint")
files.save({"model": model.state_dict(), "optimizer": optimizers[0].state_dict()}, checkpoint_id=place)
state = {"model": other.state_dict(), "optimizer": optimizers[1].state_dict()}
files.load(state, checkpoint_id=place)
other.load_state_dict(state["model"])
assert farthest(model, other) == 0
for key, value in optimizers[0].state_dict()["state"].items():
    equal(value["exp_avg"], state["optimizer"]["state"][key]["exp_avg"], 0)
state = {"model": fresh.state_dict()}
files.load(state, checkpoint_id=place)  # a model of one process
assert farthest(fresh, model) == 0

# --- conversions, parameters without memory -----------------------------------------------------------
model = divide(GPT(), mesh=mesh).to(fw.float64)
model(tokens[0]).backward()
assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {fw.float64}
with fw.device("meta"):
    model = divide(GPT(), mesh=mesh)
assert all(is_sharded(model)) and {p.device.type for p in model.parameters()} == {"meta"}
error = raised(model, tokens[0])
assert error[0] == "RuntimeError" and "materialized from meta" in error[1], error
assert "blocks.0.up.bias" in error[1] and "norm.weight" in error[1], error
model.to_empty(device="cpu")
alone = GPT()
for m in (model, alone):
    fw.manual_seed(3)
    for p in m.parameters():
        nn.init.normal_(p) if p.dim() > 1 else nn.init.constant_(p, 0.5)
assert farthest(alone, model) == 0
losses, distance = train(alone, model, tokens)
assert distance < 1e-5, distance
assert losses[2] == [model(tokens[2]).item()] * 2 or abs(losses[2][0] - losses[2][1]) < 1e-4

# --- dtypes -------------------------------------------------------------------------------------------
class Probe(nn.Linear):
    def forward(self, x):
        self.seen = [x.dtype, self.weight.dtype, type(self.weight) is nn.Parameter]
        return {"y": super().forward(x), "n": fw.arange(3)}

def policy(**options):
    model = Probe(4, 6)
    twin = fully_shard(copy.deepcopy(model), mesh=mesh, mp_policy=MixedPrecisionPolicy(**options))
    return model, twin

half, single = fw.bfloat16, fw.float32
x = fw.randn(2, 3, 4)[rank]
for options, seen, out in (
    ({}, single, single),
    ({"param_dtype": half}, half, half),
    ({"param_dtype": half, "reduce_dtype": single}, half, half),
    ({"param_dtype": half, "output_dtype": fw.float64}, half, fw.float64),
    ({"param_dtype": fw.float16, "reduce_dtype": fw.float16}, fw.float16, fw.float16),
):
    model, twin = policy(**options)
    found = twin(x)
    assert twin.seen == [seen, seen, True] and found["y"].dtype == out and found["n"].dtype == fw.int64
    found["y"].square().sum().backward()
    model.to(seen)
    model(x.to(seen))["y"].to(out).square().sum().backward()
    for p, q in zip(model.parameters(), twin.parameters()):
        assert q.dtype == q.grad.dtype == single
        total = p.grad.to(options.get("reduce_dtype") or seen)
        dist.all_reduce(total)
        assert fw.allclose(total.float() / 2, whole(q.grad), rtol=0 if seen == single else 1e-2, atol=1e-6)
_, twin = policy(param_dtype=half, cast_forward_inputs=False)
assert raised(twin, x)[0] == "RuntimeError" and twin.seen[:2] == [single, half]
assert all(is_sharded(twin)) is False and twin(x.to(half))["y"].dtype == half  # usable after the error
model, twin = policy(param_dtype=half, reduce_dtype=single)
twin.set_requires_gradient_sync(False)
for _ in range(3):
    twin(x)["y"].sum().backward()
twin.set_requires_gradient_sync(True)
twin(x)["y"].sum().backward()
total = 4 * x.to(half).float().sum(0)
dist.all_reduce(total)
assert fw.allclose(whole(twin.weight.grad)[0], total / 2, rtol=1e-2)
put(1)
dist.destroy_process_group()
"""
)


MISUSE = """
import copy, pickle
from flambeau.distributed.fsdp import fully_shard, share_comm_ctx
from flambeau.distributed.tensor import Shard, distribute_tensor
nn = fw.nn
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = dist.init_device_mesh("cpu", (1,))

class Scalar(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(fw.tensor(1.0))

def with_weight(weight):
    layer = nn.Linear(2, 3)
    layer.weight = nn.Parameter(weight)
    return layer

def refused(kind, text, *arguments, **options):
    error = raised(*arguments, **options)
    assert error is not None and error[0] == kind and text in error[1] and "expected" in error[1], error
    assert error[1].startswith(("fully_shard: ", "set_", "share_comm_ctx: ")), error

three = dist.init_device_mesh("cpu", (1, 1, 1))
refused("ValueError", "expects a 1D or 2D DeviceMesh", fully_shard, nn.Linear(2, 2), mesh=three)
two = dist.init_device_mesh("cpu", (1, 1))
refused("AssertionError", "with mesh_dim_names specified", fully_shard, nn.Linear(2, 2), mesh=two)
refused("TypeError", "a DeviceMesh, got int", fully_shard, nn.Linear(2, 2), mesh=3)
refused("TypeError", "a Module, got int", fully_shard, 3)
refused("ValueError", "an empty list", fully_shard, [])
for container in (nn.ModuleList([nn.Linear(2, 2)]), nn.ModuleDict()):
    refused("ValueError", "do not implement forward", fully_shard, container)
layer = fully_shard(nn.Linear(2, 2))
refused("AssertionError", "has already been applied", fully_shard, layer)
refused("AssertionError", "does not support deepcopy", copy.deepcopy, layer)
assert raised(pickle.dumps, layer)[0] == "PicklingError"
refused("ValueError", "doesn't support scalar parameters", fully_shard, Scalar())
error = raised(fully_shard, with_weight(fw.ones(2, 3).t()))
assert error[0] == "NotImplementedError" and "weight" in error[1] and "non-contiguous" in error[1], error
divided = with_weight(distribute_tensor(fw.ones(3, 2), mesh, [Shard(0)]))
refused("RuntimeError", "got a DTensor on DeviceMesh", fully_shard, divided)
refused("ValueError", "got a lazy one", fully_shard, nn.LazyLinear(2))
for wrong in (3, 0):
    text = "should be a factor of 1"
    refused("ValueError", text, fully_shard, nn.Linear(2, 2), reshard_after_forward=wrong)
refused("ValueError", "should be a bool or an int", fully_shard, nn.Linear(2, 2), reshard_after_forward="x")
refused("ValueError", "got 3", fully_shard, nn.Linear(2, 2), shard_placement_fn=lambda p: 3)
refused("AssertionError", "Shard dim 3 is invalid", fully_shard, nn.Linear(2, 2),
        shard_placement_fn=lambda p: Shard(3))
refused("ValueError", "None as dp_mesh_dims", fully_shard, nn.Linear(2, 2), dp_mesh_dims=2)
failed = nn.Linear(2, 2)
refused("AssertionError", "Shard dim 3", fully_shard, failed, shard_placement_fn=lambda p: Shard(3))
assert type(failed) is nn.Linear and type(failed.weight) is nn.Parameter  # as it was
for name in ("set_modules_to_forward_prefetch", "set_modules_to_backward_prefetch"):
    refused("ValueError", "Expects FSDPModule", getattr(layer, name), [nn.Linear(2, 2)])
    assert raised(getattr(layer, name), 3)[0] == "TypeError"
refused("ValueError", "a bool, got str", layer.set_reshard_after_forward, "x")
refused("ValueError", "at least 1, got 0", layer.set_reduce_scatter_max_input_buffers, 0)
refused("ValueError", "None as stream", layer.set_all_reduce_hook, print, stream=1)

model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
fully_shard(model[0])
fully_shard(model)
model[0](fw.ones(2))
refused("RuntimeError", "lazily initialized for 0", model, fw.ones(2))
mixed = nn.Linear(2, 2)
mixed.bias = nn.Parameter(fw.ones(2, dtype=fw.float64))
refused("AssertionError", "uniform original parameter dtype", fully_shard(mixed), fw.ones(2))
with fw.device("meta"):
    lazy = fully_shard(nn.Linear(2, 2))
error = raised(lazy, fw.ones(2))
assert "materialized from meta" in error[1] and type(lazy.weight).__name__ == "DTensor"
share_comm_ctx([lazy, lazy])  # before the parameters have memory
lazy.set_is_last_backward(True)
lazy.set_reduce_scatter_max_input_buffers(2)
lazy.to_empty(device="cpu").load_state_dict({"weight": fw.ones(2, 2), "bias": fw.ones(2)})
assert (lazy(fw.ones(2)) == 3).all()
mixed = nn.Linear(2, 2)
mixed.register_parameter("other", nn.Parameter(fw.ones(2, dtype=fw.float64), requires_grad=False))
assert fully_shard(mixed)(fw.ones(2)).dtype == fw.float32  # without gradients, dtypes may differ

empty = fully_shard(nn.ReLU())
x = fw.ones(2, requires_grad=True)
empty(x).sum().backward()
empty.unshard()
empty.unshard(async_op=True).wait()
empty.reshard()
assert type(empty).__name__ == "FSDPReLU" and (x.grad == 1).all()
kept = nn.Linear(2, 2)
fully_shard(kept, ignored_params={kept.bias})
assert type(kept.bias) is nn.Parameter and type(kept.weight).__name__ == "DTensor"
kept(fw.ones(2)).sum().backward()
assert (kept.bias.grad == 1).all() and (kept.weight.grad.full_tensor() == 1).all()

shared = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
shared[1].weight = shared[0].weight
fully_shard(shared[0])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fully_shard(shared[1])
assert ["belong in one call" in str(w.message) for w in caught] == [True], caught
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fully_shard(nn.Linear(2, 2), mesh=mesh, reshard_after_forward=1)
assert len(caught) == 1, caught
from flambeau.distributed.fsdp import CPUOffloadPolicy
on_host = fully_shard(nn.Linear(2, 2), offload_policy=CPUOffloadPolicy())
on_host(fw.ones(2)).sum().backward()
assert on_host.weight.grad.device.type == "cpu"
put(1)
dist.destroy_process_group()
"""


def test_options():
    run(2, OPTIONS, seconds=120)


def test_misuse():
    run(1, MISUSE)


def test_the_example_of_the_page_runs():
    page = Path(__file__).resolve().parents[2] / "docs" / "distributed.md"
    section = page.read_text().partition("## Parameters in parts\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    model = "import flambeau\nmodel = GPT()\n"
    end = """
x = tokens[0].chunk(size)[rank]
first = model(x).item()
for _ in range(3):
    model(x).backward()
    optimizer.step()
    optimizer.zero_grad()
put([first, model(x).item(), str(model.norm.weight.dtype)])
dist.destroy_process_group()
"""
    for first, last, dtype in run(2, MODELS + model + example + end):
        assert last < first - 0.01 and dtype == "flambeau.bfloat16"
