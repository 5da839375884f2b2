"""FullyShardedDataParallel: training on several processes equals that of one, under each option."""

import pytest
from distributed.ranks import run
from distributed.wrapped_models import WRAPPED

EQUAL = (
    WRAPPED
    + """
fw.manual_seed(0)
found = {}

def compare(name, model, inputs, parts=1, sync=None, **options):
    twin = wrap(model, **options)
    found[name] = fit(model, twin, inputs, parts=parts, sync=sync)
    return twin

def no_sync(twin, is_last):
    return contextlib.nullcontext() if is_last else twin.no_sync()

for keeps in (True, False):
    for strategy in Strategy:
        if "HYBRID" not in strategy.name:
            options = dict(use_orig_params=keeps, sharding_strategy=strategy)
            compare(f"mlp {keeps} {strategy.name}", MLP(), floats, auto_wrap_policy=by_class, **options)
            compare(f"one unit {keeps} {strategy.name}", MLP(), floats, **options)
            compare(f"gpt {keeps} {strategy.name}", GPT(), tokens, auto_wrap_policy=blocks_only, **options)
            compare(f"no_sync {keeps} {strategy.name}", GPT(), tokens, parts=3, sync=no_sync,
                    auto_wrap_policy=blocks_only, **options)
    options = dict(use_orig_params=keeps, auto_wrap_policy=blocks_only)
    compare(f"two forwards {keeps}", GPT(), tokens, parts=2, **options)
    compare(f"checkpoint inside {keeps}", GPT(repeats=True), tokens, **options)
    compare(f"checkpoint outside {keeps}", GPT(outside=True), tokens, **options)
    compare(f"reentrant {keeps}", GPT(outside="reentrant"), tokens, **options)
    for prefetch in (None, *fsdp.BackwardPrefetch):
        more = dict(options, backward_prefetch=prefetch, forward_prefetch=True)
        compare(f"{prefetch} {keeps}", GPT(), tokens, **more)
    compare(f"offload {keeps}", MLP(), floats, use_orig_params=keeps, cpu_offload=fsdp.CPUOffload(True))
    compare(f"mesh {keeps}", MLP(), floats, use_orig_params=keeps,
            device_mesh=dist.init_device_mesh("cpu", (size,)))

def freeze(model, *parts):
    for part in parts:
        part.requires_grad_(False)
    return model

model = GPT()
freeze(model, model.blocks[0], model.blocks[1].mix, model.norm)
compare("frozen", model, tokens, use_orig_params=True, auto_wrap_policy=blocks_only)
model = GPT(repeats=True)
compare("frozen, checkpoint", freeze(model, model.blocks[0]), tokens, auto_wrap_policy=blocks_only)
model = GPT()
freeze(model, model)
model.blocks[1].up.requires_grad_(True)
compare("one layer trained", model, tokens, use_orig_params=True)

small = functools.partial(wrapping.size_based_auto_wrap_policy, min_num_params=90)
model = GPT()
found["shared in two wrappers"] = raised(wrap, model, auto_wrap_policy=small)
model.head.weight = nn.Parameter(model.head.weight.detach().clone())
twin = compare("by size", model, tokens, auto_wrap_policy=small)
found["wrapped by size"] = sorted(type(m.module).__name__ for m in FSDP.fsdp_modules(twin))
put(found)
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_training_equals_that_of_one_process(size):
    for found in run(size, EQUAL, seconds=180):
        wrapped = found.pop("wrapped by size")
        assert wrapped == ["Embedding", "GPT"] + ["Linear"] * 10
        kind, text = found.pop("shared in two wrappers")
        assert kind == "ValueError" and "share a parameter" in text
        for name, (losses, distance) in found.items():
            assert distance < 2e-6, (name, distance)
            assert all(abs(one - all_) < 1e-5 for one, all_ in losses), (name, losses)


HYBRID = (
    WRAPPED
    + """
fw.manual_seed(0)
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "parts"))
groups = mesh.get_group("parts"), mesh.get_group("copies")
found = []
for strategy in (Strategy.HYBRID_SHARD, Strategy._HYBRID_SHARD_ZERO2):
    for given in (dict(device_mesh=mesh), dict(process_group=groups), {}):
        for keeps in (True, False):
            model = GPT()
            options = dict(given, auto_wrap_policy=blocks_only, use_orig_params=keeps)
            twin = wrap(model, sharding_strategy=strategy, **options)
            found.append(fit(model, twin, tokens))
            part = sum(p.numel() for p in twin.parameters()) / sum(p.numel() for p in model.parameters())
            found[-1] += (part,)
put(found)
dist.destroy_process_group()
"""
)


def test_copies_of_parts_train_as_one_process():
    for found in run(4, HYBRID, seconds=120, LOCAL_WORLD_SIZE="2"):
        assert len(found) == 12
        for losses, distance, part in found:
            assert distance < 2e-6
            assert all(abs(one - all_) < 1e-5 for one, all_ in losses)
            assert 0.4 < part < 0.6  # of two processes


LAYERS = (
    WRAPPED
    + """
found = {}
class Odd(nn.Module):
    # A shared layer, a recurrent one, an unused one, an ignored one, and one with several results.
    def __init__(self):
        super().__init__()
        self.same = nn.Linear(5, 5)
        self.again = self.same
        self.steps = nn.LSTM(5, 3)
        self.unused = nn.Linear(3, 4)
        self.left = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        out, (h, c) = self.steps(self.again(self.same(x).tanh()).unsqueeze(0))
        return (self.norm(self.left(out.squeeze(0))) + h[0] * c[0]).square().mean()

fw.manual_seed(0)
for keeps in (True, False):
    # Evaluation mode: in training, each process would have the statistics of its own rows.
    def is_layer(module):
        return isinstance(module, (nn.LSTM, nn.Linear))

    policy = functools.partial(wrapping.lambda_auto_wrap_policy, lambda_fn=is_layer)
    for name, options in (("units", dict(auto_wrap_policy=policy)), ("one", {})):
        model = Odd().eval()
        twin = wrap(model, use_orig_params=keeps, **options)
        found[f"{name} {keeps}"] = fit(model, twin, floats, make=functools.partial(fw.optim.SGD, lr=0.1))
        if name == "units":
            assert twin.module.same is twin.module.again

    # Ignored parameters are not divided, and their gradients not reduced: all processes get the same rows.
    model = Odd().eval()
    copied = copy.deepcopy(model)
    twin = FSDP(copied, use_orig_params=keeps, ignored_modules=[copied.left], device_id=cpu)
    assert twin.left.weight.shape == (3, 3) and "left.weight" in values(twin)
    for one in (model, twin):
        one(floats[0]).backward()
    with FSDP.summon_full_params(twin, writeback=False):
        assert sorted(n for n, _ in twin.named_parameters()) == sorted(n for n, _ in model.named_parameters())
    assert (twin.left.weight.grad - model.left.weight.grad).abs().max() < 1e-6
    inner = Odd()
    again = FSDP(inner, use_orig_params=keeps, ignored_states=[inner.left.weight], device_id=cpu)
    assert inner.left.weight.shape == (3, 3) and (not keeps or inner.left.bias.dim() == 1)
put(found)
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize("size", [2, 3])
def test_layers_that_are_shared_recurrent_unused_or_ignored(size):
    for found in run(size, LAYERS, seconds=90):
        for name, (losses, distance) in found.items():
            assert distance < 2e-6, (name, distance)
            assert all(abs(one - all_) < 1e-5 for one, all_ in losses), (name, losses)
