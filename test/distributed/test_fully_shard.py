"""fully_shard: training on 2 and 3 processes equals that of one; options, memory, failures and misuse."""

import pytest
from distributed.ranks import run

MODELS = """
import contextlib, copy, functools
if fw.__name__ == "torch":
    import torch.nn.functional as F
    from torch.distributed.fsdp import fully_shard, FSDPModule, MixedPrecisionPolicy
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.utils.checkpoint import checkpoint
else:
    import flambeau.nn.functional as F
    from flambeau.distributed.fsdp import fully_shard, FSDPModule, MixedPrecisionPolicy
    from flambeau.distributed.tensor import DTensor, Replicate, Shard
    from flambeau.utils.checkpoint import checkpoint
nn = fw.nn
dist.init_process_group("gloo")
warnings.simplefilter("ignore")

class MLP(nn.Module):
    # The sizes are no multiples of 2 or 3; one bias has fewer elements than there are processes.
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 11), nn.Linear(11, 1))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x.tanh())
        return x.square().mean()

class Block(nn.Module):
    def __init__(self, width, repeats=False):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, 3 * width, bias=False)
        self.up, self.down, self.repeats = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), repeats

    def inner(self, x):
        q, k, v = self.mix(self.norm(x)).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.down(F.gelu(self.up(x)))

    def forward(self, x, *, scale=1.0):
        return (checkpoint(self.inner, x, use_reentrant=False) if self.repeats else self.inner(x)) * scale

class GPT(nn.Module):
    def __init__(self, words=13, width=8, depth=3, repeats=False, outside=False):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        self.blocks = nn.ModuleList([Block(width, repeats) for _ in range(depth)])
        self.norm, self.outside = nn.LayerNorm(width), outside

    def through(self, block, x):
        if not self.outside:
            return block(x, scale=0.9)
        return checkpoint(block, x, use_reentrant=self.outside == "reentrant")

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = self.through(block, x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten())

def divide(model, **options):
    for part in getattr(model, "layers", None) or model.blocks:
        fully_shard(part, **options)
    return fully_shard(model, **options)

def whole(t):
    return t.full_tensor() if isinstance(t, DTensor) else t

def farthest(model, twin):
    pairs = zip(model.named_parameters(), twin.named_parameters())
    with fw.no_grad():
        return max((p - whole(q)).abs().max().item() if n == m else 9.0 for (n, p), (m, q) in pairs)

def train(model, twin, inputs, steps=3, parts=1, sync=lambda last: None):
    # Train on all rows of the batch, and the twin on this process's rows, in several passes of each.
    # Returns the losses, and how far the parameters are from each other at the end.
    adam = functools.partial(fw.optim.AdamW, lr=0.01, eps=1e-3)
    optimizers = [adam(m.parameters(), foreach=f) for m, f in ((model, None), (twin, True))]
    losses = []
    for step in range(steps):
        batch = inputs[step]
        model(batch).backward()
        found = 0.0
        mine = batch.chunk(size)[rank].chunk(parts)
        for i, rows in enumerate(mine):
            sync(i == len(mine) - 1)
            loss = twin(rows) / parts
            loss.backward()
            found += loss.item()
        total = fw.tensor(found)
        dist.all_reduce(total)
        losses.append([model(batch).item(), total.item() / size])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return losses, farthest(model, twin)

def numbers(shape, steps=4):
    # Equal numbers under each framework.
    count = 1
    for n in shape:
        count *= n
    return [((fw.arange(count) * 37 + 11 * s) % 29).view(shape) / 29.0 - 0.5 for s in range(steps)]

floats = numbers((12, 5))
tokens = [((fw.arange(72) * 7 + s * s) % 13).view(12, 6) for s in range(4)]
"""

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

