"""Models and a training loop for jobs that run under flambeau and PyTorch."""

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
