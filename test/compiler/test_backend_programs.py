"""Programs that use many parts of the package: the default backend changes no result, gradient or state."""

import copy

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau._dynamo.utils import counters
from flambeau.compiler.passes import fusion
from flambeau.utils.checkpoint import checkpoint

nn, func = fb.nn, fb.func


class Cubed(fb.autograd.Function):
    """A function that defines its own gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x + 1

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 3 + 1


def masked_write(x, layers):
    y = x * 1.0
    y[y > 0] = 0.5
    return y * 2 + 1


def updates_a_parameter(x, layers):
    return (layers["linear"].weight.detach().add_(0.01).sum() + x) * 2 + 1


PROGRAMS = {
    "vmap": lambda x, m: func.vmap(lambda row: (row * 2 + 1).sin())(x) * 2,
    "grad": lambda x, m: func.grad(lambda z: (z * 2).sin().sum())(x) * 2 + x,
    "jvp": lambda x, m: func.jvp(lambda z: (z * 2).sin(), (x,), (x,))[1] * 2,
    "Function": lambda x, m: Cubed.apply(x * 2 + 1) * 2 + 1,
    "checkpoint": lambda x, m: checkpoint(lambda z: (z * 2).sin() * z, x, use_reentrant=False) * 2 + 1,
    "mask": lambda x, m: (x[x > 0] * 2 + 1).sum(),
    "masked write": masked_write,
    "index": lambda x, m: (x[fb.tensor([0, 2])] * 2 + 1).sin(),
    "embedding": lambda x, m: F.embedding(fb.tensor([1, 2]), x) * 2 + 1,
    "linear": lambda x, m: F.gelu(m["linear"](x) * 2) + 1,
    "batch norm": lambda x, m: F.relu(m["norm"](x) * 2) + 1,
    "gru": lambda x, m: m["gru"](x[None] * 2 + 1)[0] * 2 + 1,
    "attention": lambda x, m: m["attention"](x[None] * 2, x[None], x[None])[0] * 2 + 1,
    "dropout in attention": lambda x, m: F.scaled_dot_product_attention(
        x[None] * 2, x[None], x[None], dropout_p=0.2
    ),
    "convolution": lambda x, m: F.conv1d(x[None] * 2 + 1, fb.ones(4, 4, 3), padding=1) * 2 + 1,
    "pooling": lambda x, m: F.max_pool1d(x[None] * 2 + 1, 2) * 2 + 1,
    "sort": lambda x, m: (x * 2).sort(0)[0] * 2 + 1,
    "topk": lambda x, m: (x * 2).topk(2, 0)[0] * 2 + 1,
    "cumsum": lambda x, m: (x * 2).cumsum(0) * 2 + 1,
    "cat": lambda x, m: fb.cat([x * 2 + 1, x * 3 - 1]).sin() * 2,
    "unbind": lambda x, m: sum(part * 2 + 1 for part in fb.stack([x, x * 2]).unbind(0)),
    "einsum": lambda x, m: fb.einsum("ij,kj->ik", x * 2 + 1, x) * 2 + 1,
    "fft": lambda x, m: fb.fft.fft(x * 2 + 1).abs() * 2 + 1,
    "where": lambda x, m: fb.where(x > 0, x * 2, x * 3) + 1,
    "random": lambda x, m: (x * 2 + fb.rand(4, 6)) * fb.randn_like(x),
    "norm": lambda x, m: fb.linalg.norm(x * 2 + 1) * 2 + x,
    "inverse": lambda x, m: fb.linalg.inv((x @ x.t()) * 0.1 + fb.eye(4)) * 2 + 1,
    "item": lambda x, m: x * (x.sum().item() * 2) + 1,
    "sizes": lambda x, m: x * x.shape[0] + x.numel(),
    "numpy": lambda x, m: x * 2 + fb.from_numpy((x.detach() * 1).numpy()) + 1,
    "in place": lambda x, m: F.relu(x * 2, inplace=True) * 2 + 1,
    "a parameter": updates_a_parameter,
}


def layers():
    fb.manual_seed(3)
    return nn.ModuleDict(
        {
            "linear": nn.Linear(6, 6),
            "norm": nn.BatchNorm1d(6),
            "gru": nn.GRU(6, 5, batch_first=True),
            "attention": nn.MultiheadAttention(6, 2, batch_first=True),
        }
    )


def runs(function, modules, requires_grad):
    """Return result, gradients and state of three calls."""
    found = []
    for seed in range(3):
        fb.manual_seed(seed)
        x = fb.arange(24.0).view(4, 6).sin().requires_grad_(requires_grad)
        modules.zero_grad()
        y = function(x, modules)
        if y.requires_grad:
            (y * fb.arange(y.numel()).view_as(y).cos()).sum().backward()
        gradients = [x.grad, *(p.grad for p in modules.parameters())]
        found.append((y, gradients, copy.deepcopy(modules.state_dict())))
    return found


def close(a, b):
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and fb.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_the_same_results(name, requires_grad, monkeypatch):
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    function = PROGRAMS[name]
    expected = runs(function, layers(), requires_grad)
    counters["fusion"].clear()
    found = runs(fb.compile(function), layers(), requires_grad)
    assert sum(counters["fusion"].values()) > 0
    for (y, gradients, state), (other, others, theirs) in zip(found, expected, strict=True):
        assert y.requires_grad == other.requires_grad and close(y.detach(), other.detach())
        assert all(map(close, gradients, others))
        assert all(close(state[key], theirs[key]) for key in theirs)


def test_results_that_nothing_reads_give_no_gradient(monkeypatch):
    """Parameters that only unused results depend on have None as gradient, as in eager mode, not zeros."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)

    def function(a, b, c):
        return a.sin() * 2, (b * 2 + a, a.ceil() * 3), (c.exp() * 2 + 1).t()

    compiled = fb.compile(function)
    for read in range(1, 16):

        def gradients(function, read=read):
            leaves = [fb.arange(6.0).view(2, 3).requires_grad_() for _ in range(3)]
            x, (y, z), w = function(*leaves)
            ends = [t for k, t in enumerate((x, y, z, w)) if read >> k & 1]
            return fb.autograd.grad([t.sum() for t in ends], leaves, allow_unused=True)

        for _ in range(2):
            found, expected = gradients(compiled), gradients(function)
            assert all(map(close, found, expected)), (read, found, expected)
