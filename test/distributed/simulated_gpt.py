"""A decoder with the layers that `flambeau.distributed.simulate.transformer` describes."""

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

SIZES = {"layers": 3, "width": 64, "heads": 4, "hidden": 192, "vocabulary": 250, "sequence": 16}


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.size = width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            part(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, hidden),
            nn.Linear(hidden, width),
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(
        self, layers: int, width: int, heads: int, hidden: int, vocabulary: int, sequence: int
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width, heads, hidden) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), tokens.flatten())


def described(**sizes):
    """The same model for the simulator."""
    from flambeau.distributed.simulate import transformer

    options = {"gated": False, "bias": True, "divide_vocabulary": False, "compute_dtype": None}
    return transformer(**(options | SIZES | sizes))


def tokens(samples: int):
    return flambeau.arange(samples * SIZES["sequence"]).view(samples, -1) % SIZES["vocabulary"]


def tensor_parallel(model, mesh) -> None:
    """Divide the blocks: one sum per part of a block in each pass."""
    from flambeau.distributed.tensor import Replicate
    from flambeau.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        parallelize_module,
    )

    columns = {
        f"blocks.*.{name}": ColwiseParallel() for name in ("attention.q", "attention.k", "attention.v", "up")
    }
    rows = {f"blocks.*.{name}": RowwiseParallel() for name in ("attention.o", "down")}
    once = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    parallelize_module(model, mesh, {"blocks.*.attention": once, **columns, **rows})


def local(t):
    return getattr(t, "_local_tensor", t)


def nbytes(values) -> int:
    return sum(local(t).numel() * t.element_size() for t in values)
