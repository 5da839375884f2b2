"""Predict the next letter of a sentence with a two-layer LSTM; states are carried between steps."""

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(6)
text = "the quick brown fox jumps over the lazy dog and the lazy dog sleeps on. " * 12
letters = sorted(set(text))
codes = torch.tensor([letters.index(letter) for letter in text])


class CharModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embed(x), state)
        return self.head(self.norm(out)), state


model = CharModel(len(letters), 24)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=50)
streams, length = 4, 16
usable = codes[: len(codes) // streams * streams].view(streams, -1)
state, at = None, 0
for _ in range(50):
    if at + length + 1 > usable.shape[1]:
        state, at = None, 0
    piece = usable[:, at : at + length + 1]
    at += length
    if state is not None:
        state = tuple(part.detach() for part in state)
    scores, state = model(piece[:, :-1], state)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), piece[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    print(loss.item())
