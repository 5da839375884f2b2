"""Recognise tone sequences: spectrogram by stft, Conv1d, bidirectional GRU, CTC loss."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(22)


class Recogniser(nn.Module):
    def __init__(self, bins=17, width=16, symbols=4):
        super().__init__()
        self.conv = nn.Conv1d(bins, width, 5, stride=2, padding=2)
        self.norm = nn.BatchNorm1d(width)
        self.rnn = nn.GRU(width, width, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, symbols)

    def forward(self, sound):
        spectrum = torch.stft(sound, 32, hop_length=8, window=torch.hann_window(32), return_complex=True)
        x = F.relu(self.norm(self.conv(spectrum.abs().log1p())))
        out, _ = self.rnn(x.transpose(1, 2))
        return self.head(out).log_softmax(-1).transpose(0, 1)


def sentences(count, words=3, samples=96):
    symbols = torch.randint(1, 4, (count, words))
    time = torch.arange(samples)
    tones = torch.sin(2 * math.pi * time * symbols.unsqueeze(-1) * 0.08)
    return tones.flatten(1) + 0.1 * torch.randn(count, words * samples), symbols


model = Recogniser()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
averaged = torch.optim.swa_utils.AveragedModel(model)
for step in range(50):
    sound, symbols = sentences(8)
    scores = model(sound)
    loss = F.ctc_loss(scores, symbols, torch.full((8,), len(scores)), torch.full((8,), 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step >= 40:
        averaged.update_parameters(model)
    print(loss.item())
