"""Calls that are made with flambeau and with PyTorch: equal results, or exceptions of PyTorch's type."""

import math
import warnings

import flambeau
import pytest
from oracle import pytorch
from sides import differences, plain

PLACES = [[0, 1, 1, 0], [2, 0, 2, 2]]


def sample(t, dtype="float64"):
    """A 2 x 3 matrix of four entries, two of them in one place."""
    values = t.tensor([0.5, -2.0, 3.0, -1.0], dtype=t.float64).to(getattr(t, dtype))
    return t.sparse_coo_tensor(t.tensor(PLACES), values, (2, 3))


def hybrid(t):
    """The same with values of two numbers."""
    values = t.arange(8.0, dtype=t.float64).reshape(4, 2) + 1
    return t.sparse_coo_tensor(t.tensor(PLACES), values, (2, 3, 2))


def square(t):
    """A coalesced 3 x 3 matrix."""
    places, values = [[0, 0, 1, 2, 2], [0, 2, 1, 0, 2]], [1.0, 2.0, 3.0, 4.0, 5.0]
    return t.sparse_coo_tensor(t.tensor(places), t.tensor(values, dtype=t.float64), (3, 3)).coalesce()


def dense(t, *shape):
    """1, 2, 3, ... as a strided tensor."""
    return (t.arange(float(math.prod(shape)), dtype=t.float64).reshape(shape)) + 1


def gradient(t, x, function):
    """The gradient of a weighted sum of all elements of a function's result."""
    x = x.detach().requires_grad_()
    y = function(x).to_dense()
    weights = (t.arange(float(y.numel()), dtype=y.dtype) + 1).reshape(y.shape)
    return t.autograd.grad((y * weights).sum(), x)[0]


def shown(x):
    """All of a result that does not depend on the order and number of entries."""
    if isinstance(x, tuple | list):
        return [shown(item) for item in x]
    if not hasattr(x, "is_sparse"):
        return x if isinstance(x, int | float | bool | str) else str(x).rpartition(".")[2]
    kind = [str(x.dtype).rpartition(".")[2], list(x.shape), x.requires_grad]
    if not x.is_sparse:
        return ["strided", *kind, plain(x)]
    places = sorted(map(tuple, zip(*x.coalesce().indices().tolist(), strict=True)))
    return ["sparse", *kind, x.sparse_dim(), x.dense_dim(), places, plain(x.detach().to_dense())]


def outcome(case, t):
    try:
        return plain(shown(case(t)))
    except Exception as error:
        return type(error)


def agreeing(cases):
    """A test of each call."""

    @pytest.mark.parametrize("name", cases)
    def test_as_in_pytorch(name):
        torch = pytorch()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = outcome(cases[name], torch), outcome(cases[name], flambeau)
        if isinstance(expected, type):
            # NotImplementedError is a RuntimeError: what catches PyTorch's catches ours
            names = [base.__name__ for base in getattr(found, "__mro__", ())]
            assert expected.__name__ in names, (found, expected)
        else:
            assert found == expected, differences(found, expected)

    return test_as_in_pytorch
