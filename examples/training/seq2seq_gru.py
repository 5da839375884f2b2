"""Reverse sequences of unequal lengths: packed GRU encoder, attending GRU decoder, teacher forcing."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(7)
WORDS, WIDTH, START = 12, 24, 1


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.rnn = nn.GRU(WIDTH, WIDTH // 2, bidirectional=True)

    def forward(self, sources, lengths):
        packed = pack_padded_sequence(self.embed(sources), lengths, enforce_sorted=False)
        states, last = self.rnn(packed)
        return pad_packed_sequence(states)[0], torch.cat(tuple(last), dim=-1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.cell = nn.GRUCell(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, word, hidden, memory, mask):
        scores = torch.einsum("tbw,bw->tb", memory, hidden).masked_fill(~mask, float("-inf"))
        context = (scores.softmax(0).unsqueeze(-1) * memory).sum(0)
        hidden = self.cell(torch.cat((self.embed(word), context), -1), hidden)
        return self.head(hidden), hidden


encoder, decoder = Encoder(), Decoder()
optimizer = torch.optim.NAdam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
for _ in range(50):
    lengths = torch.randint(2, 8, (16,))
    rows = [torch.randint(2, WORDS, (int(n),)) for n in lengths]
    sources, targets = pad_sequence(rows), pad_sequence([row.flip(0) for row in rows])
    memory, hidden = encoder(sources, lengths)
    word, total = torch.full((16,), START), 0
    for target in targets:
        scores, hidden = decoder(word, hidden, memory, sources != 0)
        total = total + F.cross_entropy(scores, target, ignore_index=0, reduction="sum")
        word = target
    loss = total / lengths.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
