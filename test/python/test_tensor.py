"""The Tensor type in Python: indexing, printing, interchange, pickling, subclasses, errors."""

from __future__ import annotations

import copy
import pickle

import flambeau as fb
import numpy as np
import pytest

ARRAY = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
PLACES = [
    1,
    -1,
    (0, 2),
    (slice(None), 1),
    (slice(1, None), slice(None, None, 2)),
    (..., 0),
    (None, 1, ...),
    (slice(None), None, [0, 2]),
    ([0, 2], [1, 3]),
    ([[0, 1], [2, 0]], slice(1, 3)),
    (slice(None), [0, 1], slice(None), None),
    np.array([True, False, True]),
    ARRAY > 30,
    (0, np.array([True, False, True, False])),
]


def to_index(place):
    if isinstance(place, tuple):
        return tuple(map(to_index, place))
    return fb.tensor(place) if isinstance(place, np.ndarray) else place


@pytest.mark.parametrize("place", PLACES, ids=[str(i) for i in range(len(PLACES))])
def test_indexing_is_numpys(place):
    np.testing.assert_array_equal(fb.tensor(ARRAY)[to_index(place)].numpy(), ARRAY[place])


@pytest.mark.parametrize("place", PLACES, ids=[str(i) for i in range(len(PLACES))])
def test_index_assignment_is_numpys(place):
    tensor, array = fb.tensor(ARRAY), ARRAY.copy()
    tensor[to_index(place)] = -7
    array[place] = -7
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_index_errors():
    x = fb.zeros(2, 3)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        x[5]
    with pytest.raises(IndexError, match="too many indices"):
        x[0, 0, 0]
    with pytest.raises(IndexError):
        x[fb.tensor([True, False, True])]
    with pytest.raises((TypeError, IndexError)):
        x["a"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: fb.tensor([1, 2, 3]), "tensor([1, 2, 3])"),
        (lambda: fb.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
        (lambda: fb.tensor(3.0), "tensor(3.)"),
        (lambda: fb.tensor([]), "tensor([])"),
        (lambda: fb.tensor([True, False]), "tensor([ True, False])"),
        (lambda: fb.tensor([1e-8, 1.0]), "tensor([1.0000e-08, 1.0000e+00])"),
        (lambda: fb.tensor([1.5], dtype=fb.float64), "tensor([1.5000], dtype=flambeau.float64)"),
        (lambda: fb.ones(1, requires_grad=True), "tensor([1.], requires_grad=True)"),
        (lambda: fb.tensor([1 + 2j]), "tensor([1.+2.j])"),
        (lambda: fb.zeros(2, 0), "tensor([], size=(2, 0))"),
        (lambda: fb.tensor([float("nan"), float("inf")]), "tensor([nan, inf])"),
    ],
)
def test_printing(make, text):
    assert repr(make()) == text


def test_large_tensors_are_summarised():
    text = repr(fb.arange(5000))
    assert "..." in text and len(text) < 100


def test_numpy_shares_memory():
    array = np.zeros(3, np.float32)
    tensor = fb.from_numpy(array)
    tensor[1] = 5
    assert array[1] == 5
    tensor.numpy()[2] = 7
    assert tensor.tolist() == [0, 5, 7]


def test_dlpack_both_ways():
    array = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(np.from_dlpack(fb.from_dlpack(array)), array)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(protocol):
    x = fb.randn(3, 4, requires_grad=True)
    back = pickle.loads(pickle.dumps(x, protocol))
    assert fb.equal(x, back) and back.requires_grad
    assert pickle.loads(pickle.dumps(fb.float16, protocol)) is fb.float16


def test_deepcopy_is_apart():
    x = fb.zeros(3)
    y = copy.deepcopy(x)
    y.add_(1)
    assert x.sum().item() == 0


def test_subclasses_stay():
    class Metres(fb.Tensor):
        pass

    x = fb.ones(2).as_subclass(Metres)
    assert type(x + 1) is Metres
    assert type(x.sum()) is Metres


def test_identity_survives_the_graph():
    x = fb.ones(2, requires_grad=True)
    x.note = "kept"
    y = x * 1
    ident = id(x)
    del x
    x = y.grad_fn.next_functions[0][0].variable
    assert x.note == "kept"
    assert id(x) == ident


def test_argument_errors_show_signatures():
    with pytest.raises(TypeError, match=r"softmax"):
        fb.softmax(fb.zeros(2), "a")
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        fb.zeros(2) + fb.zeros(3)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        fb.zeros(2, 3) @ fb.zeros(2, 3)


def test_truth_needs_one_element():
    assert fb.tensor(1)
    with pytest.raises(RuntimeError, match="Boolean value of"):
        bool(fb.zeros(2))


def test_compatible_program_runs(tmp_path):
    import subprocess
    import sys

    script = tmp_path / "program.py"
    script.write_text(
        "import torch, torch.nn as nn\nprint(torch.ones(2).sum().item(), nn.Linear(1, 1).bias.shape)"
    )
    command = [sys.executable, "-m", "flambeau.compat", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2.0 ")
