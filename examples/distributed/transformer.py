"""A small language model and its data, which the programs of this folder train in different ways."""

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional

WORDS, LENGTH, WIDTH, HEAD = 32, 16, 32, 8


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        # The number of heads follows from the width, which is smaller if several processes divide the heads.
        projections = self.query(x), self.key(x), self.value(x)
        heads = [p.unflatten(-1, (-1, HEAD)).transpose(1, 2) for p in projections]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm_2, self.feed = nn.LayerNorm(WIDTH), FeedForward()

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.feed(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.embed, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens, positions):
        x = self.embed(tokens) + self.places(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch(step, rows=8):
    """Sequences that an unknown rule of arithmetic continues: inputs, positions and targets."""
    random = torch.Generator().manual_seed(step)
    sequences = [torch.randint(WORDS, (rows, 1), generator=random)]
    while len(sequences) <= LENGTH:
        sequences.append((5 * sequences[-1] + 3) % WORDS)
    tokens = torch.cat(sequences, 1)
    return tokens[:, :-1].contiguous(), torch.arange(LENGTH).unsqueeze(0), tokens[:, 1:].contiguous()


def loss_of(model, tokens, positions, targets):
    return functional.cross_entropy(model(tokens, positions).flatten(0, 1), targets.flatten())
