"""The changes, reads and calls that functions of captured loops may make."""

import flambeau as fb
import pytest
from captured import run_both, same
from flambeau import _dynamo
from flambeau._higher_order_ops import cond, map, scan, while_loop
from flambeau.compiler.passes import fusion


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Fuse groups of any size, so that tests can use small tensors."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    yield
    fb.compiler.reset()


def test_strides_that_a_step_changes():
    def use(x, w):
        y = while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a @ w), (fb.tensor(0), x.t()))[1]
        return y * 2 if y.is_contiguous() else y * 3

    for backend in ("eager", "inductor"):
        compiled = fb.compile(use, backend=backend)
        for _ in range(3):
            x, w = fb.randn(3, 3).requires_grad_(), fb.randn(3, 3).requires_grad_()
            one, other = compiled(x, w), use(x, w)
            assert fb.equal(one, other)
            assert all(
                fb.allclose(a, b)
                for a, b in zip(*(fb.autograd.grad(r.sum(), (x, w)) for r in (one, other)), strict=True)
            )


def test_a_gradient_state_that_a_step_changes():
    w = fb.ones(2, requires_grad=True)

    def use(x):
        return scan(lambda c, v: (c * w + v * (2 if c.requires_grad else 3), v * 1), x[0] * 1, x)

    def after(x):
        y = while_loop(lambda a: a.sum() < 4, lambda a: (a * w * 3,), (x * 1,))[0]
        return y * (2 if y.requires_grad else 3)

    for function in (use, after):
        compiled = fb.compile(function, backend="eager")
        for scale in (1.0, 1.0, 4.0, 1.0):
            x = fb.ones(3, 2) * scale
            assert same(compiled(x), function(x))
        with pytest.raises(_dynamo.exc.Unsupported, match="requires_grad of a tensor that is carried"):
            fb.compiler.reset()
            fb.compile(function, backend="eager", fullgraph=True)(fb.ones(3, 2))


def test_what_functions_read_is_guarded():
    box = {"factor": 2.0}

    def use(x):
        return scan(lambda c, v: (c * box["factor"] + v, c * 1), x[0], x)

    compiled = fb.compile(use, backend="eager", fullgraph=True)
    for factor in (2.0, 3.0, 2.0):
        box["factor"] = factor
        assert same(compiled(fb.ones(3, 2)), use(fb.ones(3, 2)))


def test_an_operand_that_changes_before_backward():
    def use(x, w):
        y = x * 2
        z = scan(lambda c, v: (c * v * w, c * 1), y[0] * 1, y)[0]
        y.add_(1)
        return z * 3 + y.sum()

    for function in (use, fb.compile(use), fb.compile(use, backend="eager")):
        for _ in range(2):
            x, w = fb.ones(3, 2).requires_grad_(), fb.ones(2).requires_grad_()
            with pytest.raises(RuntimeError, match="modified by an inplace operation|in place|version"):
                function(x, w).sum().backward()


def test_compiled_functions_and_modules_in_steps():
    inner = fb.compile(lambda a: a.sin() + 1, backend="eager")
    layer = fb.nn.Linear(3, 3)

    def use(x):
        return scan(lambda c, v: (layer(c) + inner(v), c.sum()), x[0], x)

    graphs, found = run_both(use, [fb.ones(4, 3)])
    assert len(graphs) == 1 and not found.log


def test_recursion_and_branches():
    def power(x, n):
        if n == 0:
            return x
        return while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, power(a * 0.5, n - 1)), (fb.tensor(0), x))[
            1
        ]

    def use(x):
        return cond(x.sum() > 0, lambda a: power(a, 2) + 1, lambda a: map(lambda v: v * 2, a), (x,))

    for backend in ("eager", "inductor"):
        compiled = fb.compile(use, backend=backend, fullgraph=True)
        for x in (fb.ones(3), -fb.ones(3), fb.ones(3)):
            x.requires_grad_()
            one, other = compiled(x), use(x)
            assert fb.equal(one, other)
            assert fb.allclose(*(fb.autograd.grad(r.sum(), x)[0] for r in (one, other)))
