"""Tensor parallel plans: models on 2 and 4 processes equal those of one process, in outputs and gradients."""

import pytest
from distributed.ranks import run

MODELS = """
import copy, warnings
import flambeau.nn.functional as F
nn = fw.nn
from flambeau.distributed.tensor import DTensor, Replicate, Shard
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, PrepareModuleInputOutput, PrepareModuleOutput, RowwiseParallel,
    SequenceParallel, loss_parallel, parallelize_module)
dist.init_process_group("gloo")
warnings.simplefilter("ignore")
mesh = dist.init_device_mesh("cpu", (size,))

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.head = width // heads

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))

class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.attention = nn.LayerNorm(width), Attention(width, 4)
        self.middle, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.middle(x))

class GPT(nn.Module):
    def __init__(self, words=20, width=16):
        super().__init__()
        self.embed, self.norm = nn.Embedding(words, width), nn.LayerNorm(width)
        self.head = nn.Linear(width, words)
        self.blocks = nn.ModuleList([Block(width) for _ in range(2)])

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

attention = {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(), "out": RowwiseParallel()}
mlp = {"up": ColwiseParallel(), "down": RowwiseParallel()}
divided = Shard(1)
gather = dict(desired_input_layouts=Replicate())
sequence = {
    "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=divided),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=divided, output_layouts=Replicate()),
    "blocks.*.before": SequenceParallel(), "blocks.*.middle": SequenceParallel(),
    "blocks.*.attention": PrepareModuleInput(input_layouts=divided, **gather),
    "blocks.*.mlp": PrepareModuleInput(input_layouts=divided, **gather),
    "blocks.*.mlp.up": ColwiseParallel(), "blocks.*.mlp.down": RowwiseParallel(output_layouts=divided),
    **{f"blocks.*.attention.{k}": ColwiseParallel() for k in "qkv"},
    "blocks.*.attention.out": RowwiseParallel(output_layouts=divided),
}
plain = {f"blocks.*.attention.{k}": v for k, v in attention.items()}
plain |= {f"blocks.*.mlp.{k}": v for k, v in mlp.items()}
plain["head"] = ColwiseParallel(output_layouts=Replicate())
fw.manual_seed(0)
floats, tokens = fw.randn(3, 8, 16), fw.randint(0, 20, (3, 8))
cases = [("mlp", MLP(16), mlp, floats), ("attention", Attention(16, 4), attention, floats),
         ("gpt", GPT(), plain, tokens), ("sequence", GPT(), sequence, tokens)]

def whole(t):
    return t.full_tensor() if isinstance(t, DTensor) else t

found = {}
for name, model, plan, x in cases:
    twin = parallelize_module(copy.deepcopy(model), mesh, plan)
    inner = sum(whole(p.detach()).numel() != (p.to_local() if isinstance(p, DTensor) else p).numel()
                for p in twin.parameters())
    losses = []
    for m in (model, twin):
        optimizer = fw.optim.AdamW(m.parameters(), 0.01)
        for _ in range(2):
            optimizer.zero_grad()
            y = whole(m(x))
            loss = F.cross_entropy(y.flatten(0, 1), tokens.flatten()) if x is tokens else (y * y).mean()
            loss.backward()
            grads = [whole(p.grad) for p in m.parameters()]
            optimizer.step()
        losses.append((loss.item(), grads))
    (a, p), (b, q) = losses
    found[name] = [a, b, max((s - t).abs().max().item() for s, t in zip(p, q)), inner]
errors = [raised(parallelize_module, nn.ReLU(), mesh, ColwiseParallel()),
          raised(parallelize_module, nn.ReLU(), mesh, 3),
          raised(PrepareModuleInput, input_layouts=(Shard(0), None), desired_input_layouts=(Shard(0),))]
logits = parallelize_module(nn.Linear(16, 20), mesh, ColwiseParallel(use_local_output=False))(floats)
with loss_parallel():
    loss = F.cross_entropy(logits.flatten(0, 1), DTensor.from_local(tokens.flatten(), mesh, [Replicate()]))
loss.backward()
same = F.cross_entropy(logits.full_tensor().flatten(0, 1), tokens.flatten())
put([found, errors, [loss.full_tensor().item(), same.item()], [str(p) for p in logits.placements]])
"""


@pytest.mark.parametrize("size", [2, 4])
def test_models_equal_those_of_one_process(size: int):
    for found, errors, losses, placements in run(size, MODELS, seconds=120):
        for name, (plain, divided, gradients, inner) in found.items():
            assert divided == pytest.approx(plain, rel=1e-4), name
            assert gradients < 1e-4, name
            assert inner >= 3, name
        assert [error[0] for error in errors] == ["RuntimeError", "TypeError", "AssertionError"]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5) and placements == ["S(2)"]
