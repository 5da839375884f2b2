"""Infix operators between tensors and all that is not a tensor: results, types and failures as PyTorch's."""

import copy
import operator
import warnings
from decimal import Decimal
from fractions import Fraction

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

ARITHMETIC = "add sub mul truediv floordiv mod pow matmul".split()
BITS = "and_ or_ xor lshift rshift".split()
COMPARISONS = "eq ne lt le gt ge".split()
IN_PLACE = "iadd isub imul itruediv ifloordiv imod imatmul iand ior ixor ilshift irshift".split()
TENSOR_DTYPES = ("float32", "int32", "complex64")
SHAPES = ((2,), ())


class Answering:
    """Has an answer of its own, whichever side it stands on."""

    def __getattr__(self, name):
        raise AttributeError(name)


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    setattr(Answering, f"__{_name}__", lambda self, other, name=_name: f"left {name}")
    setattr(Answering, f"__r{_name}__", lambda self, other, name=_name: f"right {name}")


def arrays():
    kinds = ("f8", "f4", "f2", "i8", "i4", "i2", "u1", "u4", "?", "c8", "c16")
    found = {f"array of {kind}": np.array([1, 2]).astype(kind) for kind in kinds}
    found["array of another shape"] = np.ones((3, 5))
    found["array without dimensions"] = np.array(2.0)
    found["array of objects"] = np.array([1, "x"], dtype=object)
    found["array of texts"] = np.array(["x", "y"])
    found["array of dates"] = np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")
    found["reversed array"] = np.arange(2.0)[::-1]
    found["read-only array"] = np.broadcast_to(np.float64(2), (2,))
    return found


def operands():
    # PyTorch takes numpy.bool as a float and drops the imaginary part of numpy.complex64: see below.
    scalars = (np.float64(2), np.float32(2), np.int64(2), np.int8(2), np.complex128(1 + 2j))
    found = {f"NumPy's {type(value).__name__}": value for value in scalars}
    found |= {"int": 2, "float": 2.5, "complex": 1 + 2j}
    found |= {"list": [1, 2], "tuple": (1.0, 2.0), "range": range(2), "set": {1}, "dict": {1: 2}}
    found |= {"None": None, "str": "x", "type": int, "slice": slice(1)}
    found |= {"Fraction": Fraction(1, 2), "Decimal": Decimal(2), "answering": Answering()}
    return {**arrays(), **found}


def outcome(call):
    """What an observer sees of a call: the type, dtype, shape and values, or the kind of failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call()
        except RuntimeError:
            return "RuntimeError"  # or NotImplementedError, where a kernel lacks the dtype
        except Exception as error:
            return type(error).__name__
    return seen(result)


def seen(result):
    if isinstance(result, tuple | list):
        return [type(result).__name__, *map(seen, result)]
    kind = type(result).__name__
    if not hasattr(result, "dtype"):
        return kind, result if isinstance(result, bool | int | float | str) else None
    dtype = str(result.dtype).rpartition(".")[2]
    values = np.asarray(result.detach() if kind == "Tensor" else result)
    return kind, dtype, values.shape, np.array2string(values, precision=4)


def fresh(value):
    return copy.copy(value)


def outcomes(m, name, other):
    """Both orders for tensors of all dtypes and shapes."""
    function = getattr(operator, name)
    for dtype in TENSOR_DTYPES:
        for shape in SHAPES:
            tensor = m.ones(shape).mul(3).to(getattr(m, dtype))
            yield outcome(lambda t=tensor: function(t.clone(), fresh(other)))
            yield outcome(lambda t=tensor: function(fresh(other), t.clone()))


@pytest.mark.parametrize("name", ARITHMETIC + BITS + COMPARISONS + IN_PLACE)
def test_operators(name):
    torch = pytorch()
    wrong = []
    for kind, other in operands().items():
        ours, theirs = list(outcomes(fb, name, other)), list(outcomes(torch, name, other))
        wrong += [(kind, i, a, b) for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    assert not wrong, f"{len(wrong)} differ: {wrong[:4]}"


def test_numbers_of_numpy_keep_their_category():
    x = fb.ones(2, dtype=fb.int32)
    assert (x + np.bool_(True)).dtype is fb.int32
    assert (x + np.complex64(1j)).tolist() == [1 + 1j, 1 + 1j]
