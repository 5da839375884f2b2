"""Lazy layers, buffers as attributes, older words for losses, against PyTorch."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()

LAZY = [
    ("LazyLinear", (5,), {}, (3, 4)),
    ("LazyLinear", (5,), {"bias": False}, (4,)),
    ("LazyConv1d", (6, 3), {}, (4, 9)),
    ("LazyConv2d", (6, 3), {"padding": 1, "groups": 2}, (2, 4, 5, 5)),
    ("LazyConv3d", (6, 2), {"stride": 2}, (2, 4, 5, 5, 5)),
    ("LazyConvTranspose2d", (6, 3), {"stride": 2}, (2, 4, 5, 5)),
    ("LazyBatchNorm1d", (), {"affine": False}, (2, 4)),
    ("LazyBatchNorm2d", (), {}, (2, 4, 5, 5)),
    ("LazyInstanceNorm2d", (), {}, (2, 4, 5, 5)),
]


@pytest.mark.parametrize(("name", "args", "options", "shape"), LAZY)
def test_lazy_layers(name: str, args: Any, options: Any, shape: Any) -> None:
    def run(m: Any) -> tuple[Any, ...]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            m.manual_seed(0)
            layer, other = (getattr(m.nn, name)(*args, **options) for _ in range(2))
            before = [type(p).__name__ for p in layer.parameters()]
            kept = list(layer.parameters())
            y = layer((m.arange(math.prod(shape)) / 10.0).reshape(shape))
            other.load_state_dict(layer.state_dict())
        assert all(a is b for a, b in zip(kept, layer.parameters(), strict=True))
        shapes = [tuple(p.shape) for p in other.parameters()]
        return y.detach().numpy(), before, type(layer).__name__, repr(layer), list(layer.state_dict()), shapes

    (x, *ours), (y, *theirs) = run(fb), run(torch)
    np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    assert ours == theirs


def test_uninitialized_parameters_say_what_to_do() -> None:
    layer = fb.nn.LazyLinear(3)
    assert layer.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        _ = layer.weight.shape
    assert copy.deepcopy(layer)(fb.ones(2, 4)).shape == (2, 3)


def test_buffers_are_registered() -> None:
    class Holder(fb.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = fb.nn.Buffer(fb.ones(2))
            self.passing = fb.nn.Buffer(fb.ones(2), persistent=False)

    assert [name for name, _ in Holder().named_buffers()] == ["kept", "passing"]
    assert list(Holder().state_dict()) == ["kept"]
    assert isinstance(fb.nn.Buffer(), fb.nn.Buffer) and not isinstance(fb.ones(1), fb.nn.Buffer)


@pytest.mark.parametrize("name", ["MSELoss", "L1Loss", "SmoothL1Loss", "BCEWithLogitsLoss", "KLDivLoss"])
@pytest.mark.parametrize("switches", [{"size_average": False}, {"reduce": False}, {"reduce": True}])
def test_older_words_for_reductions(name: str, switches: dict[str, bool]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (
            getattr(m.nn, name)(**switches)(m.tensor([0.1, 0.7]), m.tensor([0.3, 0.2])).numpy()
            for m in (fb, torch)
        )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "GroupNorm(2, 4)", "GroupNorm(2, 4, bias=False)", "LayerNorm(3)", "BatchNorm1d(3, bias=False)",
        "InstanceNorm2d(3)", "SyncBatchNorm(3)",
    ],
)  # fmt: skip
def test_normalisations_print_as_pytorchs(text: str) -> None:
    def built(m: Any) -> Any:
        name, _, rest = text.partition("(")
        return eval(f"make({rest}", {"make": getattr(m.nn, name)})

    assert repr(built(fb)) == repr(built(torch))


def test_sync_batch_norm_of_one_process_is_batch_norm() -> None:
    net = fb.nn.Sequential(fb.nn.Conv2d(2, 3, 1), fb.nn.BatchNorm2d(3))
    x = fb.arange(36.0).reshape(2, 2, 3, 3)
    expected = copy.deepcopy(net)(x)
    converted = fb.nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(converted[1]) is fb.nn.SyncBatchNorm
    assert fb.equal(converted(x), expected)


@pytest.mark.parametrize(
    ("name", "shape", "rest"),
    [("dirac_", (6, 4, 3, 3), ()), ("dirac_", (6, 4, 3), (2,)), ("orthogonal_", (4, 6), ()),
     ("orthogonal_", (6, 2, 2), (2.0,)), ("sparse_", (5, 4), (0.3,))],
)  # fmt: skip
def test_initial_values(name: str, shape: Any, rest: Any) -> None:
    def run(m: Any) -> np.ndarray:
        m.manual_seed(1)
        return getattr(m.nn.init, name)(m.empty(shape), *rest).numpy()

    np.testing.assert_allclose(run(fb), run(torch), atol=1e-5)
