"""Solve u'' + u = 0 with a network: second derivatives by autograd, then L-BFGS with line search."""

import torch
from torch import nn

torch.manual_seed(20)
torch.set_default_dtype(torch.float64)


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


model = nn.Sequential(nn.Linear(1, 16), Sine(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
inside = torch.linspace(0, 3, 40).unsqueeze(1).requires_grad_()
edge = torch.zeros(1, 1, requires_grad=True)


def derivative(u, x):
    return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]


def objective():
    u = model(inside)
    residual = derivative(derivative(u, inside), inside) + u
    start = model(edge)
    return residual.square().mean() + (start - 1).square().sum() + derivative(start, edge).square().sum()


adam = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(40):
    adam.zero_grad()
    loss = objective()
    loss.backward()
    adam.step()
    print(loss.item())

lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")


def closure():
    lbfgs.zero_grad()
    loss = objective()
    loss.backward()
    return loss


for _ in range(10):
    print(lbfgs.step(closure).item())
torch.set_default_dtype(torch.float32)
