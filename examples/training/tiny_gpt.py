"""A decoder-only transformer written out: fused attention, tied weights, parameter groups, sampling."""

from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F

torch.manual_seed(9)


@dataclass
class Config:
    words: int = 32
    block: int = 16
    width: int = 32
    heads: int = 4
    layers: int = 2


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, time, width))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU("tanh"),
            nn.Linear(4 * config.width, config.width),
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleDict(
            {
                "words": nn.Embedding(config.words, config.width),
                "places": nn.Embedding(config.block, config.width),
                "blocks": nn.ModuleList([Block(config) for _ in range(config.layers)]),
                "norm": nn.LayerNorm(config.width),
            }
        )
        self.head = nn.Linear(config.width, config.words, bias=False)
        self.layers["words"].weight = self.head.weight
        self.apply(self._initialise)

    def _initialise(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, tokens, targets=None):
        x = self.layers["words"](tokens) + self.layers["places"](torch.arange(tokens.size(1)))
        for block in self.layers["blocks"]:
            x = block(x)
        scores = self.head(self.layers["norm"](x))
        if targets is None:
            return scores[:, [-1]], None
        return scores, F.cross_entropy(scores.view(-1, scores.size(-1)), targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, tokens, count, temperature=1.0, top_k=5):
        for _ in range(count):
            scores, _ = self(tokens[:, -self.config.block :])
            scores = scores[:, -1] / temperature
            best, _ = torch.topk(scores, top_k)
            scores[scores < best[:, [-1]]] = -float("inf")
            tokens = torch.cat((tokens, torch.multinomial(scores.softmax(-1), 1)), dim=1)
        return tokens


config = Config()
model = GPT(config)
decayed = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
    lr=3e-3,
    betas=(0.9, 0.95),
)
text = torch.arange(256).pow(2).add(torch.arange(256)).remainder(config.words)
for _ in range(50):
    at = torch.randint(len(text) - config.block, (8,))
    x = torch.stack([text[i : i + config.block] for i in at])
    y = torch.stack([text[i + 1 : i + 1 + config.block] for i in at])
    _, loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(loss.item())
print(sum(model.generate(text[None, :4], 8)[0].tolist()))
