"""torch::nn::utils::rnn and packed input of recurrent layers in C++: the values of Python's functions."""

import itertools
from pathlib import Path

import flambeau
import numpy as np
import pytest
from flambeau import nn
from flambeau.nn.utils import rnn
from flambeau.utils import cpp_extension
from oracle import pytorch

LENGTHS = ([4, 3, 3, 1], [2, 5, 1, 2], [3], [2, 2])


@pytest.fixture(scope="session")
def native(build_root):
    source = Path(__file__).with_name("recurrent.cpp")
    return cpp_extension.load("recurrent", [source], build_directory=build_root / "recurrent")


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def sequences_of(lengths, *features, dtype=np.float32, framework=flambeau):
    return [framework.tensor(numbers(n, *features, seed=i, dtype=dtype)) for i, n in enumerate(lengths)]


def is_falling(lengths):
    return lengths == sorted(lengths, reverse=True)


def assert_equal(found, wanted):
    """Compare tensors, None and nested tuples, bit for bit."""
    if isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_equal(one, other)
    elif wanted is None:
        assert found is None
    else:
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert flambeau.equal(found, wanted), (found, wanted)


@pytest.mark.parametrize("features", [(), (3,), (2, 3)])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_packing_and_padding(native, lengths, features):
    sequences, is_sorted = sequences_of(lengths, *features), is_falling(lengths)
    wanted = rnn.pack_sequence(sequences, enforce_sorted=is_sorted)
    assert_equal(native.pack(sequences, is_sorted), tuple(wanted))
    for batch_first, side in itertools.product((False, True), ("right", "left")):
        padded = rnn.pad_sequence(sequences, batch_first, -1.5, side)
        assert_equal(native.pad(sequences, batch_first, -1.5, side), padded)
        assert_equal(
            native.pack_padded(padded, flambeau.tensor(lengths), batch_first, is_sorted),
            tuple(rnn.pack_padded_sequence(padded, flambeau.tensor(lengths), batch_first, is_sorted)),
        )
        for total in (None, max(lengths), max(lengths) + 2):
            assert_equal(
                native.pad_packed(tuple(wanted), batch_first, 2.0, total),
                rnn.pad_packed_sequence(wanted, batch_first, 2.0, total),
            )


@pytest.mark.parametrize("lengths", LENGTHS)
def test_packing_of_pytorch(native, lengths):
    torch = pytorch()
    is_sorted = is_falling(lengths)
    theirs = torch.nn.utils.rnn.pack_sequence(
        sequences_of(lengths, 3, framework=torch), enforce_sorted=is_sorted
    )
    data, sizes, *_ = native.pack(sequences_of(lengths, 3), is_sorted)
    assert sizes.tolist() == theirs.batch_sizes.tolist()
    if len(set(lengths)) == len(lengths):  # equal lengths may be sorted in any order
        assert data.tolist() == theirs.data.tolist()
    padded, counts = native.pad_packed(native.pack(sequences_of(lengths, 3), is_sorted), True, 7.0, None)
    expected, expected_counts = torch.nn.utils.rnn.pad_packed_sequence(theirs, True, 7.0)
    assert (padded.tolist(), counts.tolist()) == (expected.tolist(), expected_counts.tolist())


def test_elements_of_every_kind_are_moved(native):
    for dtype in (flambeau.bool, flambeau.int8, flambeau.bfloat16, flambeau.complex64, flambeau.float64):
        sequences = [flambeau.ones(n, 2).to(dtype) for n in (3, 1)]
        assert_equal(native.pack(sequences, True), tuple(rnn.pack_sequence(sequences)))
    hidden = [flambeau.tensor([float("nan"), float("inf")]), flambeau.tensor([-0.0])]
    padded, lengths = native.pad_packed(native.pack(hidden, True), True, float("-inf"), None)
    assert str(padded.tolist()) == "[[nan, inf], [-0.0, -inf]]" and lengths.tolist() == [2, 1]
    for dtype in (flambeau.int32, flambeau.float64):
        assert pack_padded(native, [2, 1], dtype=dtype)[1].tolist() == [2, 1]
    strided = flambeau.arange(24.0).reshape(2, 3, 4).permute(2, 1, 0)  # time, batch, features
    lengths = flambeau.tensor([4, 0, 2, 0, 1, 0])[::2]
    wanted = rnn.pack_padded_sequence(strided, lengths)
    assert_equal(native.pack_padded(strided, lengths, False, True), tuple(wanted))


def test_gradients_reach_the_sequences(native):
    def slopes(pack, pad):
        leaves = [x.requires_grad_() for x in sequences_of([2, 4, 1], 3)]
        padded, _ = pad(pack(leaves))
        weights = flambeau.arange(float(padded.numel())).reshape(padded.shape)
        return flambeau.autograd.grad((padded * weights).sum(), leaves)

    found = slopes(lambda x: native.pack(x, False), lambda p: native.pad_packed(p, False, 0.0, None))
    wanted = slopes(lambda x: rnn.pack_sequence(x, enforce_sorted=False), rnn.pad_packed_sequence)
    assert_equal(found, wanted)


