"""torch::nn::LSTM, GRU, RNN and their cells in C++: the values of Python's layers, and of PyTorch's."""

import itertools
from pathlib import Path

import flambeau
import numpy as np
import pytest
from flambeau import nn
from flambeau.utils import cpp_extension
from oracle import pytorch


@pytest.fixture(scope="session")
def native(build_root):
    source = Path(__file__).with_name("recurrent.cpp")
    return cpp_extension.load("recurrent", [source], build_directory=build_root / "recurrent")


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def flat(found):
    return [found] if not isinstance(found, tuple) else [x for part in found for x in flat(part)]


def states_of(name, lead, hidden, proj, dtype):
    widths = [proj or hidden, hidden] if name.startswith("LSTM") else [hidden]
    return [numbers(*lead, width, seed=i + 1, dtype=dtype) for i, width in enumerate(widths)]


def grouped(name, states):
    return tuple(states) if name.startswith("LSTM") else states[0]


OPTIONS = [
    {},
    {"bias": False},
    {"num_layers": 2, "batch_first": True},
    {"bidirectional": True, "num_layers": 2},
    {"num_layers": 3, "dropout": 0.4},
    {"double": True, "bidirectional": True},
]
CASES = [
    *itertools.product(("LSTM", "GRU", "RNN"), OPTIONS),
    ("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True}),
    ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
    *itertools.product(("LSTMCell", "GRUCell", "RNNCell"), [{}, {"bias": False}]),
    ("RNNCell", {"nonlinearity": "relu"}),
]


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_values(native, name, options, batched, with_states):
    """Bits of Python's layers; of PyTorch's up to 100 eps."""
    dtype = np.float64 if "double" in options else np.float32
    given = {key: value for key, value in options.items() if key != "double"}
    batch, layers = (
        ((4,) if batched else ()),
        given.get("num_layers", 1) * (1 + given.get("bidirectional", 0)),
    )
    if name.endswith("Cell"):
        x, lead = numbers(*batch, 3, dtype=dtype), batch
    else:
        shape = (4, 6, 3) if batched and given.get("batch_first") else (6, *batch, 3)
        x, lead = numbers(*shape, dtype=dtype), (layers, *batch)
    states = states_of(name, lead, 5, given.get("proj_size", 0), dtype) if with_states else []

    ours = [flambeau.from_numpy(s).requires_grad_() for s in states]
    parameters, results, again = native.run(name, 3, 5, options, flambeau.from_numpy(x), ours)

    flambeau.manual_seed(3)
    layer = getattr(nn, name)(3, 5, **given)
    layer = layer.double() if "double" in options else layer
    assert [key for key, _ in parameters] == [key for key, _ in layer.named_parameters()]
    assert all(value.equal(layer.get_parameter(key)) for key, value in parameters)
    flambeau.manual_seed(4)
    wanted = flat(layer(flambeau.from_numpy(x), *([grouped(name, ours)] if states else [])))
    assert [r.shape for r in results] == [w.shape for w in wanted]
    assert all(r.equal(w) and a.equal(w) for r, a, w in zip(results, again, wanted, strict=True))

    leaves = [value for _, value in parameters] + ours
    slopes = flambeau.autograd.grad(sum(r.square().sum() for r in results), leaves)
    others = flambeau.autograd.grad(sum(w.square().sum() for w in wanted), [*layer.parameters(), *ours])
    assert all(s.equal(o) for s, o in zip(slopes, others, strict=True))


@pytest.mark.parametrize(("name", "options"), [case for case in CASES if "dropout" not in case[1]])
def test_values_of_pytorch(native, name, options):
    torch = pytorch()
    dtype = np.float64 if "double" in options else np.float32
    given = {key: value for key, value in options.items() if key != "double"}
    x = numbers(4, 3, dtype=dtype) if name.endswith("Cell") else numbers(6, 4, 3, dtype=dtype)
    parameters, results, _ = native.run(name, 3, 5, options, flambeau.from_numpy(x), [])
    theirs = getattr(torch.nn, name)(3, 5, **given, dtype=getattr(torch, np.dtype(dtype).name))
    theirs.load_state_dict({key: torch.tensor(value.detach().numpy()) for key, value in parameters})
    bound = 100 * np.finfo(dtype).eps
    for one, other in zip(results, flat(theirs(torch.tensor(x))), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=bound, atol=bound)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_no_steps_and_no_batch(native, name):
    for shape in ((5, 0, 3), (1, 1, 3)):
        x = flambeau.zeros(shape)
        _, results, _ = native.run(name, 3, 5, {}, x, [])
        flambeau.manual_seed(3)
        wanted = flat(getattr(nn, name)(3, 5)(x))
        assert all(r.equal(w) for r, w in zip(results, wanted, strict=True))


WRONG = {
    "a size": (("LSTM", 0, 5, {}, (6, 4, 3)), ValueError, "LSTM: expected input_size >= 1, got 0"),
    "layers": (("GRU", 3, 5, {"num_layers": 0}, (6, 4, 3)), ValueError, "GRU: expected num_layers >= 1"),
    "dropout": (("RNN", 3, 5, {"dropout": 1.5}, (6, 4, 3)), ValueError, "RNN: expected dropout to be"),
    "projection": (("LSTM", 3, 5, {"proj_size": 5}, (6, 4, 3)), ValueError, "LSTM: expected 0 <= proj_size"),
    "dimensions": (("LSTM", 3, 5, {}, (2, 6, 4, 3)), ValueError, "LSTM: expected an input of 2 or 3"),
    "features": (("GRU", 3, 5, {}, (6, 4, 2)), RuntimeError, "GRU: expected input_size=3 features, got 2"),
    "dtype": (
        ("RNN", 3, 5, {"double": True}, (6, 4, 3)),
        ValueError,
        "RNN: expected input of dtype Double, got Float",
    ),
    "no dimensions": (("LSTMCell", 3, 5, {}, ()), ValueError, "LSTMCell: expected an input of 1 or 2"),
    "features of a cell": (("GRUCell", 3, 5, {}, (4, 2)), RuntimeError, "gru_cell"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments(native, what):
    (*arguments, shape), kind, text = WRONG[what]
    with pytest.raises(kind, match=text):
        native.run(*arguments, flambeau.zeros(shape), [])


def test_wrong_states(native):
    x = flambeau.zeros(6, 4, 3)
    with pytest.raises(RuntimeError, match=r"LSTM: Expected hidden\[1\] size \[1, 4, 5\], got \[1, 4, 4\]"):
        native.run("LSTM", 3, 5, {}, x, [flambeau.zeros(1, 4, 5), flambeau.zeros(1, 4, 4)])
    with pytest.raises(RuntimeError, match=r"GRU: Expected hidden size \[1, 4, 5\], got \[2, 4, 5\]"):
        native.run("GRU", 3, 5, {}, x, [flambeau.zeros(2, 4, 5)])
