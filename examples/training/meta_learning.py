"""Model-agnostic meta-learning of sines, with functional_call, grad and vmap."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(19)
model = nn.Sequential(nn.Linear(1, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 1))
parameters = dict(model.named_parameters())


def loss_of(parameters, x, y):
    return nn.functional.mse_loss(functional_call(model, parameters, (x,)), y)


def adapted_loss(parameters, x, y, query_x, query_y):
    slopes = grad(loss_of)(parameters, x, y)
    adapted = {name: value - 0.05 * slopes[name] for name, value in parameters.items()}
    return loss_of(adapted, query_x, query_y)


def tasks(count, points):
    amplitude, phase = torch.rand(count, 1, 1) * 2 + 0.5, torch.rand(count, 1, 1) * 3.14
    x = torch.rand(count, 2 * points, 1) * 10 - 5
    y = amplitude * torch.sin(x + phase)
    return x[:, :points], y[:, :points], x[:, points:], y[:, points:]


optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(50):
    loss = vmap(adapted_loss, in_dims=(None, 0, 0, 0, 0))(parameters, *tasks(8, 10)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
