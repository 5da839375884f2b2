"""Recurrent layers in regions of autocast on the CPU: dtypes, values and gradients, as in PyTorch."""

from __future__ import annotations

import flambeau as fb
import pytest
from oracle import pytorch
from side_by_side import numbers, same

LAYERS = ["LSTM", "GRU", "RNN"]
OPTIONS = {
    "plain": {},
    "no bias": {"bias": False},
    "deep": {"num_layers": 2, "bidirectional": True},
    "dropout": {"num_layers": 2, "dropout": 0.5},
    "batch first": {"batch_first": True},
}


def dtypes(value):
    """The names of all dtypes of a result."""
    if hasattr(value, "data") and hasattr(value, "batch_sizes"):
        return dtypes(value.data)
    if isinstance(value, tuple | list):
        return [dtypes(part) for part in value]
    return str(value.dtype).split(".")[-1]


def layer(m, kind, *sizes, **options):
    """A layer whose weights are the same numbers in both frameworks."""
    made = getattr(m.nn, kind)(*sizes, **options)
    with m.no_grad():
        for seed, weight in enumerate(made.parameters()):
            weight.copy_(m.tensor(numbers(*weight.shape, seed=seed) * 0.3))
    return made


def in_pytorch(program):
    """What the program gives in PyTorch; None for an LSTM in bfloat16, which it lacks on this processor."""
    try:
        return program(pytorch())
    except RuntimeError as error:
        if "primitive descriptor for the LSTM" not in str(error):
            raise
        return None


def assert_dtypes_agree(program):
    """The program gives PyTorch's dtypes, or bfloat16 where PyTorch has no LSTM for them."""
    ours, theirs = program(fb), in_pytorch(program)
    assert ours == theirs or (theirs is None and set(_flat(ours)) == {"bfloat16"})


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_dtypes_of_results(kind, options, grad, train):
    def program(m):
        made = layer(m, kind, 4, 6, **options).train(train)
        with m.autocast("cpu", dtype=m.bfloat16), m.set_grad_enabled(grad):
            return dtypes(made(m.ones(5, 3, 4)))

    assert_dtypes_agree(program)


INPUTS = {
    "float32": lambda m, x: x,
    "bfloat16": lambda m, x: x.bfloat16(),
    "float16": lambda m, x: x.half(),
    "one sequence": lambda m, x: x[:, 0],
    "no sequences": lambda m, x: x[:, :0],
    "packed": lambda m, x: m.nn.utils.rnn.pack_padded_sequence(x, [5, 4, 2]),
}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
@pytest.mark.parametrize("given", INPUTS)
def test_dtypes_of_inputs_and_weights(kind, weights, given):
    def program(m):
        made = layer(m, kind, 4, 6).to(getattr(m, weights))
        with m.autocast("cpu", dtype=m.bfloat16):
            return dtypes(made(INPUTS[given](m, m.ones(5, 3, 4))))

    assert_dtypes_agree(program)


@pytest.mark.parametrize("kind", LAYERS)
def test_float64_stays_and_does_not_mix(kind):
    for m in (fb, pytorch()):
        with m.autocast("cpu"):
            assert set(map(str, _flat(dtypes(layer(m, kind, 4, 6).double()(m.ones(5, 3, 4).double()))))) == {
                "float64"
            }
            with pytest.raises(RuntimeError, match="same dtype"):
                layer(m, kind, 4, 6)(m.ones(5, 3, 4).double())
        with pytest.raises((ValueError, RuntimeError), match=r"dtype"):
            layer(m, kind, 4, 6)(m.ones(5, 3, 4).double())


def _flat(names):
    return [names] if isinstance(names, str) else [n for part in names for n in _flat(part)]


@pytest.mark.parametrize("state", [None, "float32", "bfloat16", "float16"])
def test_states_are_cast_too(state):
    def program(m):
        h = None if state is None else tuple(m.zeros(1, 3, 6, dtype=getattr(m, state)) for _ in range(2))
        with m.autocast("cpu"):
            return dtypes(layer(m, "LSTM", 4, 6)(m.ones(5, 3, 4), h))

    assert program(fb) == ["bfloat16", ["bfloat16", "bfloat16"]]
    assert_dtypes_agree(program)


STATES = [None, "float32", "bfloat16", "float16"]


def has_bfloat16() -> bool:
    """Whether oneDNN runs layers in bfloat16 here; where not, PyTorch casts nothing, or fails."""
    return pytorch().ops.mkldnn._is_mkldnn_bf16_supported()


