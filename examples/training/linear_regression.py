"""Fit a line through noisy points with stochastic gradient descent."""

import torch

torch.manual_seed(0)
x = torch.linspace(-2, 2, 100).unsqueeze(1)
y = 3 * x - 1 + 0.1 * torch.randn(100, 1)
weight = torch.zeros(1, 1, requires_grad=True)
bias = torch.zeros(1, requires_grad=True)

for _ in range(50):
    loss = ((x @ weight + bias - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for parameter in (weight, bias):
            parameter -= 0.1 * parameter.grad
            parameter.grad.zero_()
    print(loss.item())
