"""nn.functional: arguments, and what no operator's own test covers."""

import math

import flambeau as fb
import numpy as np
import pytest
from flambeau import nn
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "name",
    "relu relu6 leaky_relu elu selu celu silu mish hardsigmoid hardswish hardtanh rrelu".split(),
)
def test_inplace_activations_write_to_their_input(name):
    x = fb.tensor([-2.0, -0.1, 0.3, 7.0])
    expected = getattr(F, name)(x.clone())
    assert getattr(F, name)(x, inplace=True) is x
    assert x.equal(expected)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_padding_is_numpys(dims, mode):
    x = RNG.standard_normal((2, 3, *[5] * dims))
    pad = [1, 2, 0, 3, 4, 1][: 2 * dims]
    around = [(0, 0), (0, 0), *((pad[2 * i], pad[2 * i + 1]) for i in reversed(range(dims)))]
    expected = np.pad(x, around, mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])
    assert F.pad(fb.from_numpy(x), pad, mode).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("pad", "mode", "error", "message"),
    [
        ((1,), "constant", RuntimeError, "even number"),
        ((1,) * 10, "constant", RuntimeError, "at most"),
        ((-3, -3), "constant", RuntimeError, "negative output size"),
        ((4, 0), "reflect", RuntimeError, "padding"),
        ((5, 0), "circular", RuntimeError, "wrapping around more than once"),
        ((1, 1), "mirror", NotImplementedError, "pad: expected mode .*, got 'mirror'"),
        ((1, 1) * 4, "reflect", NotImplementedError, "Only 2D, 3D, 4D, 5D"),
    ],
)
def test_padding_that_does_not_fit(pad, mode, error, message):
    with pytest.raises(error, match=message):
        F.pad(fb.zeros(2, 3, 4, 4)[0] if len(pad) == 2 else fb.zeros(2, 3, 4, 4), pad, mode)


@pytest.mark.parametrize("drop", [F.dropout1d, F.dropout2d, F.dropout3d])
def test_channels_are_dropped_whole(drop):
    dims = int(drop.__name__[-2])
    result = drop(fb.ones(8, 16, *[3] * dims), 0.5).flatten(2)
    assert set(result.amax(2).flatten().tolist()) == {0.0, 2.0}
    assert result.amax(2).equal(result.amin(2))


def test_alpha_dropout_keeps_mean_and_variance():
    fb.manual_seed(0)
    x = fb.randn(200_000)
    result = F.alpha_dropout(x, 0.3, training=True)
    assert abs(result.mean().item()) < 0.02 and abs(result.std().item() - 1) < 0.02


def test_gumbel_softmax_draws_by_probability():
    fb.manual_seed(0)
    logits = fb.tensor([1.0, 2.0, 0.0]).expand(20_000, 3)
    drawn = F.gumbel_softmax(logits, hard=True)
    assert set(drawn.flatten().tolist()) <= {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0), logits[0].softmax(0), atol=0.02)


def test_fold_counts_how_often_windows_overlap():
    ones = F.unfold(fb.ones(1, 1, 4, 4), 2)
    assert F.fold(ones, (4, 4), 2)[0, 0].tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]
    with pytest.raises(RuntimeError, match="number of sliding blocks"):
        F.fold(ones, (5, 4), 2)


def attention_by_head(layer, query, key, value):
    """Multi-head attention written out."""
    w, b = layer.in_proj_weight.detach().numpy(), layer.in_proj_bias.detach().numpy()
    width, heads = layer.embed_dim, layer.num_heads
    q, k, v = (
        x @ w[i * width : (i + 1) * width].T + b[i * width : (i + 1) * width]
        for i, x in enumerate((query, key, value))
    )
    size, joined = width // heads, []
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        scores = q[:, part] @ k[:, part].T / math.sqrt(size)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        joined.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
    out = layer.out_proj
    return np.concatenate(joined, -1) @ out.weight.detach().numpy().T + out.bias.detach().numpy()


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention_is_its_definition(need_weights):
    layer = nn.MultiheadAttention(6, 3, dtype=fb.float64)
    q, k, v = RNG.standard_normal((4, 6)), RNG.standard_normal((5, 6)), RNG.standard_normal((5, 6))
    output, weights = layer(*map(fb.from_numpy, (q, k, v)), need_weights=need_weights)
    np.testing.assert_allclose(output.detach(), attention_by_head(layer, q, k, v), rtol=1e-12)
    assert (weights is not None) == need_weights
    if need_weights:
        np.testing.assert_allclose(weights.sum(-1).detach(), np.ones(4), rtol=1e-12)


def test_padded_keys_do_not_count():
    layer = nn.MultiheadAttention(6, 2, batch_first=True)
    x = fb.randn(2, 5, 6)
    padding = fb.tensor([[False] * 5, [False, False, False, True, True]])
    output, _ = layer(x, x, x, key_padding_mask=padding, need_weights=False)
    short, _ = layer(x[1:], x[1:, :3], x[1:, :3], need_weights=False)
    np.testing.assert_allclose(output[1].detach(), short[0].detach(), rtol=1e-5, atol=1e-6)


def test_gradients_are_limited():
    layer = nn.Linear(2, 2)
    for p in layer.parameters():
        p.grad = fb.full_like(p, 3.0)
    before = nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    assert before.item() == pytest.approx(3 * math.sqrt(6))
    assert nn.utils.get_total_norm(p.grad for p in layer.parameters()).item() == pytest.approx(1, abs=1e-5)
    nn.utils.clip_grad_value_(layer.parameters(), 0.1)
    assert all((p.grad <= 0.1).all() for p in layer.parameters())


def test_parameters_go_to_a_vector_and_back():
    layer = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    nn.utils.vector_to_parameters(vector * 2, layer.parameters())
    assert nn.utils.parameters_to_vector(layer.parameters()).equal(vector * 2)
