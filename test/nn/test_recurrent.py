"""Recurrent networks against their definitions, step by step in NumPy; packed against padded sequences."""

import flambeau as fb
import numpy as np
import pytest
from flambeau import nn
from flambeau.nn.utils import rnn

pytestmark = pytest.mark.products

RNG = np.random.default_rng(0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def weights_of(layer, suffix="_l0"):
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(layer, name + suffix).detach().numpy() for name in names]


def lstm_steps(x, w_ih, w_hh, b_ih, b_hh):
    h = c = np.zeros((x.shape[1], w_hh.shape[1]))
    outputs = []
    for step in x:
        i, f, g, o = np.split(step @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs)


def gru_steps(x, w_ih, w_hh, b_ih, b_hh):
    h = np.zeros((x.shape[1], w_hh.shape[1]))
    outputs = []
    for step in x:
        from_x = np.split(step @ w_ih.T + b_ih, 3, axis=-1)
        from_h = np.split(h @ w_hh.T + b_hh, 3, axis=-1)
        r, z = sigmoid(from_x[0] + from_h[0]), sigmoid(from_x[1] + from_h[1])
        n = np.tanh(from_x[2] + r * from_h[2])
        h = (1 - z) * n + z * h
        outputs.append(h)
    return np.stack(outputs)


@pytest.mark.parametrize(("kind", "steps"), [(nn.LSTM, lstm_steps), (nn.GRU, gru_steps)])
def test_one_layer_is_its_definition(kind, steps):
    layer = kind(3, 5, dtype=fb.float64)
    x = RNG.standard_normal((7, 2, 3))
    output, _ = layer(fb.from_numpy(x))
    np.testing.assert_allclose(output.detach().numpy(), steps(x, *weights_of(layer)), rtol=1e-12)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_backwards_is_forwards_over_the_reversed_sequence(kind):
    both = kind(3, 5, bidirectional=True, dtype=fb.float64)
    single = kind(3, 5, dtype=fb.float64)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(single, f"{name}_l0").data = getattr(both, f"{name}_l0_reverse").data
    x = fb.from_numpy(RNG.standard_normal((6, 2, 3)))
    backwards = both(x)[0][..., 5:]
    np.testing.assert_allclose(backwards.detach(), single(x.flip(0))[0].flip(0).detach(), rtol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_packed_sequences_end_where_they_end(kind, bidirectional):
    layer = kind(3, 4, 2, bidirectional=bidirectional, dtype=fb.float64)
    sequences = [fb.from_numpy(RNG.standard_normal((n, 3))) for n in (2, 5, 3)]
    packed, final = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    for i, sequence in enumerate(sequences):
        alone, state = layer(sequence)
        np.testing.assert_allclose(rnn.unpack_sequence(packed)[i].detach(), alone.detach(), rtol=1e-12)
        pairs = zip(final, state, strict=True) if kind is nn.LSTM else [(final, state)]
        for together, single in pairs:
            np.testing.assert_allclose(together[:, i].detach(), single.detach(), rtol=1e-12)


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
def test_gradients_of_cells(kind):
    cell = kind(3, 4, dtype=fb.float64)
    x = fb.from_numpy(RNG.standard_normal((2, 3))).requires_grad_()
    h = fb.from_numpy(RNG.standard_normal((2, 4))).requires_grad_()

    def function(x, h):
        return cell(x, (h, h * 0.5))[1] if kind is nn.LSTMCell else cell(x, h)

    assert fb.autograd.gradcheck(function, (x, h))
    assert fb.autograd.gradgradcheck(function, (x, h))


def test_padding_and_lengths_come_back():
    sequences = [fb.arange(float(n)) for n in (4, 2, 1)]
    padded, lengths = rnn.pad_packed_sequence(rnn.pack_sequence(sequences), padding_value=-1.0)
    assert padded.t().tolist() == [[0, 1, 2, 3], [0, 1, -1, -1], [0, -1, -1, -1]]
    assert lengths.tolist() == [4, 2, 1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.LSTM(3, 0), ValueError, "LSTM: expected hidden_size >= 1, got 0"),
        (lambda: nn.GRU(3, 4, proj_size=2), ValueError, "for LSTM"),
        (lambda: nn.RNN(3, 4, nonlinearity="sine"), ValueError, "nonlinearity"),
        (lambda: nn.LSTM(3, 4)(fb.zeros(2, 1, 5)), RuntimeError, "3.* got 5"),
        (lambda: nn.LSTM(3, 4)(fb.zeros(3)), ValueError, "2 or 3 dimensions"),
        (lambda: nn.GRU(3, 4)(fb.zeros(2, 1, 3), fb.zeros(1, 2, 4)), RuntimeError, "Expected hidden size"),
        (lambda: rnn.pack_padded_sequence(fb.zeros(3, 2), [1, 3]), RuntimeError, "decreasing order"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
