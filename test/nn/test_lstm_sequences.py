"""Layers of long short-term memories over whole sequences, as in PyTorch: values and all derivatives."""

from __future__ import annotations

import itertools
import threading

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch
from side_by_side import numbers, refuse_alike, same

SWITCHES = list(itertools.product([1, 2], [False, True], [False, True], [False, True], [0, 2]))


def layer(m, *sizes, dtype="float64", **options):
    """An LSTM whose weights are the same numbers in both frameworks."""
    made = m.nn.LSTM(*sizes, dtype=getattr(m, dtype), **options)
    with m.no_grad():
        for seed, weight in enumerate(made.parameters()):
            weight.copy_(m.tensor(numbers(*weight.shape, seed=seed) * 0.3))
    return made


def outcome(m, made, x, state=None):
    """Outputs, final states, and gradients of the input, of the states and of all weights."""
    leaves = [x.requires_grad_(), *made.parameters(), *(s.requires_grad_() for s in state or ())]
    output, (h, c) = made(x, state)
    total = (output * output).sum() + h.sum() + (c * c).sum()
    return [output, h, c, *m.autograd.grad(total, leaves)]


@pytest.mark.parametrize(("layers", "both", "first", "bias", "projected"), SWITCHES)
def test_every_construction(layers, both, first, bias, projected):
    """Bound: 1e-12 relative in float64."""

    def program(m, x, h, c):
        made = layer(m, 3, 5, layers, bidirectional=both, batch_first=first, bias=bias, proj_size=projected)
        return outcome(m, made, x, (h, c))

    many = layers * (2 if both else 1)
    x = numbers(*((4, 6, 3) if first else (6, 4, 3)), dtype=np.float64)
    states = [numbers(many, 4, size, seed=size, dtype=np.float64) for size in (projected or 5, 5)]
    same(program, x, *states, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("steps", [1, 2, 33])
@pytest.mark.parametrize(("batch", "hidden"), [(0, 3), (1, 1), (1, 129), (9, 17), (33, 16), (5, 64)])
def test_sizes_that_do_and_do_not_fill_vectors(dtype, steps, batch, hidden):
    def program(m, x):
        return outcome(m, layer(m, 2, hidden, dtype=dtype, bidirectional=True), x)

    bound = {"float32": 2e-4, "float64": 1e-11}[dtype]
    x = numbers(steps, batch, 2, dtype=np.dtype(dtype))
    same(program, x, rtol=bound, atol=bound)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_results(threads):
    """Parts of the batch do not depend on each other; products of fewer rows may sum in another order."""
    made = layer(fb, 8, 48, dtype="float32")
    x = fb.tensor(numbers(40, 37, 8))
    before = fb.get_num_threads()
    expected = outcome(fb, made, x.clone())
    fb.set_num_threads(threads)
    try:
        found = outcome(fb, made, x.clone())
    finally:
        fb.set_num_threads(before)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-4, atol=2e-4)


def test_special_values_stay_in_their_row():
    def program(m, x):
        return outcome(m, layer(m, 3, 5), x)

    x = numbers(5, 6, 3, dtype=np.float64)
    x[1, 0, 0], x[2, 1], x[3, 2], x[0, 3] = np.nan, np.inf, -1e300, 1e300
    same(program, x, rtol=1e-12, atol=1e-13)


def test_memory_in_any_order():
    def program(m, x, h, c):
        made = layer(m, 3, 4)
        made.weight_hh_l0.data = made.weight_hh_l0.data.t().contiguous().t()
        state = (h.transpose(1, 2), c[:, ::2].flip(1))
        output, (h, c) = made(x.permute(2, 0, 1), state)
        return output, h, c

    arrays = (6, 3, 5), (1, 4, 6), (1, 12, 4)
    same(program, *(numbers(*a, dtype=np.float64) for a in arrays), rtol=1e-12)


def test_one_state_without_the_other():
    """A gradient that reaches outputs only, the last cell state only, or one step in the middle."""

    def program(m, x):
        made = layer(m, 3, 4, bidirectional=True)
        weights = list(made.parameters())
        results = []
        for pick in (lambda o, s: o.sum(), lambda o, s: s[1].sum(), lambda o, s: o[2].exp().sum()):
            results += m.autograd.grad(pick(*made(x)), weights)
        return results

    same(program, numbers(5, 2, 3, dtype=np.float64), rtol=1e-12, atol=1e-13)


def test_second_derivatives():
    def program(m, x):
        made = layer(m, 2, 3, bidirectional=True)
        weights = [x.requires_grad_(), *made.parameters()]
        output, (_, c) = made(x)
        first = m.autograd.grad((output.exp().sum() + c.sum()), weights, create_graph=True)
        return [*first, *m.autograd.grad(sum((g * g).sum() for g in first), weights)]

    same(program, numbers(3, 2, 2, dtype=np.float64), rtol=1e-10, atol=1e-12)


SEQUENCES = [(3, 2, 2, False), (2, 3, 1, True), (1, 1, 3, False)]


@pytest.mark.parametrize(("steps", "batch", "hidden", "reverse"), SEQUENCES)
def test_derivatives_against_finite_differences(steps, batch, hidden, reverse):
    shapes = [(steps, batch, 4 * hidden), (batch, hidden), (batch, hidden), (4 * hidden, hidden)]
    inputs = [
        fb.tensor(numbers(*s, seed=i, dtype=np.float64), requires_grad=True) for i, s in enumerate(shapes)
    ]

    def sequence(*tensors):
        return fb._C._functions._lstm(*tensors, reverse, True)[:2]

    assert fb.autograd.gradcheck(sequence, inputs, check_forward_ad=True)
    assert fb.autograd.gradgradcheck(sequence, inputs)


