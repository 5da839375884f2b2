"""A language model from nn.TransformerEncoder: causal mask, warm-up schedule, gradient accumulation."""

import math

import torch
from torch import nn

torch.manual_seed(8)


class PositionalEncoding(nn.Module):
    def __init__(self, width, length=64):
        super().__init__()
        position = torch.arange(length).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(length, width)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.table[: x.size(1)])


class LanguageModel(nn.Module):
    def __init__(self, words, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = PositionalEncoding(width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
        hidden = self.position(self.embed(x) * math.sqrt(self.embed.embedding_dim))
        return self.head(self.encoder(hidden, mask=mask, is_causal=True))


words = 20
model = LanguageModel(words)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
data = (torch.arange(400) ** 2 % 17 + torch.arange(400) % 3).remainder(words)
for _ in range(50):
    total = 0.0
    for _ in range(2):
        starts = torch.randint(0, 380, (4,))
        piece = torch.stack([data[start : start + 17] for start in starts])
        loss = nn.functional.cross_entropy(model(piece[:, :-1]).transpose(1, 2), piece[:, 1:]) / 2
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    warm_up.step()
    print(total)