def test_sequences_in_another_dtype(native):
    sequence = native.pack(sequences_of([2, 3], 2), False)
    changed = native.to(sequence, flambeau.float64)
    assert_equal(changed, (sequence[0].double(), *sequence[1:]))
    assert native.to(sequence, flambeau.float32)[0].data_ptr() == sequence[0].data_ptr()
    order = flambeau.tensor([2, 0, 1])
    assert native.invert_permutation(order).tolist() == [1, 2, 0]
    assert native.fields((sequence[0], sequence[1], order, None))[3].tolist() == [1, 2, 0]


OPTIONS = [
    {},
    {"bias": False, "batch_first": True},
    {"bidirectional": True, "num_layers": 2},
    {"num_layers": 3, "dropout": 0.4},
    {"double": True, "bidirectional": True},
]
CASES = [
    *itertools.product(("LSTM", "GRU", "RNN"), OPTIONS),
    ("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True}),
    ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
]


def states_of(name, given, batch, dtype):
    layers = given.get("num_layers", 1) * (1 + given.get("bidirectional", 0))
    widths = [given.get("proj_size", 0) or 5, 5] if name == "LSTM" else [5]
    return [numbers(layers, batch, width, seed=i + 1, dtype=dtype) for i, width in enumerate(widths)]


def grouped(name, states):
    return tuple(states) if name == "LSTM" else states[0]


def listed(states):
    return list(states) if isinstance(states, tuple) else [states]


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS[:3])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_layers_over_packed_sequences(native, name, options, lengths, with_states):
    """Values and gradients have the bits of Python's layers."""
    dtype = np.float64 if "double" in options else np.float32
    given = {key: value for key, value in options.items() if key != "double"}
    leaves = [x.requires_grad_() for x in sequences_of(lengths, 3, dtype=dtype)]
    packed = rnn.pack_sequence(leaves, enforce_sorted=is_falling(lengths))
    states = [flambeau.tensor(s) for s in states_of(name, given, len(lengths), dtype) if with_states]
    states = [s.requires_grad_() for s in states]

    parameters, output, last = native.run_packed(name, 3, 5, options, tuple(packed), states)

    flambeau.manual_seed(3)
    layer = getattr(nn, name)(3, 5, **given)
    layer = layer.double() if "double" in options else layer
    flambeau.manual_seed(4)
    wanted, finals = layer(packed, *([grouped(name, states)] if states else []))
    assert_equal(output, tuple(wanted))
    assert_equal(last, listed(finals))

    weights = [value for _, value in parameters]
    ours = sum(x.square().sum() for x in [output[0], *last])
    theirs = sum(x.square().sum() for x in [wanted.data, *listed(finals)])
    assert_equal(
        flambeau.autograd.grad(ours, weights + leaves + states, retain_graph=True),
        flambeau.autograd.grad(theirs, [*layer.parameters(), *leaves, *states]),
    )


@pytest.mark.parametrize(("name", "options"), [case for case in CASES if "dropout" not in case[1]])
def test_layers_of_pytorch(native, name, options):
    torch = pytorch()
    lengths = [2, 5, 1, 3]
    dtype = np.float64 if "double" in options else np.float32
    given = {key: value for key, value in options.items() if key != "double"}
    states = states_of(name, given, len(lengths), dtype)
    packed = rnn.pack_sequence(sequences_of(lengths, 3, dtype=dtype), enforce_sorted=False)
    parameters, output, last = native.run_packed(
        name, 3, 5, options, tuple(packed), [flambeau.tensor(s) for s in states]
    )

    theirs = getattr(torch.nn, name)(3, 5, **given, dtype=getattr(torch, np.dtype(dtype).name))
    theirs.load_state_dict({key: torch.tensor(value.detach().numpy()) for key, value in parameters})
    wanted, finals = theirs(
        torch.nn.utils.rnn.pack_sequence(
            sequences_of(lengths, 3, dtype=dtype, framework=torch), enforce_sorted=False
        ),
        grouped(name, [torch.tensor(s) for s in states]),
    )
    bound = 100 * np.finfo(dtype).eps
    for one, other in zip([output[0], *last], [wanted.data, *listed(finals)], strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=bound, atol=bound)


def pack_padded(native, lengths, *, dtype=None, shape=(3, 2, 4), enforce_sorted=True):
    given = flambeau.tensor(lengths, dtype=dtype)
    return native.pack_padded(flambeau.zeros(shape), given, False, enforce_sorted)


def padded_of(native, sizes, rows, total_length=None, dtype=None):
    data = flambeau.zeros(rows, 4) if isinstance(rows, int) else rows
    fields = (data, flambeau.tensor(sizes, dtype=dtype), None, None)
    return native.pad_packed(fields, False, 0.0, total_length)