PASSES = (
    MODELS
    + """
from flambeau.distributed.fsdp import register_fsdp_forward_method, share_comm_ctx
fw.manual_seed(0)

def grads_of(model):
    return [None if p.grad is None else whole(p.grad) for p in model.parameters()]

def same_grads(model, twin, tolerance=1e-6):
    for p, g in zip(model.parameters(), grads_of(twin), strict=True):
        assert (p.grad is None) == (g is None), (p.shape, p.grad, g)
        assert g is None or (p.grad - g).abs().max().item() <= tolerance, (p.grad, g)

def is_sharded(model):
    return [isinstance(p, DTensor) for p in model.parameters()]

def mean_grads(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= size
    return model

def pair(model, make=divide):
    return model, make(copy.deepcopy(model))

mine = [t.chunk(size)[rank] for t in tokens]

# --- several passes -----------------------------------------------------------------------------------
def sync_of(model):
    def sync(last):
        model.set_requires_gradient_sync(last)
        model.set_is_last_backward(last)
        model.set_reshard_after_backward(last)
    return sync

model, twin = pair(GPT())
losses, distance = train(model, twin, tokens, parts=3, sync=sync_of(twin))
assert distance < 1e-5, distance
model, twin = pair(GPT())
for x in mine[:2]:
    model(x).backward()
    twin(x).backward()  # each pass is reduced: the sums are equal
same_grads(mean_grads(model), twin)
model, twin = pair(GPT())
losses = [(m(mine[0]), m(mine[1])) for m in (model, twin)]  # two graphs at a time
for pairs in losses:
    pairs[0].backward()
    pairs[1].backward()
same_grads(mean_grads(model), twin)
model, twin = pair(GPT())
for m in (model, twin):
    loss = m(mine[0])
    loss.backward(retain_graph=True)
    loss.backward()
    error = raised(loss.backward)
    assert error[0] == "RuntimeError" and "second time" in error[1]
twin.reset_iter_state()
same_grads(mean_grads(model), twin)
for m in (model, twin):
    m.zero_grad()
    m(mine[1]).backward()
same_grads(mean_grads(model), twin)
assert all(is_sharded(twin))
model, twin = pair(GPT())
for m in (model, twin):
    with fw.no_grad():
        m(mine[0])
    m(mine[0])  # without backward
    m(mine[1]).backward()
same_grads(mean_grads(model), twin)
model, twin = pair(GPT())
for m in (model, twin):
    grads = fw.autograd.grad(m(mine[0]), [m.norm.bias])
assert grads[0].shape == (8,)
model(mine[0]).backward()
twin(mine[0]).backward()
same_grads(mean_grads(model), twin)
twin.set_reduce_scatter_max_input_buffers(3)
losses, distance = train(*pair(GPT()), tokens)
assert distance < 1e-5

# --- failures -----------------------------------------------------------------------------------------
class Broken(Exception):
    pass

def broken(*_):
    raise Broken("now")

for place in ("forward", "backward", "backward, reset"):
    model, twin = pair(GPT())
    twin(mine[1]).backward()
    twin.zero_grad()
    if place == "forward":
        handle = twin.blocks[1].up.register_forward_hook(broken)
        assert raised(twin, mine[0])[0] == "Broken"
    else:
        handle = twin.blocks[1].up.register_forward_hook(lambda m, a, y: y.register_hook(broken) and None)
        loss = twin(mine[0])
        error = raised(loss.backward)
        assert "now" in error[1], error
        if place != "backward":
            error = raised(twin.blocks[0].reset_iter_state)
            assert error[0] == "RuntimeError" and "must be called on the root" in error[1]
            twin.reset_iter_state()
            assert all(is_sharded(twin))
    handle.remove()
    twin.zero_grad()
    for m in (model, twin):
        m(mine[0]).backward()
    same_grads(mean_grads(model), twin)
    assert all(is_sharded(twin))

# --- parameters without gradients ---------------------------------------------------------------------
class Choice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.never = nn.Linear(3, 3), nn.Linear(3, 3), nn.Parameter(fw.ones(4))

    def forward(self, x, which):
        return (self.first if which == 0 else self.second)(x)

x = fw.ones(2, 3) * (rank + 1)
model, twin = pair(Choice(), fully_shard)
for m in (model, twin):
    m(x, 1).sum().backward()
same_grads(mean_grads(model), twin)
model, twin = pair(Choice(), fully_shard)
twin.set_reduce_scatter_unused_params(True)
for m in (model, twin):
    m(x, rank).sum().backward()  # each process uses another layer
for p in model.parameters():
    p.grad = fw.zeros_like(p) if p.grad is None else p.grad
same_grads(mean_grads(model), twin)

first_alone = lambda m: [fully_shard(m[0]), fully_shard(m)][1]
model, twin = pair(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), first_alone)
for m in (model, twin):
    for trained in (True, False, True):
        m[0].requires_grad_(trained)
        m(x).square().sum().backward()
        if not trained:
            m.zero_grad(set_to_none=False)
same_grads(mean_grads(model), twin, 1e-4)

# --- what reduces gradients ---------------------------------------------------------------------------
seen = []
model, twin = pair(nn.Linear(3, 2), fully_shard)
twin.set_gradient_divide_factor(1.0)
twin.set_all_reduce_hook(lambda t: (seen.append(t.shape), t.mul_(3))[0])
twin.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.shape))
for m in (model, twin):
    m(x).sum().backward()
mean_grads(model)
for p in model.parameters():
    p.grad *= 3 * size
same_grads(model, twin)
assert [tuple(s) for s in seen] == [(4,), (2, 3)], seen

# --- other ways to call -------------------------------------------------------------------------------
class Ways(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(3, 3), nn.Parameter(fw.ones(3))

    def forward(self, x):
        return x["x"] * self.scale, {"y": self.linear(x["x"])}

    def scaled(self, x):
        return self.linear(x) * self.scale

def layers_of_ways(model):
    fully_shard(model[0])
    register_fsdp_forward_method(model[0], "scaled")
    return fully_shard(model)

model, twin = pair(nn.Sequential(Ways()), layers_of_ways)
for m in (model, twin):
    leaf = fw.ones(2, 3, requires_grad=True)
    a, b = m({"x": leaf})
    (a.sum() + b["y"].square().sum()).backward()
    m[0].scaled(leaf).square().sum().backward()
    m[0].scaled(m[0].scaled(leaf)).sum().backward()  # the same module twice in one graph
same_grads(mean_grads(model), twin, 1e-5)
assert all(is_sharded(twin))
error = raised(register_fsdp_forward_method, twin[0], "lacking")
assert error[0] == "ValueError" and "does not have a method lacking" in error[1]
register_fsdp_forward_method(nn.Linear(2, 2), "lacking")  # not sharded: no effect

both = [fully_shard(nn.Linear(3, 3)) for _ in range(2)]
share_comm_ctx(both)
sum(m(x).sum() for m in both).backward()
for m in both:
    assert (whole(m.bias.grad) == 2).all()

# chunks of the loss: the last modules run once more for each
class Chunked(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 5)

    def forward(self, x):
        return self.norm(self.body(x))

def chunked(model):
    fully_shard(model.body)
    fully_shard([model.norm, model.head])
    return fully_shard(model)

model, twin = pair(Chunked(), chunked)
for m in (model, twin):
    for _ in range(2):
        y = m(x)
        sum(m.head(part).square().sum() for part in y.chunk(2)).backward()
same_grads(mean_grads(model), twin, 1e-5)
assert all(is_sharded(twin))

# --- norms --------------------------------------------------------------------------------------------
for kind in (2.0, float("inf")):
    for foreach in (None, True, False):
        model, twin = pair(GPT())
        for m in (model, twin):
            m(mine[0]).backward()
        mean_grads(model)
        norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.1, kind, foreach=foreach) for m in (model, twin)]
        assert abs(norms[0].item() - whole(norms[1]).item()) < 1e-5 and norms[0] > 0.1
        same_grads(model, twin)
put(1)
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

MISUSE = """
import copy, pickle
from flambeau.distributed.fsdp import fully_shard
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
refused("NotImplementedError", "got a DTensor as weight", fully_shard, divided)
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


def test_options():
    run(2, OPTIONS, seconds=120)


def test_several_passes_failures_and_ways_to_call():
    run(2, PASSES, seconds=120)


def test_copies_and_smaller_meshes():
    run(4, FOUR, seconds=120)


def test_misuse():
    run(1, MISUSE)


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
