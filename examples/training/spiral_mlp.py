"""Classify points of a three-armed spiral with a small perceptron."""

import math

import torch
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(1)


def spiral(points, arms=3):
    t = torch.linspace(0.1, 1, points).repeat(arms)
    arm = torch.arange(arms).repeat_interleave(points)
    angle = 4 * t + 2 * math.pi * arm / arms + 0.1 * torch.randn(points * arms)
    return torch.stack([t * angle.cos(), t * angle.sin()], dim=1), arm


x, y = spiral(80)
train, held_out = random_split(TensorDataset(x, y), [200, 40], generator=torch.Generator().manual_seed(2))
loader = DataLoader(train, batch_size=40, shuffle=True, generator=torch.Generator().manual_seed(3))
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
scheduler = StepLR(optimizer, step_size=4, gamma=0.5)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

for _ in range(10):
    model.train()
    for points, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(points), labels)
        loss.backward()
        optimizer.step()
        print(loss.item())
    scheduler.step()

model.eval()
with torch.inference_mode():
    points, labels = zip(*held_out, strict=True)
    print((model(torch.stack(points)).argmax(1) == torch.stack(labels)).float().mean().item())
