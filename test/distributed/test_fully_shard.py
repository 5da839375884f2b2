"""fully_shard: training on several processes equals that of one, and that of PyTorch; memory."""

import pytest
from distributed.ranks import run
from distributed.sharded_models import MODELS

EQUAL = (
    MODELS
    + """
fw.manual_seed(0)
found = {}

def compare(name, model, inputs, make=divide, **options):
    twin = make(copy.deepcopy(model))
    parts = [isinstance(p, DTensor) for p in twin.parameters()]
    losses, distance = train(model, twin, inputs, **options)
    again = [isinstance(p, DTensor) for p in twin.parameters()]
    found[name] = [losses, distance, parts, again]
    return twin

compare("mlp", MLP(), floats)
compare("one group", MLP(), floats, fully_shard)
compare("gpt", GPT(), tokens)
compare("kept", GPT(), tokens, lambda m: divide(m, reshard_after_forward=False))
compare("freed", GPT(), tokens, lambda m: divide(m, reshard_after_forward=True))
compare("checkpoint inside", GPT(repeats=True), tokens)
compare("checkpoint outside", GPT(outside=True), tokens)
compare("reentrant checkpoint", GPT(outside="reentrant"), tokens)
compare("mesh", MLP(), floats, lambda m: divide(m, mesh=dist.init_device_mesh("cpu", (size,))))

def columns(p):
    return Shard(1) if p.dim() == 2 and p.size(1) % size == 0 else None

compare("columns", GPT(width=12), tokens, lambda m: divide(m, shard_placement_fn=columns))

def freeze(model):
    for part in (model.blocks[0], model.blocks[1].mix, model.norm):
        part.requires_grad_(False)
    return model

compare("frozen", freeze(GPT()), tokens)
compare("frozen, checkpoint", freeze(GPT(repeats=True)), tokens)

frozen = GPT()
frozen.requires_grad_(False)
frozen.blocks[1].up.requires_grad_(True)
compare("one layer trained", frozen, tokens)

def two_groups(model):
    fully_shard([model.blocks[0], model.blocks[1]])
    fully_shard(model.blocks[2])
    return fully_shard(model)

compare("group of two", GPT(), tokens, two_groups)

def explicit(model):
    divide(model, reshard_after_forward=True)
    blocks = list(model.blocks)
    model.set_modules_to_forward_prefetch(blocks)
    blocks[2].set_modules_to_backward_prefetch([blocks[1], blocks[0]])
    blocks[1].set_modules_to_backward_prefetch([])
    return model

compare("explicit prefetch", GPT(), tokens, explicit)
put(found)
dist.destroy_process_group()
"""
)