def test_gradients_without_kept_gates():
    """The gates are computed again where the caller did not ask to keep them."""
    shapes = [(3, 2, 8), (2, 2), (2, 2), (8, 2)]
    inputs = [
        fb.tensor(numbers(*s, seed=i, dtype=np.float64), requires_grad=True) for i, s in enumerate(shapes)
    ]
    found = []
    for with_gates in (False, True):
        output, cells, gates = fb._C._functions._lstm(*inputs, False, with_gates)
        assert gates.shape == (3 if with_gates else 0, 2, 8) and not gates.requires_grad
        found.append(fb.autograd.grad(output.sum() + cells.sum(), inputs))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)


def test_nothing_is_kept_without_gradients():
    made = layer(fb, 3, 4)
    x = fb.tensor(numbers(3, 2, 3, dtype=np.float64))
    with fb.no_grad():
        assert made(x)[0].grad_fn is None
    with fb.inference_mode():
        assert made(x)[0].is_inference()


def step_by_step(m, weights, x):
    """The outputs of a layer, made of operators that every transform of PyTorch takes."""
    h = c = m.zeros_like(x[0] @ m.zeros_like(weights["weight_ih_l0"])[:3].t())
    outputs = []
    for step in x.unbind(0):
        sums = step @ weights["weight_ih_l0"].t() + h @ weights["weight_hh_l0"].t()
        i, f, g, o = (sums + weights["bias_ih_l0"] + weights["bias_hh_l0"]).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return m.stack(outputs)


def test_transforms():
    """vmap over inputs and over weights, per-sample gradients, jvp, jvp of a gradient."""
    torch = pytorch()

    def program(m, call):
        made = layer(m, 2, 3)
        weights = {name: w.detach() for name, w in made.named_parameters()}
        x = m.tensor(numbers(4, 3, 5, 2, dtype=np.float64))
        shifts = m.tensor(numbers(4, seed=3, dtype=np.float64))
        moved = {name: m.stack([w * s for s in shifts]) for name, w in weights.items()}

        def of(weights, x):
            return call(m, made, weights, x)

        def loss(weights, x):
            return of(weights, x).square().sum()

        per_sample = m.func.vmap(m.func.grad(loss), (None, 0))(weights, x)
        results = [m.func.vmap(of, (None, 0))(weights, x), m.func.vmap(of)(moved, x), *per_sample.values()]
        results += m.func.jvp(lambda y: of(weights, y), (x[0],), (x[1],))
        grads, tangents = m.func.jvp(lambda y: m.func.grad(loss)(weights, y), (x[0],), (x[1],))
        return [*results, *grads.values(), *tangents.values()]

    ours = program(fb, lambda m, made, weights, x: m.func.functional_call(made, weights, (x,))[0])
    theirs = program(torch, lambda m, made, weights, x: step_by_step(m, weights, x))
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


def test_half_types_and_mixed_types():
    made = layer(fb, 3, 4, dtype="bfloat16")
    x = fb.tensor(numbers(5, 2, 3)).bfloat16()
    exact = layer(fb, 3, 4, dtype="float32")
    np.testing.assert_allclose(
        made(x)[0].float().detach().numpy(), exact(x.float())[0].detach().numpy(), atol=0.03
    )
    sums, state, weight = fb.ones(2, 3, 8), fb.ones(3, 2), fb.ones(8, 2)
    with pytest.raises(RuntimeError, match=r"_lstm: expected tensors of one dtype and device"):
        fb._C._functions._lstm(sums, state.double(), state, weight, False, True)
    with pytest.raises(RuntimeError, match=r"_lstm: expected gates \(steps, batch, 4 \* hidden\)"):
        fb._C._functions._lstm(sums, state, state, weight.t(), False, True)
    with pytest.raises(RuntimeError, match=r"_lstm: expected states of one shape"):
        fb._C._functions._lstm(sums, state[:2], state, weight, False, True)
    with pytest.raises(RuntimeError, match=r"_lstm: expected 1 step or more"):
        fb._C._functions._lstm(sums[:0], state, state, weight, False, True)


def test_wrong_states_and_empty_sequences_are_refused():
    def program(m, x, h, c):
        return layer(m, 3, 4)(x, (h, c))

    x, state = numbers(5, 2, 3, dtype=np.float64), numbers(1, 2, 4, dtype=np.float64)
    refuse_alike(program, x, state[..., :3].copy(), state)
    refuse_alike(program, x, state, state[:, :1].copy())
    refuse_alike(program, x[:0].copy(), state, state)


def test_weights_that_change_before_backward_are_noticed():
    made = layer(fb, 3, 4)
    output = made(fb.tensor(numbers(5, 2, 3, dtype=np.float64)))[0].sum()
    with fb.no_grad():
        made.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.backward()


def test_threads_share_a_layer():
    made = layer(fb, 8, 32, dtype="float32")
    x = fb.tensor(numbers(20, 16, 8))
    expected = made(x)[0].detach()
    failures = []

    def work():
        for _ in range(10):
            if not fb.allclose(made(x)[0], expected, atol=1e-5):
                failures.append("another result")

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures


def test_compiled_layers_equal_plain_ones():
    made = layer(fb, 3, 4, bidirectional=True)
    x = fb.tensor(numbers(5, 2, 3, dtype=np.float64))
    for _ in range(2):
        ours = outcome(fb, fb.compile(made), x.clone())
        for found, expected in zip(ours, outcome(fb, made, x.clone()), strict=True):
            np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