WRONG = {
    "rising lengths": (lambda n: pack_padded(n, [1, 3]), RuntimeError, "decreasing order"),
    "no length": (lambda n: pack_padded(n, [], dtype=flambeau.int64), RuntimeError, "greater than 0"),
    "an empty sequence": (lambda n: pack_padded(n, [2, 0]), RuntimeError, r"greater than 0, got \[2, 0\]"),
    "a negative length": (lambda n: pack_padded(n, [2, -1]), RuntimeError, "greater than 0"),
    "too many lengths": (lambda n: pack_padded(n, [2, 1, 1]), RuntimeError, "batch_size 2, got 3"),
    "too few, unsorted": (
        lambda n: pack_padded(n, [2], enforce_sorted=False),
        RuntimeError,
        "batch_size 2, got 1",
    ),
    "too long": (lambda n: pack_padded(n, [2**62, 1]), RuntimeError, "up to 3, the padded time"),
    "lengths in rows": (lambda n: pack_padded(n, [[2, 1]]), RuntimeError, "1D CPU tensor, got 2D on cpu"),
    "one dimension": (lambda n: pack_padded(n, [2], shape=(3,)), RuntimeError, "2 dimensions or more, got 1"),
    "a short result": (lambda n: padded_of(n, [2, 1], 3, 1), ValueError, "total_length of 2 or more, got 1"),
    "a negative result": (lambda n: padded_of(n, [2, 1], 3, -5), ValueError, "total_length"),
    "rising sizes": (lambda n: padded_of(n, [1, 2], 3), RuntimeError, "do not rise"),
    "no sequence": (lambda n: padded_of(n, [0], 0), RuntimeError, "above 0"),
    "no step": (lambda n: padded_of(n, [], 0, dtype=flambeau.int64), RuntimeError, "above 0"),
    "too few rows": (lambda n: padded_of(n, [2, 1], 2), RuntimeError, r"batch_sizes \[2, 1\], got 2"),
    "too many rows": (lambda n: padded_of(n, [2, 1], 4), RuntimeError, "as many rows"),
    "huge sizes": (lambda n: padded_of(n, [2**62, 2**62, 2**62], 3), RuntimeError, "as many rows"),
    "no rows": (lambda n: padded_of(n, [1], flambeau.tensor(1.0)), RuntimeError, "as many rows"),
    "short sizes": (lambda n: padded_of(n, [2, 1], 3, dtype=flambeau.int32), RuntimeError, "dtype Long"),
    "no tensors": (lambda n: n.pack([], True), RuntimeError, "pack_sequence: expected one sequence or more"),
    "a number": (lambda n: n.pad([flambeau.tensor(1.0)], False, 0.0, "right"), RuntimeError, "1 dimension"),
    "another side": (lambda n: n.pad([flambeau.ones(2)], False, 0.0, "top"), RuntimeError, "got 'top'"),
    "sizes elsewhere": (
        lambda n: n.fields((flambeau.ones(2), flambeau.ones(1, device="meta"), None, None)),
        ValueError,
        "batch_sizes on the CPU, got meta",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments(native, what):
    call, kind, text = WRONG[what]
    with pytest.raises(kind, match=text):
        call(native)


def test_wrong_input_of_layers(native):
    def run(data, states=(), sizes=(2, 1)):
        fields = (data, flambeau.tensor(sizes), None, None)
        return native.run_packed("LSTM", 3, 5, {}, fields, list(states))

    with pytest.raises(RuntimeError, match="LSTM: expected packed data of 2 dimensions, got 3"):
        run(flambeau.zeros(3, 1, 3))
    with pytest.raises(RuntimeError, match="LSTM: expected input_size=3 features, got 2"):
        run(flambeau.zeros(3, 2))
    with pytest.raises(ValueError, match="LSTM: expected input of dtype Float, got Double"):
        run(flambeau.zeros(3, 3).double())
    with pytest.raises(RuntimeError, match=r"Expected hidden\[0\] size \[1, 2, 5\], got \[1, 3, 5\]"):
        run(flambeau.zeros(3, 3), [flambeau.zeros(1, 3, 5), flambeau.zeros(1, 2, 5)])
    with pytest.raises(RuntimeError, match="as many rows"):
        run(flambeau.zeros(4, 3))


def test_wrong_order_of_the_batch(native):
    order = flambeau.tensor([5, 0])
    fields = (flambeau.zeros(3, 3), flambeau.tensor([2, 1]), order, order)
    with pytest.raises(RuntimeError, match="expected indices from 0 to 1, got 5"):
        native.run_packed("GRU", 3, 5, {}, fields, [flambeau.zeros(1, 2, 5)])
    with pytest.raises(RuntimeError, match="expected indices from 0 to 1, got 5"):
        native.pad_packed(fields, False, 0.0, None)
