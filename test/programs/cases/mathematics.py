"""Flows, differential equations, symmetry, derivatives of second order, searches for minima."""

from __future__ import annotations

import torch
from torch import nn

from programs.cases import descend, numbers, program


@program("nflows/real nvp and splines")
def nflows():
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms.autoregressive import (
        MaskedAffineAutoregressiveTransform,
        MaskedPiecewiseRationalQuadraticAutoregressiveTransform,
    )
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.permutations import ReversePermutation

    torch.manual_seed(0)
    spline = MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
        features=2, hidden_features=8, tails="linear", tail_bound=3.0, num_bins=4
    )
    parts = [
        ReversePermutation(2),
        MaskedAffineAutoregressiveTransform(features=2, hidden_features=8),
        spline,
    ]
    flow = Flow(CompositeTransform(parts), StandardNormal([2]))
    x = torch.randn(16, 2) * 0.5 + 1
    losses = descend(flow.parameters(), lambda: -flow.log_prob(x).mean(), lr=1e-2)
    return [*losses, *numbers(flow.sample(4))]


@program("normflows/planar and coupling")
def normflows():
    import normflows as nf

    torch.manual_seed(0)
    flows = []
    for _ in range(2):
        flows.append(nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2], init_zeros=True)))
        flows.append(nf.flows.Permute(2, mode="swap"))
    model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), flows)
    x = torch.randn(16, 2) * 0.5 + 1
    losses = descend(model.parameters(), lambda: model.forward_kld(x), lr=1e-2)
    return [*losses, *numbers(model.sample(4)[0])]


@program("zuko/flows")
def zuko():
    import zuko

    out = []
    x, context = torch.randn(16, 3, generator=torch.Generator().manual_seed(1)), torch.ones(16, 2)
    for kind in (
        zuko.flows.MAF,
        zuko.flows.NSF,
        zuko.flows.NICE,
        zuko.flows.GF,
        zuko.flows.NAF,
        zuko.flows.BPF,
    ):
        torch.manual_seed(0)
        flow = kind(features=3, context=2, transforms=1, hidden_features=(8,))
        out += descend(flow.parameters(), lambda f=flow: -f(context).log_prob(x).mean(), steps=4, lr=1e-2)
    torch.manual_seed(0)
    return [*out, *numbers(zuko.flows.MAF(3, 0, hidden_features=(8,))().sample((4,)))]


@program("torchsde/integration and adjoint")
def stochastic_equation():
    import torchsde

    class Equation(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self):
            super().__init__()
            self.drift, self.spread = nn.Linear(3, 3), nn.Linear(3, 3)

        def f(self, t, y):
            return torch.tanh(self.drift(y))

        def g(self, t, y):
            return torch.sigmoid(self.spread(y)) * 0.1

    torch.manual_seed(0)
    model, start, times = Equation(), torch.randn(4, 3), torch.linspace(0, 1, 4)
    out = []
    for integrate, method in (
        (torchsde.sdeint, "euler"),
        (torchsde.sdeint, "milstein"),
        (torchsde.sdeint_adjoint, "euler"),
    ):
        noise = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(4, 3), entropy=7)
        y = integrate(model, start, times, bm=noise, dt=0.1, method=method)
        model.zero_grad()
        y.square().sum().backward()
        out += [*numbers(y[-1]), *numbers(model.drift.weight.grad)]
    return out


@program("torchcde/controlled equation")
def controlled_equation():
    import torchcde

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4 * 3)

        def forward(self, t, z):
            return torch.tanh(self.linear(z)).view(-1, 4, 3)

    torch.manual_seed(0)
    x = torch.cat([torch.linspace(0, 1, 6).expand(2, 6)[..., None], torch.randn(2, 6, 2)], -1)
    x[0, 2, 1] = float("nan")
    path = torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(x))
    natural = torchcde.natural_cubic_coeffs(x)
    model = Field()
    run = lambda: torchcde.cdeint(X=path, func=model, z0=torch.ones(2, 4), t=path.interval, method="rk4",  # noqa: E731
                                  options={"step_size": 0.25})[:, -1]  # fmt: skip
    return [*descend(model.parameters(), lambda: (run() - 2).square().mean(), steps=4), *numbers(natural)]


@program("e3nn/equivariant layers")
def equivariant():
    from e3nn import nn as layers
    from e3nn import o3

    torch.manual_seed(0)
    irreps = o3.Irreps("2x0e + 1x1o")
    product = o3.FullyConnectedTensorProduct(irreps, "1x0e + 1x1o", irreps)
    x, vectors = torch.randn(5, 5), torch.randn(5, 3)
    harmonics = o3.spherical_harmonics("1x0e + 1x1o", vectors, normalize=True)
    gate = layers.NormActivation(irreps, torch.tanh)
    losses = descend(product.parameters(), lambda: (gate(product(x, harmonics)) - x).square().mean(), steps=4)
    turn = o3.rand_matrix()
    matrix = irreps.D_from_matrix(turn)
    return [*losses, *numbers(matrix @ matrix.T), *numbers(o3.wigner_3j(1, 1, 2))]


