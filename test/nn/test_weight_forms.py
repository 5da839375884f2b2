"""Weights in other forms: normalised, parametrized, fused with what follows; against PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()


def pair(make: Any, seed: int = 0) -> tuple[Any, Any]:
    """The same module in both."""
    out = []
    for m in (fb, torch):
        m.manual_seed(seed)
        out.append(make(m))
    return out[0], out[1]


def trained(m: Any, module: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Outputs and parameters over some steps."""
    x = m.tensor(np.random.default_rng(0).standard_normal(shape).astype("f4"))
    optimizer = m.optim.SGD(module.parameters(), lr=0.01)
    out = []
    for _ in range(3):
        optimizer.zero_grad()
        y = module(x)
        (y**2).sum().backward()
        optimizer.step()
        out.append(y.detach().numpy())
    module.eval()
    out.append(module(x).detach().numpy())
    return [*out, *(v.detach().numpy() for v in module.state_dict().values())]


def compare(make: Any, shape: tuple[int, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = pair(make)
        a, b = trained(fb, ours, shape), trained(torch, theirs, shape)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)


LAYERS = {
    "linear": (lambda m: m.nn.Linear(4, 3), (5, 4)),
    "conv": (lambda m: m.nn.Conv2d(2, 3, 3), (2, 2, 5, 5)),
    "transposed": (lambda m: m.nn.ConvTranspose2d(2, 3, 3), (2, 2, 5, 5)),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(layer: str, dim: int | None) -> None:
    make, shape = LAYERS[layer]
    compare(lambda m: m.nn.utils.weight_norm(make(m), dim=dim), shape)
    compare(lambda m: m.nn.utils.parametrizations.weight_norm(make(m), dim=dim), shape)


@pytest.mark.parametrize("layer", LAYERS)
def test_spectral_norm(layer: str) -> None:
    make, shape = LAYERS[layer]
    compare(lambda m: m.nn.utils.spectral_norm(make(m), n_power_iterations=3), shape)
    compare(lambda m: m.nn.utils.parametrizations.spectral_norm(make(m)), shape)


def test_removing_norms_keeps_the_weight() -> None:
    for add, remove in (("weight_norm", "remove_weight_norm"), ("spectral_norm", "remove_spectral_norm")):
        layer = getattr(fb.nn.utils, add)(fb.nn.Linear(3, 2)).eval()
        before = layer(fb.ones(1, 3))
        with pytest.raises(RuntimeError, match="Cannot register two"):
            getattr(fb.nn.utils, add)(layer)
        getattr(fb.nn.utils, remove)(layer)
        assert fb.allclose(layer(fb.ones(1, 3)), before)
        assert sorted(layer.state_dict()) == ["bias", "weight"]
        with pytest.raises(ValueError, match="not found"):
            getattr(fb.nn.utils, remove)(layer)


def test_parametrized_tensors() -> None:
    def run(m: Any) -> list[Any]:
        class Symmetric(m.nn.Module):
            def forward(self, x: Any) -> Any:
                return x.triu() + x.triu(1).t()

            def right_inverse(self, x: Any) -> Any:
                return x.triu()

        class Doubled(m.nn.Module):
            def forward(self, x: Any) -> Any:
                return 2 * x

            def right_inverse(self, x: Any) -> Any:
                return x / 2

        p = m.nn.utils.parametrize
        layer = m.nn.Linear(3, 3)
        m.nn.init.ones_(layer.weight)
        p.register_parametrization(layer, "weight", Symmetric())
        p.register_parametrization(layer, "weight", Doubled())
        seen = [list(layer.state_dict()), type(layer).__name__, p.is_parametrized(layer, "weight")]
        layer.weight = m.arange(9.0).reshape(3, 3)
        seen += [layer.weight.tolist(), [n for n, _ in layer.named_parameters()]]
        with p.cached():
            seen.append(layer.weight is layer.weight)
        layer(m.ones(1, 3)).sum().backward()
        seen.append(layer.parametrizations.weight.original.grad.tolist())
        p.remove_parametrizations(layer, "weight")
        return [*seen, layer.weight.tolist(), type(layer).__name__, list(layer.state_dict())]

    assert run(fb) == run(torch)


def test_wrong_parametrizations_are_refused() -> None:
    class Wider(fb.nn.Module):
        def forward(self, x: Any) -> Any:
            return fb.cat([x, x])

    p = fb.nn.utils.parametrize
    with pytest.raises(ValueError, match="may not change the shape"):
        p.register_parametrization(fb.nn.Linear(2, 2), "weight", Wider())
    with pytest.raises(ValueError, match="does not have a parameter"):
        p.register_parametrization(fb.nn.Linear(2, 2), "nothing", fb.nn.Identity())
    with pytest.raises(ValueError, match="does not have a parametrization"):
        p.remove_parametrizations(fb.nn.Linear(2, 2), "weight")


@pytest.mark.parametrize("transpose", [False, True])
def test_fused_layers_compute_the_same(transpose: bool) -> None:
    conv = fb.nn.ConvTranspose2d(2, 4, 3) if transpose else fb.nn.Conv2d(2, 4, 3)
    bn = fb.nn.BatchNorm2d(4)
    x = fb.randn(3, 2, 6, 6)
    bn(conv(x))
    with pytest.raises(AssertionError, match="only for eval"):
        fb.nn.utils.fuse_conv_bn_eval(conv, bn, transpose)
    fused = fb.nn.utils.fuse_conv_bn_eval(conv.eval(), bn.eval(), transpose)
    assert fb.allclose(fused(x), bn(conv(x)), atol=1e-5)
    linear, bn = fb.nn.Linear(3, 4).eval(), fb.nn.BatchNorm1d(4).eval()
    y = fb.randn(5, 3)
    assert fb.allclose(fb.nn.utils.fuse_linear_bn_eval(linear, bn)(y), bn(linear(y)), atol=1e-5)
    assert fb.nn.utils.skip_init(fb.nn.Linear, 2, 3).weight.shape == (3, 2)


# --- orthogonal ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3), (2, 3, 3)])
@pytest.mark.parametrize("way", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("follows", [True, False])
def test_orthogonal_weights_are_those_of_pytorch(shape, way, follows):
    values = np.random.default_rng(1).standard_normal(shape)
    found = []
    for m in (fb, torch):
        m.manual_seed(0)
        owner = m.nn.Module()
        owner.weight = m.nn.Parameter(m.tensor(values))
        m.nn.utils.parametrizations.orthogonal(owner, orthogonal_map=way, use_trivialization=follows)
        weight = owner.weight
        (weight * m.arange(weight.numel()).reshape(weight.shape)).sum().backward()
        found.append([weight, owner.parametrizations.weight.original.grad])
        state = {k: tuple(v.shape) for k, v in owner.state_dict().items()}
        found[-1].append(state)
        products = weight.mT @ weight if shape[-2] >= shape[-1] else weight @ weight.mT
        one = np.broadcast_to(np.eye(products.shape[-1]), products.shape)
        np.testing.assert_allclose(products.detach().numpy(), one, atol=1e-10)
    (ours, our_grad, our_state), (theirs, their_grad, their_state) = found
    assert our_state == their_state
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-10)
    np.testing.assert_allclose(our_grad.numpy(), their_grad.numpy(), atol=1e-10)


def test_orthogonal_takes_a_new_value():
    layer = fb.nn.utils.parametrizations.orthogonal(fb.nn.Linear(3, 3))
    turned = fb.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])
    layer.weight = turned
    np.testing.assert_allclose(layer.weight.detach().numpy(), turned.numpy(), atol=1e-6)


def test_orthogonal_refuses_a_tensor_that_is_not_a_matrix():
    for m in (fb, torch):
        orthogonal = m.nn.utils.parametrizations.orthogonal
        with pytest.raises(ValueError, match="matri"):
            orthogonal(m.nn.Linear(3, 3), "bias")
        with pytest.raises(ValueError, match="no parameter"):
            orthogonal(m.nn.Linear(3, 3), "nothing")
        with pytest.raises(ValueError, match="householder"):
            orthogonal(m.nn.Linear(3, 3), orthogonal_map="other")
