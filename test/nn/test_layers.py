"""Every layer against PyTorch's of the same name: state, output and gradients with equal parameters."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()


def x(*shape: int) -> np.ndarray:
    """Numbers that no symmetry hides, both signs, without repetition."""
    return np.sin(np.arange(1, np.prod(shape) + 1, dtype=np.float32) * 1.7).reshape(shape) * 2


def ids(*shape: int, below: int) -> np.ndarray:
    return (np.arange(np.prod(shape)) * 7 % below).reshape(shape)


def signs(*shape: int) -> np.ndarray:
    return np.where(x(*shape) > 0, 1.0, -1.0).astype(np.float32)


CASES = [
    ("Threshold", (0.1, 20.0), {}, (x(3, 4),)),
    ("RReLU", (), {"eval": True}, (x(3, 4),)),
    ("Softmax2d", (), {}, (x(2, 3, 2, 2),)),
    ("PReLU", (3, 0.3), {}, (x(2, 3, 4),)),
    ("PReLU", (), {}, (x(5),)),
    ("MultiheadAttention", (8, 2), {}, (x(4, 3, 8), x(5, 3, 8), x(5, 3, 8))),
    ("MultiheadAttention", (8, 4), {"batch_first": True, "add_bias_kv": True}, (x(3, 4, 8),) * 3),
    (
        "MultiheadAttention",
        (8, 2),
        {"kdim": 4, "vdim": 6, "bias": False},
        (x(4, 3, 8), x(5, 3, 4), x(5, 3, 6)),
    ),
    ("EmbeddingBag", (6, 3), {}, (ids(2, 4, below=6),)),
    ("EmbeddingBag", (6, 3), {"mode": "max", "padding_idx": 2}, (ids(7, below=6), np.array([0, 3, 3]))),
    ("EmbeddingBag", (6, 3), {"mode": "sum"}, (ids(2, 4, below=6), None, x(2, 4))),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "groups": 2}, (x(2, 4, 5),)),
    ("ConvTranspose2d", (2, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}, (x(2, 2, 4, 5),)),
    ("ConvTranspose3d", (2, 3, 2), {"dilation": 2, "bias": False}, (x(1, 2, 3, 3, 3),)),
    ("ConvTranspose2d", (2, 2, 3), {"stride": 2}, (x(1, 2, 3, 3), [8, 8])),
    ("Dropout1d", (0.4,), {"eval": True}, (x(2, 3, 4),)),
    ("AlphaDropout", (0.4,), {"eval": True}, (x(2, 3),)),
    ("RMSNorm", (4,), {}, (x(3, 4),)),
    ("RMSNorm", ((3, 4), 1e-3, False), {}, (x(2, 3, 4),)),
    ("LocalResponseNorm", (2,), {}, (x(2, 5, 3),)),
    ("InstanceNorm1d", (3,), {}, (x(2, 3, 4),)),
    ("InstanceNorm2d", (3,), {"affine": True, "track_running_stats": True}, (x(2, 3, 4, 4),)),
    ("InstanceNorm3d", (2,), {}, (x(2, 2, 2, 2),)),
    ("ConstantPad1d", ((1, 2), 7.0), {}, (x(2, 3),)),
    ("ConstantPad3d", (1, 0.5), {}, (x(2, 2, 2, 2),)),
    ("ZeroPad2d", ((1, -1, 0, 2),), {}, (x(2, 3, 4),)),
    ("ReflectionPad1d", (2,), {}, (x(1, 2, 4),)),
    ("ReflectionPad2d", ((1, 0, 2, 1),), {}, (x(1, 2, 4, 3),)),
    ("ReplicationPad3d", (1,), {}, (x(1, 1, 2, 3, 2),)),
    ("CircularPad1d", ((1, 2),), {}, (x(1, 2, 3),)),
    ("CircularPad2d", (1,), {}, (x(1, 1, 3, 3),)),
    ("LPPool1d", (2, 2), {}, (np.abs(x(2, 3, 6)),)),
    ("LPPool2d", (3.0, (2, 1)), {}, (np.abs(x(1, 2, 4, 4)),)),
    ("AdaptiveMaxPool2d", ((2, None),), {}, (x(1, 2, 5, 3),)),
    ("AdaptiveMaxPool1d", (3,), {}, (x(2, 2, 7),)),
    ("PixelShuffle", (2,), {}, (x(1, 8, 2, 3),)),
    ("PixelUnshuffle", (2,), {}, (x(1, 2, 4, 6),)),
    ("ChannelShuffle", (2,), {}, (x(1, 6, 2, 2),)),
    ("Unfold", ((2, 3),), {"stride": 2}, (x(1, 2, 5, 6),)),
    ("Fold", ((4, 5), (2, 2)), {}, (x(1, 8, 12),)),
    ("Upsample", (), {"scale_factor": 2, "mode": "bilinear", "align_corners": False}, (x(1, 2, 3, 3),)),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, (x(1, 2, 3, 3),)),
    ("UpsamplingBilinear2d", ((5, 4),), {}, (x(1, 2, 3, 3),)),
    ("PairwiseDistance", (1.0,), {"keepdim": True}, (x(3, 4), x(3, 4)[::-1].copy())),
    ("CosineSimilarity", (), {"dim": 0}, (x(3, 4), x(3, 4)[::-1].copy())),
    ("HingeEmbeddingLoss", (2.0,), {}, (x(3, 4), signs(3, 4))),
    ("MarginRankingLoss", (0.5,), {"reduction": "sum"}, (x(4), x(4)[::-1].copy(), signs(4))),
    ("CosineEmbeddingLoss", (0.1,), {}, (x(3, 4), x(3, 4)[::-1].copy(), signs(3))),
    ("SoftMarginLoss", (), {"reduction": "none"}, (x(3, 4), signs(3, 4))),
    ("MultiMarginLoss", (2, 0.7), {}, (x(3, 4), ids(3, below=4))),
    ("MultiLabelMarginLoss", (), {}, (x(2, 4), np.array([[3, 0, -1, 1], [1, -1, 0, 0]]))),
    ("MultiLabelSoftMarginLoss", (), {}, (x(2, 4), (signs(2, 4) + 1) / 2)),
    ("TripletMarginLoss", (2.0,), {"swap": True}, (x(3, 4), x(3, 4)[::-1].copy(), x(4, 3).T.copy())),
    ("TripletMarginWithDistanceLoss", (), {"margin": 3.0}, (x(3, 4), x(3, 4)[::-1].copy(), x(4, 3).T.copy())),
    ("PoissonNLLLoss", (), {"full": True}, (x(3, 4), np.abs(x(3, 4)) * 3)),
    ("GaussianNLLLoss", (), {}, (x(3, 4), x(3, 4)[::-1].copy(), np.abs(x(3, 4)) + 0.1)),
    ("CTCLoss", (), {}, (np.log(0.1 + np.abs(x(6, 2, 4))), ids(2, 3, below=3) + 1, [6, 5], [3, 2])),
]


def given(framework, value):
    if not isinstance(value, np.ndarray):
        return value
    tensor = framework.from_numpy(value.copy())
    differs = value.dtype == np.float32 and not (np.abs(value) == 1).all()  # signs are classes
    return tensor.requires_grad_() if differs else tensor


def made(framework, name, args, options, state=None):
    options = dict(options)
    evaluate = options.pop("eval", False)
    framework.manual_seed(3)
    layer = getattr(framework.nn, name)(*args, **options)
    if state is not None:
        layer.load_state_dict(state)
    return layer.eval() if evaluate else layer.train()


def outputs(result):
    return [t for t in (result if isinstance(result, tuple) else (result,)) if t is not None]


@pytest.mark.parametrize(
    "name, args, options, inputs", CASES, ids=[f"{c[0]}{i}" for i, c in enumerate(CASES)]
)
def test_layer(name, args, options, inputs):
    theirs = made(torch, name, args, options)
    state = {key: fb.from_numpy(value.numpy().copy()) for key, value in theirs.state_dict().items()}
    ours = made(fb, name, args, options, state)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    runs = []
    for framework, layer in ((fb, ours), (torch, theirs)):
        tensors = [given(framework, value) for value in inputs]
        results = outputs(layer(*tensors))
        results[0].sum().backward()
        grads = [t.grad for t in (*tensors, *layer.parameters()) if getattr(t, "grad", None) is not None]
        runs.append([t.detach().numpy() for t in (*results, *grads)])
    assert len(runs[0]) == len(runs[1])
    for mine, other in zip(*runs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["MultiheadAttention", "EmbeddingBag", "ConvTranspose2d", "PReLU"])
def test_first_values_follow_the_seed(name):
    args = {"MultiheadAttention": (8, 2), "EmbeddingBag": (6, 3), "ConvTranspose2d": (2, 3, 3), "PReLU": ()}[
        name
    ]
    theirs, ours = (made(framework, name, args, {}).state_dict() for framework in (torch, fb))
    for key in theirs:
        np.testing.assert_allclose(ours[key].numpy(), theirs[key].numpy(), atol=1e-6)


@pytest.mark.parametrize(
    "name, shape", [("Dropout1d", (4, 5, 6)), ("Dropout2d", (4, 5, 3, 2)), ("Dropout3d", (2, 5, 2, 2, 2))]
)
def test_channels_drop_whole(name, shape):
    fb.manual_seed(0)
    result = getattr(fb.nn, name)(0.5)(fb.ones(shape)).reshape(shape[0] * shape[1], -1)
    kept = result[:, 0]
    assert (result == kept[:, None]).all()
    assert set(kept.tolist()) == {0.0, 2.0}


def test_unpooling_is_the_inverse_of_pooling():
    values = fb.from_numpy(np.abs(x(1, 2, 6, 6)))
    pooled, indices = fb.nn.MaxPool2d(2, return_indices=True)(values)
    restored = fb.nn.MaxUnpool2d(2)(pooled, indices)
    assert fb.equal(fb.nn.MaxPool2d(2)(restored), pooled)
    assert (restored != 0).sum().item() == pooled.numel()


@pytest.mark.parametrize(
    "make, phrase",
    [
        (lambda: fb.nn.MultiheadAttention(7, 2), "embed_dim"),
        (lambda: fb.nn.ReflectionPad2d((1, 2)), "expected one int or 4"),
        (lambda: fb.nn.Dropout2d(1.5), "p from 0 to 1"),
        (lambda: fb.nn.ConvTranspose2d(2, 2, 3, padding_mode="reflect"), "zeros"),
        (
            lambda: fb.nn.ConvTranspose2d(1, 1, 3, stride=2)(fb.ones(1, 1, 3, 3), [20, 20]),
            "expected output_size",
        ),
        (lambda: fb.nn.InstanceNorm2d(3)(fb.ones(2, 3)), "3 or 4 dimensions"),
        (lambda: fb.nn.TripletMarginLoss(reduction="most"), "reduction"),
    ],
)
def test_wrong_arguments(make, phrase):
    with pytest.raises((ValueError, AssertionError), match=phrase):
        make()