FOUR = (
    MODELS
    + """
fw.manual_seed(0)
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "parts"))
model = GPT()
twin = divide(copy.deepcopy(model), mesh=mesh)
weight = twin.blocks[0].up.weight
assert weight.placements == (Replicate(), Shard(0)) and weight.to_local().shape == (8, 8)
losses, distance = train(model, twin, tokens)
assert distance < 1e-5, distance
for a, b in losses:
    assert abs(a - b) < 1e-4

# gradients are added over the copies once
model, twin = GPT(), None
twin = divide(copy.deepcopy(model), mesh=mesh)
copies, calls = mesh.get_group("copies"), []
inner = copies.allreduce
copies.allreduce = lambda *a: (calls.append(1), inner(*a))[1]
rows = [t.chunk(4)[rank] for t in tokens]
twin.set_requires_all_reduce(False)
for i, x in enumerate(rows[:3]):
    twin.set_requires_all_reduce(i == 2)
    twin(x).backward()
    model(x).backward()
    assert (twin.norm.bias.grad is None) == (i < 2)
assert len(calls) == 4, calls
for p, q in zip(model.parameters(), twin.parameters()):
    dist.all_reduce(p.grad)
    assert (p.grad / 4 - whole(q.grad)).abs().max() < 1e-6

# parts on two processes between forward and backward
mesh = dist.init_device_mesh("cpu", (4,))
model = GPT()
twin = copy.deepcopy(model)
for block in twin.blocks:
    fully_shard(block, mesh=mesh, reshard_after_forward=2)
fully_shard(twin, mesh=mesh)
loss = twin(rows[0])
weight = twin.blocks[0].up.weight
assert isinstance(weight, DTensor) and weight.device_mesh.mesh.tolist() == [rank // 2 * 2, rank // 2 * 2 + 1]
assert weight.to_local().shape == (8, 8)
assert (whole(weight.detach()) == model.blocks[0].up.weight).all()
loss.backward()
weight = twin.blocks[0].up.weight
assert weight.device_mesh.mesh.tolist() == [0, 1, 2, 3] and weight.to_local().shape == (4, 8)
twin.zero_grad()
losses, distance = train(model, twin, tokens)
assert distance < 1e-5, distance
losses, distance = train(MLP(), divide(MLP(), mesh=mesh, reshard_after_forward=2), floats, steps=0)
odd = MLP()
twin = divide(copy.deepcopy(odd), mesh=mesh, reshard_after_forward=2)  # sizes 7, 11 and 1 on 4 and 2
losses, distance = train(odd, twin, floats)
assert distance < 1e-5, distance
for wrong in (3, 8, 0, -2):
    error = raised(fully_shard, MLP(), mesh=mesh, reshard_after_forward=wrong)
    assert error[0] == "ValueError" and "should be a factor of 4" in error[1], error
put(1)
dist.destroy_process_group()
"""
)


DIVIDED = (
    MODELS
    + """
if fw.__name__ == "torch":
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
else:
    from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

class Wide(nn.Module):
    def __init__(self, width=6, inner=10):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.down(self.up(x).relu()))

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Wide(), Wide(), Wide())

    def forward(self, x):
        return self.blocks(x).square().mean()

plan = {"blocks.*.up": ColwiseParallel(), "blocks.*.down": RowwiseParallel()}

def made():
    model = Deep()
    with fw.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(numbers(p.shape)[i % 4])
    return model

rows = numbers((8, 6))
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
model = made()
twin = parallelize_module(copy.deepcopy(model), mesh["tp"], plan)
divide(twin, mesh=mesh["dp"])
facts = [[n, str(p.placements), list(p.to_local().shape)] for n, p in twin.named_parameters()]
mine = mesh.get_local_rank("dp")
optimizers = [fw.optim.AdamW(m.parameters(), 0.01, eps=1e-3, foreach=False) for m in (model, twin)]
losses = []
for step, x in enumerate(rows):
    last = step != 1
    twin.set_requires_gradient_sync(last)
    model(x).backward()
    loss = twin(x.chunk(2)[mine])
    loss.backward()
    losses.append(loss.item())
    if last:
        assert all(p.grad.placements == p.placements for p in twin.parameters())
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
distance = farthest(model, twin)
"""
)

