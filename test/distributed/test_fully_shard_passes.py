"""fully_shard: several passes, failures, unused parameters, other ways to call, norms of gradients."""

from distributed.ranks import run
from distributed.sharded_models import MODELS

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

class Counted:
    def __init__(self, name):
        self.name, self.calls = name, []

    def allocate(self, sizes, *, dtype, device):
        return fw.full(tuple(sizes), float("nan"), dtype=dtype, device=device)

    def __call__(self, output, input, group, *op, async_op=False):
        self.calls.append((tuple(output.shape), tuple(input.shape), group.size(), async_op))
        return getattr(dist, self.name)(output, input, *op, group=group, async_op=self.name[0] == "a")

model, twin = pair(nn.Linear(3, 2), fully_shard)
gathers, reduces = Counted("all_gather_into_tensor"), Counted("reduce_scatter_tensor")
twin.set_custom_all_gather(gathers)
twin.set_custom_reduce_scatter(reduces)
for m in (model, twin):
    m(x).sum().backward()
same_grads(mean_grads(model), twin)
assert gathers.calls == [((8,), (4,), 2, True)] and reduces.calls == [((4,), (8,), 2, True)], gathers.calls
model, twin = pair(GPT())
twin.set_separate_reduce_scatter_group()
own, names = dist.group.WORLD, []
inner = own._reduce_scatter_base
own._reduce_scatter_base = lambda *a: (names.append(1), inner(*a))[1]
for m in (model, twin):
    m(mine[0]).backward()
same_grads(mean_grads(model), twin)
assert not names
twin.set_separate_reduce_scatter_group(False)
twin(mine[0]).backward()
assert len(names) == 4
own._reduce_scatter_base = inner

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


def test_several_passes_failures_and_ways_to_call():
    run(2, PASSES, seconds=120)
