"""A RealNVP flow for two moons; masks are buffers, densities come from change of variables."""

import torch
from torch import nn

torch.manual_seed(21)


class Coupling(nn.Module):
    def __init__(self, mask, width=24):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(2, width), nn.CELU(), nn.Linear(width, 4))
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        fixed = x * self.mask
        scale, shift = self.net(fixed).split(2, dim=1)
        scale = self.gain * torch.tanh(scale) * (1 - self.mask)
        return fixed + (1 - self.mask) * (x * scale.exp() + shift), scale.sum(1)


class Flow(nn.Module):
    def __init__(self, layers):
        super().__init__()
        masks = [torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])]
        self.layers = nn.ModuleList(Coupling(masks[i % 2]) for i in range(layers))
        self.base = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))

    def log_prob(self, x):
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, change = layer(x)
            total = total + change
        return self.base.log_prob(x) + total


def moons(count):
    angle = 3.14159 * torch.rand(count)
    side = torch.arange(count) % 2 * 2.0 - 1
    points = torch.stack([angle.cos() * side + 0.5 * side, angle.sin() * side - 0.3 * side], dim=-1)
    return points + 0.05 * torch.randn_like(points)


flow = Flow(4)
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3, maximize=True)
for _ in range(50):
    objective = flow.log_prob(moons(64)).mean()
    optimizer.zero_grad()
    objective.backward()
    optimizer.step()
    print(-objective.item())