MORE = (
    DIVIDED
    + """
assert distance < 1e-5, distance
norms = []
for m, x in ((model, rows[0]), (twin, rows[0].chunk(2)[mine])):
    m(x).backward()
    norms.append(nn.utils.clip_grad_norm_(m.parameters(), 0.2).item())  # of parameters on two meshes
    optimizer = fw.optim.AdamW(m.parameters(), 0.01, eps=1e-3, foreach=True)
    optimizer.step()
    optimizer.zero_grad()
assert abs(norms[0] - norms[1]) < 1e-5 and norms[0] > 0.2 and farthest(model, twin) < 1e-5

# state dicts and checkpoints
import flambeau.distributed.checkpoint as files

place = str(folder / "checkpoint")
files.save({"model": twin.state_dict()}, checkpoint_id=place)
alone = made()
state = {"model": alone.state_dict()}
files.load(state, checkpoint_id=place)
assert farthest(alone, twin) == 0
other = divide(parallelize_module(made(), mesh["tp"], plan), mesh=mesh["dp"])
state = {"model": other.state_dict()}
files.load(state, checkpoint_id=place)
other.load_state_dict(state["model"])
assert farthest(alone, other) == 0
other = divide(parallelize_module(made(), mesh["tp"], plan), mesh=mesh["dp"])
other.load_state_dict(alone.state_dict())
assert farthest(alone, other) == 0

# memory comes and goes; half precision
half = MixedPrecisionPolicy(param_dtype=fw.bfloat16, reduce_dtype=fw.float32)
other = divide(parallelize_module(made(), mesh["tp"], plan), mesh=mesh["dp"], mp_policy=half)
other(rows[0].chunk(2)[mine]).backward()
block = other.blocks[1]
block.unshard()
weight = block.up.weight
assert weight.dtype == fw.bfloat16 and weight.device_mesh == mesh["tp"] and weight.placements == (Shard(0),)
block.reshard()
assert raised(lambda: weight + 1)[0] == "RuntimeError"
assert block.up.weight.grad.dtype == fw.float32

# copies, parts, and tensor parallelism
cube = dist.init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("copies", "parts", "tp"))
model = made()
twin = divide(parallelize_module(copy.deepcopy(model), cube["tp"], plan), mesh=cube["copies", "parts"])
assert str(twin.blocks[0].up.weight.placements).startswith("(Replicate(), _StridedShard(dim=0, sf=2), Shard")
model(rows[0]).backward()
twin(rows[0].chunk(2)[cube.get_local_rank("copies")]).backward()
for p, q in zip(model.parameters(), twin.parameters()):
    assert (p.grad - whole(q.grad)).abs().max() < 1e-6

wrong = [(mesh["tp"], mesh["tp"]), (mesh["tp"], dist.init_device_mesh("cpu", (4,))),
         (cube["tp"], mesh["dp"]), (mesh["tp"], mesh)]
for outer, inner in wrong:
    error = raised(fully_shard, parallelize_module(made(), outer, plan), mesh=inner)
    assert error[0] == "RuntimeError" and "got a DTensor on" in error[1], error
error = raised(divide, parallelize_module(made(), mesh["tp"], plan), mesh=mesh["dp"], reshard_after_forward=1)
assert error is None  # one process each: the whole is kept
put([losses, facts, distance])
dist.destroy_process_group()
"""
)

ORACLE = (
    MODELS
    + """
half = fw.bfloat16

def made(model):
    with fw.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(numbers(p.shape)[i % 4])
    return model

def accumulates(twin, step):
    twin.set_requires_gradient_sync(step % 2 == 1)

def frozen(model):
    for part in (model.blocks[0], model.blocks[1].mix, model.norm):
        part.requires_grad_(False)
    return model

found = {}
cases = {
    "plain": (GPT(), {}, None),
    "freed": (GPT(), {"reshard_after_forward": True}, None),
    "checkpoint": (GPT(repeats=True), {}, None),
    "frozen": (frozen(GPT()), {}, None),
    "half": (GPT(), {"mp_policy": MixedPrecisionPolicy(param_dtype=half)}, None),
    "half, reduced in float32":
        (GPT(), {"mp_policy": MixedPrecisionPolicy(param_dtype=half, reduce_dtype=fw.float32)}, None),
    "half results":
        (GPT(), {"mp_policy": MixedPrecisionPolicy(output_dtype=half)}, None),
    "accumulated": (GPT(), {}, accumulates),
    "accumulated, half": (GPT(), {
        "mp_policy": MixedPrecisionPolicy(param_dtype=half, reduce_dtype=fw.float32)}, accumulates),
}
for name, (model, options, before) in cases.items():
    twin = (fully_shard if name == "half results" else divide)(made(model), **options)
    optimizer = fw.optim.SGD(twin.parameters(), 0.05, momentum=0.9)
    losses = []
    for step in range(4):
        if before is not None:
            before(twin, step)
        loss = twin(tokens[step].chunk(size)[rank])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
        optimizer.step()
        if before is not accumulates or step % 2:
            optimizer.zero_grad()
        losses.append(loss.item())
    kinds = [str(loss.dtype).split(".")[1], whole(norm).item()]
    dtypes = [str(p.dtype).split(".")[1] for p in twin.parameters()]
    shapes = [list(p.to_local().shape) for p in twin.parameters()]
    totals = [whole(p.detach()).double().sum().item() for p in twin.parameters()]
    found[name] = [losses, totals, shapes, dtypes, kinds]
put(found)
dist.destroy_process_group()
if fw.__name__ == "torch":
    os._exit(0)  # its threads sometimes terminate the process while it ends
"""
)