@pytest.mark.parametrize("region", ["bfloat16", "float16"])
@pytest.mark.parametrize("weights", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("given", ["float32", "bfloat16", "float16"])
def test_the_flag_of_onednn_turns_the_cast_off(region, weights, given):
    found = []
    for m in (fb, pytorch()):
        made, x = layer(m, "LSTM", 4, 6).to(getattr(m, weights)), m.ones(5, 3, 4, dtype=getattr(m, given))
        for state in STATES:
            h = (m.zeros(1, 3, 6, dtype=getattr(m, state)),) * 2 if state else None
            for enabled in [False, True] if region == "bfloat16" and has_bfloat16() else [False]:
                with (
                    m.backends.mkldnn.flags(enabled=enabled),
                    m.autocast("cpu", dtype=getattr(m, region)),
                ):
                    found.append((m is fb, state, enabled, dtypes(made(x, h))))
    half = len(found) // 2
    assert [row[1:] for row in found[:half]] == [row[1:] for row in found[half:]]
    assert fb.backends.mkldnn.enabled


def test_the_flag_of_onednn_is_read_at_each_call():
    made, x = layer(fb, "LSTM", 4, 6), fb.ones(5, 3, 4)
    with fb.autocast("cpu"):
        with fb.backends.mkldnn.flags(enabled=False):
            single = made(x)[0]
            assert made(fb.nn.utils.rnn.pack_sequence([x[:, 0]]))[0].data.dtype == fb.float32
        assert single.dtype == fb.float32
        assert made(x)[0].dtype == fb.bfloat16
        assert fb.allclose(single, made(x)[0].float(), rtol=0, atol=0.02)


def test_projections_run_step_by_step():
    def program(m):
        with m.autocast("cpu"):
            return dtypes(layer(m, "LSTM", 4, 6, proj_size=2)(m.ones(5, 3, 4)))

    assert program(fb) == program(pytorch())


def test_float16_is_the_dtype_where_the_region_says_so():
    """PyTorch needs a processor with arithmetic in float16 for this."""
    with fb.autocast("cpu", dtype=fb.float16):
        output, (h, c) = layer(fb, "LSTM", 4, 6)(fb.ones(5, 3, 4))
    assert output.dtype == h.dtype == c.dtype == fb.float16


@pytest.mark.parametrize("kind", LAYERS)
def test_values_and_gradients(kind):
    """Bound: 3 % of the largest magnitudes, as bfloat16 has 8 bits and both round at other places.

    Where PyTorch has no LSTM in bfloat16, its layer in float32 is compared with.
    """

    def program(m, x, casts=True):
        made = layer(m, kind, 4, 6, 2)
        x.requires_grad_()
        with m.autocast("cpu", dtype=m.bfloat16, enabled=casts):
            output, final = made(x)
        total = output.float().square().sum() + sum(s.float().sum() for s in _tensors(final))
        grads = m.autograd.grad(total, [x, *made.parameters()])
        assert all(g.dtype == m.float32 for g in grads)
        return [output.float(), *(g / g.abs().max() for g in grads)]

    has_layer = in_pytorch(lambda m: program(m, m.ones(5, 3, 4))) is not None
    same(lambda m, x: program(m, x, m is fb or has_layer), numbers(5, 3, 4), rtol=0, atol=0.03)


def _tensors(value):
    return value if isinstance(value, tuple) else (value,)


def test_the_region_does_not_reach_later_calls():
    made = layer(fb, "LSTM", 4, 6)
    with fb.autocast("cpu"):
        assert made(fb.ones(5, 3, 4))[0].dtype == fb.bfloat16
        with fb.autocast("cpu", enabled=False):
            assert made(fb.ones(5, 3, 4))[0].dtype == fb.float32
    assert made(fb.ones(5, 3, 4))[0].dtype == fb.float32
    with pytest.raises(ValueError, match="expected input of dtype .*float32"):
        made(fb.ones(5, 3, 4).bfloat16())


def test_transforms_and_infinite_inputs():
    made = layer(fb, "LSTM", 4, 6).requires_grad_(False)
    x = fb.ones(2, 5, 3, 4)
    with fb.autocast("cpu"):
        batched = fb.vmap(lambda one: made(one)[0])(x)
        single = fb.stack([made(one)[0] for one in x])
        assert batched.dtype == single.dtype == fb.bfloat16
        assert fb.allclose(batched.float(), single.float(), rtol=0, atol=1e-2)
        assert made(x[0] * float("nan"))[0].isnan().all()
        assert made(x[0] * float("inf"))[0].dtype == fb.bfloat16
