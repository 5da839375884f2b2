"""A network that predicts a mixture of Gaussians for an ambiguous function."""

import torch
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, Normal

torch.manual_seed(18)


class MixtureNet(nn.Module):
    def __init__(self, parts=4, width=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, width), nn.Mish(), nn.Linear(width, width), nn.Hardswish())
        self.weights, self.means, self.scales = (nn.Linear(width, parts) for _ in range(3))

    def forward(self, x):
        hidden = self.body(x)
        parts = Normal(self.means(hidden), nn.functional.softplus(self.scales(hidden)) + 1e-3)
        return MixtureSameFamily(Categorical(logits=self.weights(hidden)), parts)


y = torch.rand(128) * 2 - 1
x = (y + 0.3 * torch.sin(6.28 * y) + 0.05 * torch.randn(128)).unsqueeze(1)
model = MixtureNet()
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
schedule = torch.optim.lr_scheduler.SequentialLR(
    optimizer,
    [
        torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, total_iters=10),
        torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98),
    ],
    milestones=[10],
)
for _ in range(50):
    loss = -model(x).log_prob(y).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(loss.item())