MEMORY = """
from flambeau.cpu import memory
from flambeau.distributed.fsdp import fully_shard
nn = fw.nn
dist.init_process_group("gloo")
width, depth = 96, 48
one = 4 * (width * width + width)

def peak(sharded, reshards):
    before = memory.memory_allocated()
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))
    if sharded:
        for layer in model:
            fully_shard(layer, reshard_after_forward=reshards)
        fully_shard(model)
    optimizer = fw.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    for _ in range(2):
        memory.reset_peak_memory_stats()
        model(fw.ones(2, width)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    with fw.no_grad():  # parts of parameters and momentum are left, and one layer at a time comes and goes
        left = memory.memory_allocated() - before
        highest = memory.max_memory_allocated() - before
        memory.reset_peak_memory_stats()
        model(fw.ones(2, width))
        return [left / one, highest / one, (memory.max_memory_allocated() - before) / one]

put([peak(False, None), peak(True, True), peak(True, False)])
dist.destroy_process_group()
"""


@pytest.mark.parametrize("size", [2, 3])
def test_training_equals_that_of_one_process(size: int):
    for found in run(size, EQUAL, seconds=120):
        for name, (losses, distance, parts, again) in found.items():
            for alone, together in losses:
                assert together == pytest.approx(alone, rel=1e-5, abs=1e-6), name
            assert distance < 1e-5, name
            assert all(parts) and all(again), name


def test_copies_and_smaller_meshes():
    run(4, FOUR, seconds=120)


def test_training_equals_that_of_pytorch():
    ours, theirs = (run(2, ORACLE, framework, seconds=120) for framework in ("flambeau", "torch"))
    for mine, other in zip(ours, theirs, strict=True):
        for name, (losses, totals, shapes, dtypes, (kind, norm)) in mine.items():
            expected = other[name]
            precise = {"rel": 0.03, "abs": 0.03} if "half" in name else {"rel": 2e-5, "abs": 2e-5}
            assert losses == pytest.approx(expected[0], **precise), name
            assert totals == pytest.approx(expected[1], **precise), name
            assert [shapes, dtypes, kind] == [*expected[2:4], expected[4][0]], name
            assert norm == pytest.approx(expected[4][1], **precise), name


def test_each_process_has_half_of_the_memory():
    for alone, freed, kept in run(2, MEMORY):
        left, highest, forward = freed
        assert alone[0] == pytest.approx(96, abs=0.5) and alone[1] == pytest.approx(143, abs=2)
        assert left == pytest.approx(48, abs=0.5)
        # Parts of parameters, momentum and gradients; a layer, its gradients, and both on their way.
        assert highest < 72 + 5 and highest < 0.55 * alone[1]
        assert forward < 48 + 4
        assert kept[0] == pytest.approx(48, abs=0.5)  # backward frees what forward kept
        assert kept[1] > 72 + 20 and kept[2] > 48 + 47


def test_parameters_of_tensor_parallelism():
    end = "put([losses, facts, distance])\ndist.destroy_process_group()\nos._exit(0)\n"
    pairs = zip(run(4, MORE, seconds=120), run(4, DIVIDED + end, "torch", seconds=120), strict=True)
    for ours, theirs in pairs:
        assert ours[0] == pytest.approx(theirs[0], rel=2e-5)
        assert ours[1] == theirs[1]
        assert max(ours[2], theirs[2]) < 1e-5
