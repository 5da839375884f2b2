"""A network in channels last: its parameters, activations and gradients stay so, and equal PyTorch's."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()


def network(m: Any) -> Any:
    nn = m.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.Conv2d(8, 12, 1),
        nn.GroupNorm(3, 12),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.ReflectionPad2d(1),
        nn.ConvTranspose2d(12, 6, 3, stride=2),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(96, 5),
    )


def filled(m: Any, model: Any) -> Any:
    with m.no_grad():
        for parameter in model.parameters():
            values = np.sin(np.arange(parameter.numel()) + 1) / (parameter.numel() / len(parameter)) ** 0.5
            parameter.copy_(m.tensor(values.astype(np.float32)).reshape(parameter.shape))
    return model


def run(m: Any) -> tuple[list[Any], Any]:
    """Every activation of one training step, the input first, and the model."""
    model = filled(m, network(m)).to(memory_format=m.channels_last)
    x = m.tensor(np.cos(np.arange(2 * 3 * 16 * 16, dtype=np.float32))).reshape(2, 3, 16, 16)
    x = x.contiguous(memory_format=m.channels_last).requires_grad_(True)
    activations = [x]
    for layer in model:
        activations.append(layer(activations[-1]))
        activations[-1].retain_grad()
    m.nn.functional.cross_entropy(activations[-1], m.tensor([1, 3])).backward()
    return activations, model


def close(a: Any, b: Any) -> None:
    values = b.detach().numpy()
    np.testing.assert_allclose(a.detach().numpy(), values, rtol=1e-3, atol=1e-6 + 1e-4 * np.abs(values).max())


def test_a_step_stays_channels_last_and_gives_the_same_numbers() -> None:
    (ours, model), (theirs, oracle) = run(fb), run(torch)
    for a, b in zip(ours, theirs, strict=True):
        assert a.stride() == b.stride()
        assert a.dim() != 4 or a.shape[2] == 4 or a.grad.is_contiguous(memory_format=fb.channels_last)
        close(a, b)
        close(a.grad, b.grad)
    for p, q in zip(model.parameters(), oracle.parameters(), strict=True):
        assert p.stride() == q.stride()
        close(p.grad, q.grad)
        if p.dim() == 4:
            assert p.grad.is_contiguous(memory_format=fb.channels_last)


def test_to_lays_parameters_out_anew() -> None:
    def strides(m: Any) -> list[Any]:
        model = m.nn.Sequential(m.nn.Conv2d(3, 4, 3), m.nn.Linear(2, 2), m.nn.BatchNorm2d(4))
        model[0](m.ones(1, 3, 5, 5)).sum().backward()
        model = model.to(memory_format=m.channels_last)
        return [t.stride() for t in [*model.parameters(), *model.buffers(), model[0].weight.grad]]

    assert strides(fb) == strides(torch)


def test_channels_last_3d_for_volumes_only() -> None:
    model = fb.nn.Conv3d(2, 3, 3).to(memory_format=fb.channels_last_3d)
    assert model.weight.is_contiguous(memory_format=fb.channels_last_3d)
    assert model(fb.ones(1, 2, 4, 4, 4)).is_contiguous(memory_format=fb.channels_last_3d)
    with pytest.raises(RuntimeError, match="expected 4 dimensions"):
        model.to(memory_format=fb.channels_last)


def test_double_backward_through_channels_last() -> None:
    def second(m: Any) -> Any:
        x = (
            (m.arange(96.0).reshape(2, 3, 4, 4) / 50)
            .contiguous(memory_format=m.channels_last)
            .requires_grad_(True)
        )
        w = (m.arange(54.0).reshape(2, 3, 3, 3) / 50).requires_grad_(True)
        y = m.nn.functional.max_pool2d(m.nn.functional.conv2d(x, w, padding=1), 2)
        y = m.nn.functional.batch_norm(y, None, None, training=True) + m.nn.functional.avg_pool2d(y, 1)
        grads = m.autograd.grad((y**2).sum(), [x, w], create_graph=True)
        return m.autograd.grad(sum((g**2).sum() for g in grads), [x, w])

    for a, b in zip(second(fb), second(torch), strict=True):
        close(a, b)
