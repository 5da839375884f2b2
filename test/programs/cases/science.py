"""Differential equations, Gaussian processes, probabilistic programs, graphs, explanations."""

from __future__ import annotations

import torch

from programs.cases import descend, numbers, program


@program("einops/rearrange, reduce, repeat, einsum and layers")
def einops_layers():
    import einops
    from einops.layers.torch import Rearrange, Reduce

    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 6)
    parts = [
        einops.rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3),
        einops.reduce(x, "b c h w -> b c", "max"),
        einops.repeat(x[:, 0], "b h w -> b h (w r)", r=2),
        einops.einsum(x, x, "b c h w, b d h w -> c d"),
        torch.nn.Sequential(Rearrange("b c h w -> b (c h) w"), Reduce("b c w -> b w", "mean"))(x),
    ]
    packed, shapes = einops.pack([x, x[..., 0]], "b c *")
    return [n for part in (*parts, packed, *einops.unpack(packed, shapes, "b c *")) for n in numbers(part, 5)]


@program("torchdiffeq/odeint and adjoint")
def ode():
    from torchdiffeq import odeint, odeint_adjoint

    torch.manual_seed(0)
    field = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = field

        def forward(self, t, y):
            return self.net(y)

    start, times, wanted = torch.tensor([[1.0, 0.0]]), torch.linspace(0, 1, 5), torch.randn(5, 1, 2)
    model = Field()
    losses = descend(
        model.parameters(), lambda: (odeint_adjoint(model, start, times) - wanted).square().mean(), steps=5
    )
    return [*losses, *numbers(odeint(model, start, times, method="rk4"))]


@program("gpytorch/exact regression")
def gaussian_process():
    import gpytorch

    torch.manual_seed(0)
    x = torch.linspace(0, 1, 20)
    y = torch.sin(6 * x) + 0.1 * torch.randn(20)

    class Regression(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Regression(likelihood)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = descend(model.parameters(), lambda: -objective(model(x), y), lr=0.1)
    model.eval(), likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(torch.linspace(0.05, 0.95, 7)))
        return [*losses, *numbers(found.mean), *numbers(found.variance)]


@program("botorch/expected improvement")
def bayesian_optimisation():
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(0)
    x = torch.rand(8, 2, dtype=torch.float64)
    y = -((x - 0.4) ** 2).sum(1, keepdim=True)
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = LogExpectedImprovement(model, best_f=y.max())
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    candidate, value = optimize_acqf(acquisition, bounds, q=1, num_restarts=2, raw_samples=16)
    return [round(n, 2) for n in (*candidate[0].tolist(), value.item())]


@program("pyro/variational inference")
def pyro_svi():
    import pyro
    import pyro.distributions as dist

    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    data = torch.randn(30) * 0.5 + 2

    def model(data):
        mean = pyro.sample("mean", dist.Normal(0.0, 5.0))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        with pyro.plate("data", len(data)):
            pyro.sample("obs", dist.Normal(mean, scale), obs=data)

    guide = pyro.infer.autoguide.AutoNormal(model)
    svi = pyro.infer.SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), pyro.infer.Trace_ELBO())
    losses = [svi.step(data) for _ in range(30)]
    assert sum(losses[-5:]) < sum(losses[:5])
    return losses


@program("pyro/Hamiltonian sampling")
def pyro_nuts():
    import pyro
    import pyro.distributions as dist

    pyro.set_rng_seed(0)
    data = torch.tensor([1.0, 2.0, 1.5])

    def model():
        mean = pyro.sample("mean", dist.Normal(0.0, 3.0))
        pyro.sample("obs", dist.Normal(mean, 1.0).expand([3]).to_event(1), obs=data)

    sampler = pyro.infer.MCMC(pyro.infer.NUTS(model), num_samples=10, warmup_steps=5, disable_progbar=True)
    sampler.run()
    return numbers(sampler.get_samples()["mean"])


@program("captum/attributions")
def attributions():
    from captum.attr import DeepLift, IntegratedGradients, LayerGradCam, Occlusion, Saliency

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3)
    ).eval()
    x = torch.randn(2, 1, 8, 8, requires_grad=True)
    found = [
        IntegratedGradients(net).attribute(x, target=1, n_steps=8),
        Saliency(net).attribute(x, target=0),
        DeepLift(net).attribute(x, target=2),
        Occlusion(net).attribute(x, (1, 4, 4), target=1, strides=(1, 4, 4)),
        LayerGradCam(net, net[0]).attribute(x, target=1),
    ]
    return [n for part in found for n in numbers(part, 6)]


@program("torch-geometric/gcn and gat")
def graphs():
    from torch_geometric.data import Data
    from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

    torch.manual_seed(0)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = GCNConv(5, 8), GATConv(8, 3, heads=2, concat=False)

        def forward(self, data):
            return self.two(self.one(data.x, data.edge_index).relu(), data.edge_index)

    edges = torch.randint(0, 12, (2, 40))
    data = Data(x=torch.randn(12, 5), edge_index=edges, y=torch.arange(12) % 3)
    model = Net()
    losses = descend(
        model.parameters(), lambda: torch.nn.functional.cross_entropy(model(data), data.y), lr=1e-2
    )
    return [*losses, *numbers(global_mean_pool(model(data), torch.zeros(12, dtype=torch.long)))]


@program("torchmetrics/metrics")
def metrics():
    import torchmetrics as tm

    torch.manual_seed(0)
    scores, labels = torch.rand(40, 3).softmax(-1), torch.randint(0, 3, (40,))
    found = tm.MetricCollection(
        {
            "accuracy": tm.Accuracy("multiclass", num_classes=3),
            "f1": tm.F1Score("multiclass", num_classes=3, average="macro"),
            "auroc": tm.AUROC("multiclass", num_classes=3),
            "confusion": tm.ConfusionMatrix("multiclass", num_classes=3, normalize="true"),
            "calibration": tm.CalibrationError("multiclass", num_classes=3),
        }
    )
    for part in range(0, 40, 10):
        found.update(scores[part : part + 10], labels[part : part + 10])
    more = [tm.R2Score(), tm.PearsonCorrCoef(), tm.SpearmanCorrCoef(), tm.MeanSquaredError()]
    x, y = torch.randn(30), torch.randn(30)
    values = [*found.compute().values(), *(metric(x, y) for metric in more)]
    return [n for value in values for n in numbers(value, 9)]


@program("x-transformers/decoder")
def x_decoder():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    torch.manual_seed(0)
    layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=32, max_seq_len=32, attn_layers=layers))
    ids = torch.randint(0, 32, (2, 16))
    return descend(model.parameters(), lambda: model(ids))


@program("vector-quantize-pytorch/codebooks")
def codebooks():
    from vector_quantize_pytorch import FSQ, ResidualVQ, VectorQuantize

    torch.manual_seed(0)
    x = torch.randn(2, 16, 8)
    vq = VectorQuantize(dim=8, codebook_size=16, decay=0.9, kmeans_init=False)
    quantised, index, loss = vq(x)
    residual, *_ = ResidualVQ(dim=8, num_quantizers=2, codebook_size=16)(x)
    finite, _ = FSQ([5, 5, 5], dim=8)(x)
    return [*numbers(quantised), *numbers(index), *numbers(loss), *numbers(residual), *numbers(finite)]
