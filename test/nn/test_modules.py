"""Modules, optimizers and data loading: what programs rely on."""

from __future__ import annotations

import copy
import io

import flambeau as fb
import numpy as np
import pytest
from flambeau import nn


def small_net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def test_results_of_parameters_are_plain_tensors():
    weight = nn.Parameter(fb.ones(3))
    result = weight * 2 + fb.ones(3)
    assert type(result) is fb.Tensor
    assert repr(result) == "tensor([3., 3., 3.], grad_fn=<AddBackward0>)"
    assert isinstance(weight.detach(), fb.Tensor)


def test_parameters_are_found_named_and_ordered():
    net = small_net()
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert sum(p.numel() for p in net.parameters()) == 4 * 8 + 8 + 8 * 3 + 3


def test_state_survives_a_file():
    first, second = small_net(), small_net()
    stream = io.BytesIO()
    fb.save(first.state_dict(), stream)
    stream.seek(0)
    second.load_state_dict(fb.load(stream))
    x = fb.randn(5, 4)
    assert fb.equal(first(x), second(x))


def test_load_state_dict_names_what_does_not_fit():
    with pytest.raises(RuntimeError, match=r"size mismatch for weight.*\[3, 2\]"):
        nn.Linear(2, 4).load_state_dict(nn.Linear(2, 3).state_dict())
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: .*bias"):
        nn.Linear(2, 4).load_state_dict({"weight": fb.zeros(4, 2)})


def test_train_and_eval_switch_dropout_and_batch_norm():
    fb.manual_seed(0)
    drop = nn.Dropout(0.5)
    x = fb.ones(1000)
    assert 0.3 < (drop(x) == 0).float().mean().item() < 0.7
    assert fb.equal(drop.eval()(x), x)
    norm = nn.BatchNorm1d(3)
    data = fb.randn(50, 3) * 2 + 1
    out = norm(data)
    assert fb.allclose(out.mean(0), fb.zeros(3), atol=1e-5)
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * data.mean(0).numpy(), rtol=1e-4)
    assert norm.num_batches_tracked.item() == 1
    before = norm.running_mean.clone()
    norm.eval()(data)
    assert fb.equal(before, norm.running_mean)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: fb.optim.SGD(p, lr=0.05, momentum=0.9),
        lambda p: fb.optim.Adam(p, lr=0.05),
        lambda p: fb.optim.AdamW(p, lr=0.05),
    ],
)
def test_optimizers_fit_a_line_and_keep_their_state(make):
    fb.manual_seed(1)
    x = fb.randn(64, 4)
    target = x @ fb.tensor([[1.0], [-2.0], [0.5], [3.0]]) + 0.7
    layer = nn.Linear(4, 1)
    optimizer = make(layer.parameters())
    for _ in range(200):
        loss = nn.functional.mse_loss(layer(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-2
    twin = copy.deepcopy(layer)
    other = make(twin.parameters())
    other.load_state_dict(optimizer.state_dict())
    for module, stepper in ((layer, optimizer), (twin, other)):
        stepper.zero_grad()
        nn.functional.mse_loss(module(x), target).backward()
        stepper.step()
    assert fb.equal(layer.weight, twin.weight)


def test_hooks_of_modules():
    seen = []
    layer = nn.Linear(2, 2)
    handle = layer.register_forward_hook(lambda module, inputs, output: seen.append(tuple(output.shape)))
    layer(fb.zeros(3, 2))
    handle.remove()
    layer(fb.zeros(4, 2))
    assert seen == [(3, 2)]


def test_loader_batches_shuffles_and_uses_processes():
    from flambeau.utils.data import DataLoader, TensorDataset

    data = TensorDataset(fb.arange(10), fb.arange(10) * 2)
    batches = list(DataLoader(data, batch_size=4))
    assert [len(x) for x, _ in batches] == [4, 4, 2]
    shuffled = fb.cat([x for x, _ in DataLoader(data, batch_size=3, shuffle=True)])
    assert sorted(shuffled.tolist()) == list(range(10))
    parallel = fb.cat([y for _, y in DataLoader(data, batch_size=4, num_workers=2)])
    assert parallel.tolist() == [2 * i for i in range(10)]


def test_no_layer_hides_a_method_of_module():
    """A declaration on a class, such as an option's name, must not stand before a method."""
    methods = [n for n in dir(nn.Module) if n[0] != "_" and callable(getattr(nn.Module, n))]
    layers = [c for c in vars(nn).values() if isinstance(c, type) and issubclass(c, nn.Module)]
    hidden = {(c.__name__, n) for c in layers for n in methods if not callable(getattr(c, n))}
    assert len(layers) > 100 and not hidden
    assert list(nn.ReLU().buffers()) == []
