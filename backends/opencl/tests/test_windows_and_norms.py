"""Pooling and normalisation on OpenCL devices: results and gradients against the CPU's, without its help."""

import flambeau as torch
import pytest
from flambeau.nn import functional as F

pytest.importorskip("flambeau_opencl", reason="not built, or without a device", exc_type=ImportError)

BOUNDS = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DTYPES = list(BOUNDS)


@pytest.fixture(autouse=True)
def no_fallback():
    """Refuse operators without a kernel of the device."""
    before = torch.utils.set_privateuse1_fallback("error")
    yield
    torch.utils.set_privateuse1_fallback(before)


def numbers(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def agree(program, *tensors):
    """Run a program of tensors on both devices; compare its results and the gradients of all tensors."""
    bound = BOUNDS[tensors[0].dtype]
    runs = []
    for device in ("cpu", "opencl"):
        leaves = [t.detach().to(device).requires_grad_() for t in tensors]
        found = program(*leaves)
        results = list(found) if isinstance(found, tuple) else [found]
        floating = [r for r in results if r.is_floating_point()]
        weights = [numbers(*r.shape, dtype=r.dtype, seed=7).to(device) for r in floating]
        total = sum((r * w).sum() for r, w in zip(floating, weights, strict=True))
        grads = torch.autograd.grad(total, leaves)
        assert all(t.device.type == device for t in (*results, *grads))
        runs.append([*results, *grads])
    for theirs, ours in zip(*runs, strict=True):
        assert theirs.stride() == ours.stride()
        torch.testing.assert_close(ours.cpu(), theirs, rtol=bound, atol=bound, equal_nan=True)


SHAPES = {1: (2, 3, 11), 2: (2, 3, 9, 8), 3: (2, 2, 6, 5, 7)}


@pytest.mark.parametrize("dims", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_of_every_rank(dims, dtype):
    x = numbers(*SHAPES[dims], dtype=dtype)
    maximum, mean = getattr(F, f"max_pool{dims}d"), getattr(F, f"avg_pool{dims}d")
    agree(lambda t: maximum(t, 3, 2, 1, return_indices=True), x)
    agree(lambda t: maximum(t, 2, 1, 1, 2, ceil_mode=True, return_indices=True), x)
    agree(lambda t: mean(t, 3, 2, 1), x)
    agree(lambda t: mean(t, 2, 3, 1, ceil_mode=True, count_include_pad=False), x)
    agree(lambda t: getattr(F, f"adaptive_avg_pool{dims}d")(t, 4), x)
    agree(lambda t: getattr(F, f"adaptive_max_pool{dims}d")(t, 3, return_indices=True), x)
    agree(lambda t: mean(t, 3, 2, 1), x[0])


def test_windows_over_other_layouts():
    x = numbers(3, 9, 8, 4).permute(0, 3, 1, 2)
    agree(lambda t: F.max_pool2d(t, (3, 2), (2, 1), (1, 0), return_indices=True), x)
    agree(lambda t: F.avg_pool2d(t[1:, 1:, ::2], 2, divisor_override=3), x)
    agree(lambda t: F.adaptive_avg_pool2d(t, (5, 3)), x.contiguous(memory_format=torch.channels_last))
    agree(lambda t: F.max_pool2d(t, 2), x.contiguous(memory_format=torch.channels_last))


def test_maxima_of_ties_and_special_values():
    x = torch.zeros(1, 2, 8)
    x[0, 1, 3] = float("nan")
    x[0, 1, 5] = x[0, 0, 2] = -float("inf")
    on_device = x.to("opencl")
    for kernel, stride in ((3, 1), (2, 2), (8, 1)):
        values, places = F.max_pool1d(on_device, kernel, stride, return_indices=True)
        expected = F.max_pool1d(x, kernel, stride, return_indices=True)
        torch.testing.assert_close(values.cpu(), expected[0], equal_nan=True, rtol=0, atol=0)
        assert places.cpu().equal(expected[1])
    empty = torch.ones(0, 2, 8, device="opencl")
    assert F.max_pool1d(empty, 2).shape == F.avg_pool1d(empty, 2).shape == (0, 2, 4)
    whole = torch.arange(16).reshape(1, 4, 4)
    assert F.max_pool2d(whole.to("opencl"), 2).cpu().equal(F.max_pool2d(whole, 2))


def test_places_outside_of_a_plane_write_nothing():
    grad = torch.ones(1, 1, 2, device="opencl")
    for place in (-1, 4, 2**40):
        places = torch.tensor([[[1, place]]], device="opencl")
        assert torch.ops.aten._max_pool_backward(grad, places, [1, 1, 4], 1).cpu().tolist() == [
            [[0, 1, 0, 0]]
        ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_normalisation_by_batch_layer_and_group(dtype):
    x, w, b = numbers(4, 6, 5, dtype=dtype), numbers(6, dtype=dtype, seed=1), numbers(6, dtype=dtype, seed=2)
    agree(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b)
    agree(lambda x, w, b: F.group_norm(x, 3, w, b), x, w, b)
    agree(lambda x, w, b: F.instance_norm(x, None, None, w, b), x, w, b)
    agree(lambda x, w, b: F.layer_norm(x, (5,), w[:5], b[:5]), x, w, b)
    agree(lambda x: F.layer_norm(x, (6, 5)), x)
    agree(lambda x: F.group_norm(x * 1e3, 2), x)


def test_normalisation_of_long_groups_and_other_layouts():
    x, w, b = numbers(3, 4, 40, 30), numbers(4, seed=1), numbers(4, seed=2)
    agree(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b)
    agree(lambda x, w, b: F.group_norm(x, 2, w, b), x.contiguous(memory_format=torch.channels_last), w, b)
    agree(lambda x: F.layer_norm(x[:, 1:, ::2].transpose(1, 3), (20, 3)), x)


def test_a_large_mean_costs_no_digits():
    x = numbers(3, 4, 90) + 1e3
    exact = F.layer_norm(x.double(), (90,))
    found = F.layer_norm(x.to("opencl"), (90,)).cpu()
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=3e-6)


@pytest.mark.parametrize("momentum", [0.1, 0.7, None])
def test_running_statistics_move_and_are_used(momentum):
    x = numbers(8, 3, 4)
    layers = [torch.nn.BatchNorm1d(3, momentum=momentum, device=device) for device in ("cpu", "opencl")]
    for step in range(3):
        for layer in layers:
            layer(numbers(8, 3, 4, seed=step).to(layer.weight.device))
    host, device = layers
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(device, name).cpu(), getattr(host, name))
    found, expected = device.eval()(x.to("opencl")), host.eval()(x)
    torch.testing.assert_close(found.cpu(), expected)


def test_gradients_of_gradients():
    x, w = numbers(3, 4, 5, dtype=torch.float64), numbers(4, dtype=torch.float64, seed=1)

    def program(x, w):
        y = F.batch_norm(x, None, None, w, None, training=True)
        (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        return g * g

    agree(program, x, w)
    agree(
        lambda x, w: torch.autograd.grad(F.avg_pool1d(x, 2).exp().sum(), x, create_graph=True)[0] * w[0], x, w
    )


def test_empty_groups_and_mistakes():
    empty = torch.ones(0, 3, device="opencl")
    assert F.layer_norm(empty, (3,)).shape == (0, 3)
    with pytest.raises(RuntimeError, match="expected an input of shape"):
        F.layer_norm(torch.ones(2, 3, device="opencl"), (4,))
    with pytest.raises(RuntimeError, match="output size"):
        F.max_pool1d(torch.ones(1, 1, 2, device="opencl"), 5)
    with pytest.raises(RuntimeError, match="padding"):
        F.avg_pool1d(torch.ones(1, 1, 8, device="opencl"), 2, padding=3)
