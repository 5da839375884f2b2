"""`cond` in compiled graphs: both branches, forward and backward, against the plain program and PyTorch."""

import flambeau as fb
import pytest
from flambeau._dynamo.utils import counters
from flambeau._higher_order_ops import cond
from flambeau.compiler.passes import fusion
from oracle import pytorch


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Fuse groups of any size, so that tests can use small tensors."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    counters["fusion"].clear()
    yield
    fb.compiler.reset()


def leaves(lib=fb):
    values = lib.arange(16, dtype=lib.float32).view(4, 4).sin()
    return [(values * k).requires_grad_() for k in (1.0, 0.5)] + [(values[0] * 0.3).detach().requires_grad_()]


def simple(lib, cond):
    def program(x, w, b):
        y = (x * 2 + 1).sigmoid()
        z = cond(y.sum() > 8, lambda a: (a @ w * 2 + 1).tanh(), lambda a: (a * b + 1).sin() * 2, (y,))
        return (z * 3 + 1).relu().sum()

    return program


def nested(lib, cond):
    def program(x, w, b):
        def inner(a):
            return cond(a.sum() > 20, lambda c: (c * w).exp() * 0.1, lambda c: (c + b).sigmoid() * c, (a,))

        return (cond(x.sum() > 0, inner, lambda a: (a * b * 2).cos(), (x * 1.5,)) * 2 + 1).sum()

    return program


def several(lib, cond):
    def program(x, w, b):
        def one(a, c):
            return a * c + 1, (a.detach() * 2).cos()

        def two(a, c):
            return (a - c) * 2, (c.detach() * 3).sin()

        p, q = cond(x.sum() > 0, one, two, (x, w))
        r, s = cond(p.mean() > 0, one, two, (q * b, p))
        return (r * s + p * 2).sum()

    return program


PROGRAMS = [simple, nested, several]
SHIFTS = (0.0, -4.0, 4.0, 0.0, -4.0)


def gradients(function, inputs, shift):
    given = [x.detach().clone().requires_grad_() for x in inputs]
    result = function(given[0] + shift, *given[1:])
    result.backward()
    return result.detach(), [x.grad for x in given]


def assert_as(found, expected):
    assert fb.allclose(found[0], expected[0], rtol=1e-5, atol=1e-6, equal_nan=True)
    for one, other in zip(found[1], expected[1], strict=True):
        if one is None or other is None:  # only the branch that did not run reads the tensor
            assert (one is None or not one.any()) and (other is None or not other.any())
        else:
            assert fb.allclose(one, other, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_the_plain_program(program):
    function = program(fb, cond)
    compiled = fb.compile(function, fullgraph=True)
    for shift in SHIFTS:
        assert_as(gradients(compiled, leaves(), shift), gradients(function, leaves(), shift))
    assert counters["fusion"]["groups"] > 0, dict(counters["fusion"])
    assert set(counters["fusion"]) <= {"groups", "operators computed again"}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_pytorch(program):
    torch = pytorch()
    compiled = fb.compile(program(fb, cond), fullgraph=True)
    for shift in SHIFTS:
        found = gradients(compiled, leaves(), shift)
        value, slopes = gradients(program(torch, torch.cond), leaves(torch), shift)
        expected = fb.tensor(value.tolist()), [None if g is None else fb.tensor(g.tolist()) for g in slopes]
        assert_as(found, expected)


def test_without_gradients():
    function = simple(fb, cond)
    compiled = fb.compile(function)
    for shift in SHIFTS:
        x, w, b = (t.detach() for t in leaves())
        assert fb.equal(compiled(x + shift, w, b), function(x + shift, w, b))
    assert counters["fusion"]["groups"] > 0


def test_a_branch_with_random_numbers_runs_as_it_was_captured():
    def program(x, w, b):
        z = cond(x.sum() > 0, lambda a: fb.nn.functional.dropout(a * w + 1), lambda a: a * b, (x,))
        return (z * 2 + 1).sin().sum()

    compiled = fb.compile(program)
    for shift in SHIFTS:
        pair = []
        for function in (compiled, program):
            fb.manual_seed(1)
            pair.append(gradients(function, leaves(), shift))
        assert_as(*pair)
    assert counters["fusion"]["cond with a branch that draws random numbers"] > 0


def test_branches_in_a_region_of_autocast():
    def program(x, w, b):
        with fb.autocast("cpu", dtype=fb.bfloat16):
            z = cond(x.sum() > 0, lambda a: (a @ w) * 2 + b.bfloat16(), lambda a: (w @ a) * 3, (x,))
        assert z.dtype == fb.bfloat16
        return (z.float() * 2 + 1).sin().sum()

    compiled = fb.compile(program)
    for shift in SHIFTS:
        found, expected = gradients(compiled, leaves(), shift), gradients(program, leaves(), shift)
        assert fb.equal(found[0], expected[0])
        for one, other in zip(found[1][:2], expected[1][:2], strict=True):
            assert fb.allclose(one, other, rtol=2e-2, atol=1e-1)


def test_special_numbers_empty_and_zero_dim():
    def program(x, w):
        z = cond((x.sum() > 0).any(), lambda a: (a * w + 1).log(), lambda a: (a - w).exp() * 2, (x,))
        return (z * 2 + 1).sum()

    inf, nan = float("inf"), float("nan")
    inputs = [fb.tensor([nan, inf, -inf, -0.0]), fb.ones(0), fb.tensor(1.5), fb.ones(3, 2).t()]
    for x in inputs:
        compiled = fb.compile(program)
        w = fb.full_like(x, 0.5)
        for _ in range(2):
            assert_as(gradients(compiled, [x, w], 0.0), gradients(program, [x, w], 0.0))


def test_conditions_of_several_elements():
    compiled = fb.compile(lambda x: cond(x, fb.sin, fb.cos, (x,)) * 2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cond: expected a condition of one element"):
            compiled(fb.ones(3))


def test_two_backward_passes():
    compiled = fb.compile(simple(fb, cond))
    for _ in range(2):
        x, w, b = leaves()
        loss = compiled(x, w, b)
        loss.backward(retain_graph=True)
        first = x.grad.clone()
        loss.backward()
        assert fb.allclose(x.grad, 2 * first)
