"""scan, map and cond as functions, against PyTorch, and their gradients."""

import importlib

import flambeau as fb
import numpy as np
import pytest
from flambeau._higher_order_ops import cond, map, scan, while_loop
from sides import Scenarios, raised

scenario = Scenarios()


def parts(torch):
    home = torch.__name__ + "._higher_order_ops."
    return importlib.import_module(home + "scan").scan, importlib.import_module(home + "map").map


def values(torch, *shape):
    return torch.tensor(np.random.default_rng(0).standard_normal(shape))


@scenario
def scans(torch):
    scan, _ = parts(torch)
    x = values(torch, 4, 3)
    found = []
    for options in ({}, {"reverse": True}, {"dim": 1}, {"dim": -1, "reverse": True}):
        init = torch.zeros(4 if "dim" in options else 3, dtype=torch.float64)
        found += scan(lambda c, v: (c + v, c * v), init, x, **options)
    found.append(scan(lambda c, v: (c + v.sum(), v.sum()), torch.zeros((), dtype=torch.float64), x, dim=1)[1])
    tree, rows = scan(
        lambda c, v: ({"s": c["s"] + v[0]}, (c["s"] * v[1], v[0] + 1)), {"s": x[0] * 0}, (x, x * 2)
    )
    return [*found, tree["s"], *rows, scan(lambda c, v: (c, v), x, [])[1]]


@scenario
def maps(torch):
    _, map = parts(torch)
    x = values(torch, 3, 2)
    one, two = map(lambda v, w: (v[0] + w, v[1] * 2), (x, x.exp()), values(torch, 2))
    return [map(lambda v: v.sum(), x), one, two]


@scenario
def wrong_arguments(torch):
    scan, map = parts(torch)
    x = torch.ones(3, 2)
    return [
        raised("must be a callable", scan, 3, x[0], x),
        raised("init", scan, lambda c, v: (c, v), [], x),
        raised("", scan, lambda c, v: (c, v), x[0], x[:0]),
        raised("Dimension out of range", scan, lambda c, v: (c, v), x[0], x, dim=5),
        raised("can only consist of tensors", map, lambda v: v, 3),
        raised("cannot be 0", map, lambda v: v, x[:0]),
        raised("must be consistent", map, lambda v: v[0], (x, x[:2])),
    ]


test_as_in_pytorch = scenario.test()


def test_gradients_reach_states_slices_and_closures():
    x, w = (
        fb.randn(4, 3, dtype=fb.float64, requires_grad=True),
        fb.randn(3, dtype=fb.float64, requires_grad=True),
    )
    assert fb.autograd.gradcheck(
        lambda x, w: scan(lambda c, v: (c * w + v, (c * v).sin()), w, x, dim=0), (x, w)
    )
    assert fb.autograd.gradcheck(lambda x, w: map(lambda v: (v * w).sum().exp(), x), (x, w))

    def loop(x, w):
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * w), (fb.tensor(0), x))[1]

    assert fb.autograd.gradcheck(loop, (x, w))


def test_a_state_keeps_its_shape_dtype_and_structure():
    x = fb.ones(3, 2)
    for body, text in (
        (lambda c, v: (c.sum(), v), "same metadata"),
        (lambda c, v: (c.double(), v), "same metadata"),
        (lambda c, v: ((c, c), v), "structure"),
        (lambda c, v: c, "a pair"),
        (lambda c, v: (c, 3), "tensors as results"),
    ):
        with pytest.raises(RuntimeError, match=text):
            scan(body, fb.zeros(3), x, dim=1)


def test_errors_of_functions_pass_through():
    def broken(*values):
        raise KeyError("own")

    x = fb.ones(2)
    for call in (
        lambda: cond(fb.tensor(True), broken, fb.neg, (x,)),
        lambda: while_loop(broken, fb.neg, (x,)),
        lambda: scan(broken, x, x),
        lambda: map(broken, x),
    ):
        with pytest.raises(KeyError, match="own"):
            call()


def test_calls_may_be_nested():
    def row(carry, v):
        return map(lambda a: a + 1, carry), scan(lambda c, a: (c + a, c), v[0] * 0, v)[0]

    carry, sums = scan(row, fb.zeros(2), fb.ones(3, 4))
    assert carry.tolist() == [3, 3] and sums.tolist() == [4, 4, 4]
