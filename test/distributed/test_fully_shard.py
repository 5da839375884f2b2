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

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.outside else block(x, scale=0.9)
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

OPTIONS = """
"""


@pytest.mark.parametrize("size", [2, 3])
def test_training_equals_that_of_one_process(size: int):
    for found in run(size, EQUAL, seconds=120):
        for name, (losses, distance, parts, again) in found.items():
            for alone, together in losses:
                assert together == pytest.approx(alone, rel=1e-5, abs=1e-6), name
            assert distance < 1e-5, name
            assert all(parts) and all(again), name
