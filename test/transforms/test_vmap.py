"""vmap: dimensions in and out, chunks, randomness, nesting, errors."""

import flambeau as fb
import numpy as np
import pytest
from side_by_side import agree, fail_alike, numbers

X, Y, M = numbers(3, seed=1), numbers(3, seed=2), numbers(3, 4, seed=3)

PROGRAMS = {
    "one argument": lambda m, x, y, a: m.vmap(m.sin)(x),
    "two": lambda m, x, y, a: m.vmap(m.mul)(x, y),
    "a constant": lambda m, x, y, a: m.vmap(lambda b: b * y)(x),
    "an unmapped argument": lambda m, x, y, a: m.vmap(m.mul, in_dims=(0, None))(x, y),
    "an unmapped number": lambda m, x, y, a: m.vmap(lambda b, n: b * n, in_dims=(0, None))(x, 3),
    "negative dimensions": lambda m, x, y, a: m.vmap(m.sum, in_dims=-1, out_dims=-1)(a),
    "out_dims": lambda m, x, y, a: m.vmap(lambda r: r * 2, out_dims=1)(a),
    "out_dims of one": lambda m, x, y, a: m.vmap(lambda r: r * 2, out_dims=(1,))(a),
    "out_dims of several": lambda m, x, y, a: m.vmap(lambda r: (r, r * 2), out_dims=(0, 1))(a),
    "an output without a batch": lambda m, x, y, a: m.vmap(lambda b: (b, y.sum()), out_dims=(0, None))(x),
    "an output that is constant": lambda m, x, y, a: m.vmap(lambda b: y.sum())(x),
    "passed on": lambda m, x, y, a: m.vmap(lambda b: (b, 3), out_dims=(0, None))(x),
    "keyword arguments are not mapped": lambda m, x, y, a: m.vmap(lambda b, k=1: b * k)(x, k=y),
    "containers": lambda m, x, y, a: m.vmap(lambda d: {"s": d["x"][0] * d["y"], "t": [d["y"]]})(
        {"x": (x,), "y": y}
    ),
    "a prefix": lambda m, x, y, a: m.vmap(lambda p, q: p[0] * p[1] + q, in_dims=((0, None), None))((x, y), y),
    "out_dims in a dict": lambda m, x, y, a: m.vmap(
        lambda r: {"a": r, "b": (r, r)}, out_dims={"a": 0, "b": (1, 0)}
    )(a),
    "nested": lambda m, x, y, a: m.vmap(lambda b: m.vmap(lambda c: b * c)(y))(x),
    "nested in both": lambda m, x, y, a: m.vmap(m.vmap(m.sin, in_dims=0), in_dims=1)(a),
    "nested constants": lambda m, x, y, a: m.vmap(lambda b: m.vmap(lambda c: c * 2)(y))(x),
    "a product": lambda m, x, y, a: m.vmap(lambda r: a @ r)(a),
    "chunks": lambda m, x, y, a: m.vmap(lambda r: (r, r.sum()), chunk_size=2, out_dims=(1, 0))(a),
    "chunks, some of it constant": lambda m, x, y, a: m.vmap(
        lambda r: (r, a.sum()), chunk_size=2, out_dims=(0, 0)
    )(a),
    "one chunk": lambda m, x, y, a: m.vmap(m.sin, chunk_size=9)(x),
    "results under names": lambda m, x, y, a: list(m.vmap(lambda r: m.max(r, 0))(a)),
    "indexing": lambda m, x, y, a: m.vmap(lambda r: r[1:] * r[0])(a),
    "in place": lambda m, x, y, a: m.vmap(lambda r: r.clone().mul_(r).add_(1))(a),
    "in place on zeros_like": lambda m, x, y, a: m.vmap(lambda r: m.zeros_like(r).add_(r))(a),
    "where": lambda m, x, y, a: m.vmap(lambda b: m.where(b > 0, b, -2 * b))(x),
    "cat": lambda m, x, y, a: m.vmap(lambda r: m.cat([r, y]))(a),
    "no entries": lambda m, x, y, a: m.vmap(m.sin)(m.zeros(0, 2)),
    "no entries, several operators": lambda m, x, y, a: m.vmap(lambda r: (r @ r).exp())(m.zeros(0, 2)),
    "sizes": lambda m, x, y, a: m.vmap(lambda r: r * (r.dim() + r.numel() + len(r) + r.shape[0]))(a),
    "reads nothing": lambda m, x, y, a: m.vmap(lambda r: r.new_ones(2) * r.sum())(a),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_results_are_pytorchs(program):
    agree(program, X, Y, M)


FAILURES = {
    "nothing": (lambda m, x: m.vmap(m.sin)(), "got no inputs"),
    "more dims": (lambda m, x: m.vmap(m.sin, in_dims=(0, 1))(x), "in_dims"),
    "fewer dims": (lambda m, x: m.vmap(m.add, in_dims=(0,))(x, x), "in_dims"),
    "other keys": (lambda m, x: m.vmap(m.sin, in_dims=({"a": 0},))({"b": x}), "in_dims"),
    "a dict": (lambda m, x: m.vmap(m.sin, in_dims={"a": 0})(x), "`in_dims` to be"),
    "a list": (lambda m, x: m.vmap(m.add, in_dims=[0, None])(x, x), "`in_dims` to be"),
    "a fraction": (lambda m, x: m.vmap(m.sin, in_dims=(0.5,))(x), "None"),
    "only None": (lambda m, x: m.vmap(m.sin, in_dims=(None,))(x), "Expected at least one|none"),
    "too large": (lambda m, x: m.vmap(m.sin, in_dims=1)(x), "-1 "),
    "too small": (lambda m, x: m.vmap(m.sin, in_dims=-2)(x), "-1 "),
    "no dimension": (lambda m, x: m.vmap(m.sin)(x.sum()), "dimension.* 0|0 dimensions"),
    "other sizes": (lambda m, x: m.vmap(m.add)(x, x[1:]), "mapped dimension"),
    "a number in": (lambda m, x: m.vmap(m.add)(x, 3), "of type"),
    "a number out": (lambda m, x: m.vmap(lambda b: 3)(x), "got type"),
    "nothing out": (lambda m, x: m.vmap(lambda b: None)(x), "got type"),
    "no such place": (lambda m, x: m.vmap(m.sin, out_dims=1)(x), "Dimension out of range"),
    "no such place in front": (lambda m, x: m.vmap(m.sin, out_dims=-2)(x), "Dimension out of range"),
    "places": (lambda m, x: m.vmap(m.sin, out_dims="a")(x), "out_dims='a'|out_dims=a"),
    "more places": (lambda m, x: m.vmap(m.sin, out_dims=(0, 0))(x), "out_dims"),
    "fewer places": (lambda m, x: m.vmap(lambda b: (b, b), out_dims=(0,))(x), "out_dims"),
    "a batch has no place": (lambda m, x: m.vmap(m.sin, out_dims=None)(x), "out_dim"),
    "randomness": (lambda m, x: m.vmap(m.sin, randomness="x")(x), "randomness"),
    "chunks of none": (lambda m, x: m.vmap(m.sin, chunk_size=0)(x), "chunk_size"),
    "item": (lambda m, x: m.vmap(lambda b: b.item())(x), "vmap: .*item"),
    "a branch": (lambda m, x: m.vmap(lambda b: b if b > 0 else -b)(x), "vmap: .*data-dependent control flow"),
    "in place on a constant": (lambda m, x: m.vmap(lambda b: x.add_(b))(x), "vmap: inplace|unsupported op"),
    "a size that depends on values": (lambda m, x: m.vmap(lambda b: b.nonzero())(x), "vmap: "),
    "random": (lambda m, x: m.vmap(lambda b: m.randn(2))(x), "randomness error mode"),
    "random like": (lambda m, x: m.vmap(m.rand_like)(x), "randomness error mode"),
    "random in place": (lambda m, x: m.vmap(lambda b: b.normal_())(x), "randomness error mode"),
    "dropout": (lambda m, x: m.vmap(m.nn.functional.dropout)(x), "randomness error mode"),
    "no function": (lambda m, x: m.vmap(3)(x), "not callable"),
}


@pytest.mark.parametrize(("program", "match"), FAILURES.values(), ids=FAILURES)
def test_failures(program, match):
    fail_alike(program, X, match=match)


RANDOM = {
    "randn": lambda row: fb.randn(5),
    "rand_like": fb.rand_like,
    "normal_": lambda row: row.clone().normal_(),
    "bernoulli": lambda row: fb.bernoulli(fb.full((16,), 0.5)),
    "dropout": lambda row: fb.nn.functional.dropout(fb.ones(64)) + 0 * row[0],
    "randperm": lambda row: fb.randperm(16),
    "randint": lambda row: fb.randint(1000, (5,)),
    "multinomial": lambda row: fb.multinomial(fb.ones(32), 16),
}


@pytest.mark.parametrize("draw", RANDOM.values(), ids=RANDOM)
def test_randomness(draw):
    rows = fb.ones(4, 8)
    fb.manual_seed(0)
    same = fb.vmap(draw, randomness="same")(rows)
    assert all((same[i] == same[0]).all() for i in range(4))
    different = fb.vmap(draw, randomness="different")(rows)
    assert all((different[i] != different[0]).any() for i in range(1, 4))


def test_the_same_random_numbers_serve_all_chunks():
    draw = fb.vmap(lambda row: fb.randn(5) + row, randomness="same", chunk_size=2)(fb.zeros(4, 5))
    assert all((draw[i] == draw[0]).all() for i in range(4))


def test_a_mapped_tensor_can_be_looked_at():
    seen = []
    fb.vmap(lambda a: seen.append((a.shape, a.ndim, len(a), repr(a))) or a)(fb.ones(2, 3))
    assert seen[0][:3] == ((3,), 1, 3)
    assert seen[0][3].startswith("BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1., 1., 1.],")


def test_a_tensor_that_escapes_is_its_value():
    kept = []
    fb.vmap(lambda a: kept.append(a) or a)(fb.ones(2))
    assert (kept[0] + 1).tolist() == [2, 2]
    assert fb._C._transform_depth() == 0


def test_an_error_leaves_no_layer_behind():
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            fb.vmap(lambda a: fb.vmap(lambda b: 1 / 0)(a))(fb.ones(2, 2))
    assert fb._C._transform_depth() == 0
    assert fb.vmap(fb.sin)(fb.zeros(2)).tolist() == [0, 0]


def test_the_name_is_kept():
    assert fb.vmap(fb.nn.functional.relu).__name__ == "relu"


def test_gradients_pass_through():
    x = fb.tensor(M).requires_grad_()
    fb.vmap(lambda r: (r * r).sum())(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * M, rtol=1e-6)


def test_no_grad_inside_reaches_out():
    x = fb.tensor(M).requires_grad_()

    def half(r):
        with fb.no_grad():
            c = r * 1
        return (r * c).sum()

    fb.vmap(half)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), M, rtol=1e-6)
