"""Convolutions whose options are lists of one number, for all dimensions, or of a wrong length."""

import flambeau
import pytest
from oracle import pytorch

KINDS = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d"]
OPTIONS = [
    {"stride": (2,)},
    {"stride": (2,), "padding": (1,), "dilation": (1,)},
    {"dilation": (2,)},
    {"padding": "same", "dilation": (2,)},
    {"padding": (1,), "padding_mode": "reflect"},
    {"stride": (1, 1, 1, 1)},
    {"stride": ()},
    {"kernel_size": (3,)},
    {"padding": (1, 1, 1, 1)},
]


def outcome(torch, kind, options):
    """Sizes and a sum of gradients, or the exceptions of construction and of the call."""
    torch.manual_seed(0)
    try:
        layer = getattr(torch.nn, kind)(2, 3, **{"kernel_size": 3, **options}).double()
    except Exception as error:
        return type(error).__name__
    shown = [list(layer.weight.shape), repr(layer), layer.stride, layer.dilation]
    dims = int(kind[-2])
    x = torch.arange(2.0 * 6**dims, dtype=torch.float64).reshape(1, 2, *(6,) * dims).requires_grad_()
    try:
        y = layer(x)
    except Exception as error:
        return [*shown, type(error).__name__]
    y.square().sum().backward()
    sums = [y.sum().item(), x.grad.abs().sum().item(), layer.weight.grad.abs().sum().item()]
    return [*shown, list(y.shape), [float(f"{n:.6g}") for n in sums]]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_as_in_pytorch(kind, options):
    if kind.startswith("ConvTranspose") and isinstance(options.get("padding"), str):
        return  # PyTorch takes the letters of "same" for sizes until the call
    assert outcome(flambeau, kind, options) == outcome(pytorch(), kind, options)
