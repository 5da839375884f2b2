"""Warnings of handwritten C++: their texts, and PyTorch's category where PyTorch warns."""

import warnings

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch


def read_only_array(m):
    array = np.ones(3)
    array.flags.writeable = False
    m.from_numpy(array)


def read_only_buffer(m):
    m.frombuffer(b"\0" * 8, dtype=m.float32)


def gradient_of_a_result(m):
    y = m.ones(2, requires_grad=True) * 2
    assert y.grad is None


def marked_without_an_argument(m):
    class Doubled(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            other = m.zeros(2)
            ctx.mark_dirty(other)
            return x * 2, other

        @staticmethod
        def backward(ctx, *slopes):
            return slopes[0] * 2

    Doubled.apply(m.ones(2, requires_grad=True))


def plain_override(m):
    class Odd:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 7

    assert m.add(Odd(), 1) == 7


CASES = {
    read_only_array: "from_numpy: The given NumPy array is not writable",
    read_only_buffer: "frombuffer: The given buffer is not writable",
    gradient_of_a_result: "grad: this tensor is not a leaf Tensor",
    marked_without_an_argument: "mark_dirty: expected tensors that forward took",
    plain_override: "__torch_function__: a plain method is deprecated",
}


def warned(case, m):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        case(m)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_text(case):
    (found,) = warned(case, fb)
    assert str(found.message).startswith(CASES[case])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_warning_can_be_an_error(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Warning, match=CASES[case].split(":")[0]):
            case(fb)
    warned(case, fb)  # nothing is left behind


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_category_of_pytorch(case):
    try:
        theirs = warned(case, pytorch())
    except RuntimeError:  # it refuses the call
        theirs = []
    if theirs:
        assert [w.category for w in warned(case, fb)] == [w.category for w in theirs][:1]
