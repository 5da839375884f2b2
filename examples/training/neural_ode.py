"""Learn a vector field: Runge-Kutta steps, gradients by an adjoint in a custom Function."""

import torch
from torch import nn

torch.manual_seed(15)


def rk4(field, y, dt):
    a = field(y)
    b = field(y + dt / 2 * a)
    c = field(y + dt / 2 * b)
    d = field(y + dt * c)
    return y + dt / 6 * (a + 2 * b + 2 * c + d)


class Solve(torch.autograd.Function):
    """Integrates forwards without a graph; backwards each step is repeated with one."""

    @staticmethod
    def forward(ctx, field, y, steps, dt, *parameters):
        states = [y]
        with torch.no_grad():
            for _ in range(steps):
                states.append(rk4(field, states[-1], dt))
        ctx.field, ctx.dt, ctx.parameters = field, dt, parameters
        ctx.save_for_backward(*states)
        return torch.stack(states)

    @staticmethod
    def backward(ctx, gradient):
        states, total = ctx.saved_tensors, [torch.zeros_like(p) for p in ctx.parameters]
        adjoint = gradient[-1]
        for i in reversed(range(len(states) - 1)):
            with torch.enable_grad():
                y = states[i].detach().requires_grad_()
                after = rk4(ctx.field, y, ctx.dt)
            found = torch.autograd.grad(after, (y, *ctx.parameters), adjoint, allow_unused=True)
            adjoint = found[0] + gradient[i]
            total = [t if g is None else t + g for t, g in zip(total, found[1:], strict=True)]
        return None, adjoint, None, None, *total


field = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
truth = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
start = torch.tensor([[1.0, 0.0], [0.0, 1.5]])
with torch.no_grad():
    wanted = [start]
    for _ in range(10):
        wanted.append(rk4(lambda y: y @ truth.T, wanted[-1], 0.05))
    wanted = torch.stack(wanted)
optimizer = torch.optim.Adamax(field.parameters(), lr=1e-2)
for _ in range(50):
    path = Solve.apply(field, start, 10, 0.05, *field.parameters())
    loss = (path - wanted).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