@program("geoopt/manifolds")
def manifolds():
    import geoopt

    torch.manual_seed(0)
    ball, sphere, stiefel = geoopt.PoincareBall(), geoopt.Sphere(), geoopt.Stiefel()
    out = []
    for manifold, start in (
        (ball, torch.randn(3, 4) * 0.1),
        (sphere, torch.randn(3, 4)),
        (stiefel, torch.randn(4, 3)),
    ):
        p = geoopt.ManifoldParameter(manifold.projx(start), manifold=manifold)
        goal = torch.randn_like(start)
        for kind in (geoopt.optim.RiemannianAdam, geoopt.optim.RiemannianSGD):
            optimizer = kind([p], lr=1e-2)
            for _ in range(4):
                optimizer.zero_grad()
                loss = (p - goal).square().sum()
                loss.backward()
                optimizer.step()
                out.append(loss.item())
    return [*out, *numbers(ball.dist(start.T[:, :3] * 0.1, start.T[:, :3] * 0.2))]


@program("higher/gradients through training")
def unrolled():
    import higher

    torch.manual_seed(0)
    model, rate = (
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)),
        torch.tensor(0.1, requires_grad=True),
    )
    x = torch.randn(8, 3)
    out = []
    for kind in (torch.optim.SGD, torch.optim.Adam):
        optimizer = kind(model.parameters(), lr=0.1)
        with higher.innerloop_ctx(model, optimizer, override={"lr": [rate]}, copy_initial_weights=False) as (
            f,
            steps,
        ):
            for _ in range(3):
                steps.step((f(x) - x.sum(1, keepdim=True)).square().mean())
            loss = f(x).square().mean()
            grads = torch.autograd.grad(loss, [rate, *model.parameters()])
        out += [loss.item(), *(n for grad in grads for n in numbers(grad, 4))]
    return out


@program("backpack-for-pytorch/second order")
def backpack():
    from backpack import backpack, extend
    from backpack.extensions import KFAC, BatchGrad, DiagGGNExact, Variance

    torch.manual_seed(0)
    model = extend(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
    criterion, out = extend(nn.CrossEntropyLoss()), []
    x, y = torch.randn(6, 3), torch.tensor([0, 1, 1, 0, 1, 0])
    with backpack(BatchGrad(), Variance(), DiagGGNExact(), KFAC(mc_samples=1)):
        criterion(model(x), y).backward()
    for p in model.parameters():
        for part in (p.grad, p.grad_batch, p.variance, p.diag_ggn_exact):
            out += numbers(part, 5)
    return out


@program("laplace-torch/last layer")
def laplace():
    from laplace import Laplace

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))
    x = torch.randn(20, 2)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), 5)
    descend(model.parameters(), lambda: (model(x) - x.sum(1, keepdim=True)).square().mean(), lr=1e-2)
    out = []
    for structure in ("diag", "full", "kron"):
        fitted = Laplace(model, "regression", subset_of_weights="last_layer", hessian_structure=structure)
        fitted.fit(data)
        mean, variance = fitted(x[:3])
        out += [*numbers(mean), *numbers(variance), fitted.log_marginal_likelihood().item()]
    return out


@program("pytorch-minimize/searches")
def minimized():
    from torchmin import minimize
    from torchmin.benchmarks import rosen

    out = []
    for method in ("bfgs", "l-bfgs", "cg", "newton-cg", "newton-exact", "trust-ncg", "trust-exact", "dogleg"):
        found = minimize(rosen, torch.tensor([1.3, 0.7], dtype=torch.float64), method=method, max_iter=60)
        out += [round(n, 4) for n in found.x.tolist()]
    return out


@program("xitorch/roots, integrals and eigenvalues")
def functionals():
    import xitorch
    from xitorch.linalg import symeig
    from xitorch.optimize import rootfinder

    torch.manual_seed(0)
    a = torch.tensor([1.5, 2.0], dtype=torch.float64, requires_grad=True)
    root = rootfinder(lambda y, a: y**3 - a, torch.ones(2, dtype=torch.float64), params=(a,))
    m = torch.randn(4, 4, dtype=torch.float64)
    values = symeig(xitorch.LinearOperator.m((m + m.T).requires_grad_()))[0]
    (root.sum() + values.sum()).backward()
    return [*numbers(root), *numbers(values), *numbers(a.grad)]


@program("torchdyn/neural equation")
def dynamics():
    from torchdyn.core import NeuralODE

    torch.manual_seed(0)
    field = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    model = NeuralODE(field, sensitivity="adjoint", solver="dopri5", atol=1e-4, rtol=1e-4)
    x, times = torch.randn(4, 2), torch.linspace(0, 1, 4)
    return descend(model.parameters(), lambda: (model(x, times)[1][-1] - 1).square().mean(), steps=4)


@program("deepxde/poisson equation")
def poisson():
    import os

    os.environ["DDE_BACKEND"] = "pytorch"
    import deepxde as dde

    dde.config.set_random_seed(0)

    def equation(x, y):
        return dde.grad.hessian(y, x) + torch.pi**2 * torch.sin(torch.pi * x)

    space = dde.geometry.Interval(-1, 1)
    edge = dde.icbc.DirichletBC(space, lambda x: 0, lambda x, on: on)
    data = dde.data.PDE(space, equation, edge, 8, 2, train_distribution="uniform")
    torch.manual_seed(0)
    model = dde.Model(data, dde.nn.FNN([1, 8, 1], "tanh", "Glorot uniform"))
    model.compile("adam", lr=1e-2)
    history, _ = model.train(iterations=20, display_every=5, verbose=0)
    return [float(value) for row in history.loss_train for value in row]
