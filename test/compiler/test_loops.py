"""`while_loop`, `scan`, `map`, `associative_scan`, compiled, against plain functions and PyTorch."""

import importlib
import threading

import flambeau as fb
import pytest
from captured import same
from flambeau import _dynamo
from flambeau._dynamo.utils import counters
from flambeau._higher_order_ops import associative_scan, map, scan, while_loop
from flambeau._operators import higher_order
from flambeau.compiler.passes import fusion
from oracle import pytorch

BACKENDS = pytest.mark.parametrize("backend", ["eager", "inductor"])
NODES = {higher_order.while_loop, higher_order.scan, higher_order.map_impl, higher_order.associative_scan}


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Fuse groups of any size, so that tests can use small tensors."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    counters["fusion"].clear()
    yield
    fb.compiler.reset()


class Ours:
    """flambeau's loops under the names that PyTorch's have."""

    while_loop, scan, map = staticmethod(while_loop), staticmethod(scan), staticmethod(map)
    lib = fb

    @staticmethod
    def cumulate(f, xs, dim, **options):
        return associative_scan(f, xs, dim, combine_mode="generic", **options)


def theirs():
    torch = pytorch()
    home = importlib.import_module("torch._higher_order_ops")

    class Theirs:
        while_loop, scan, map = home.while_loop, home.scan, home.map
        lib = torch

        @staticmethod
        def cumulate(f, xs, dim, **options):
            return home.associative_scan(f, xs, dim, combine_mode="generic", **options)

    return Theirs


def counted(loops):
    """A loop whose number of iterations depends on the operands, with a closure that has a gradient."""

    def program(x, w):
        start = loops.lib.zeros((), dtype=loops.lib.int64)

        def body(i, a):
            return i + 1, (a * w + 0.5).sin()

        i, a = loops.while_loop(lambda i, a: (i < 3) & (a.sum() < 3), body, (start, x * 2))
        return a * 2 + i, a.cos()

    return program


def swapped(loops):
    """Carried tensors that alias inputs, and a result that is a carried tensor of the previous step."""

    def program(x, w):
        zero = loops.lib.zeros((), dtype=loops.lib.int64)
        found = loops.while_loop(
            lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b.clone(), a + b), (zero, x * w, w)
        )
        return found[1:]

    return program


def scanned(loops):
    def program(x, w):
        carry, ys = loops.scan(lambda c, v: (c * w[0] + v, (c * v).sin()), x[0] * 2, x, dim=0)
        last, zs = loops.scan(
            lambda c, v: ({"s": c["s"] + v["x"].sum()}, c["s"] * v["y"]),
            {"s": w.sum()},
            {"x": ys, "y": x},
            dim=1,
            reverse=True,
        )
        return carry, last["s"], zs

    return program


def mapped(loops):
    def program(x, w):
        def step(v, k):
            return (v * k + w[:, 1]).exp(), v.sum()

        one, two = loops.map(step, x.t(), w[:, 0] * 1)
        return one * 2, two

    return program


def cumulated(loops):
    def program(x, w):
        def combine(a, b):
            return a[0] * b[0], a[1] * b[0] + b[1]

        one = loops.cumulate(combine, (x.sigmoid(), w), 1)
        two = loops.cumulate(lambda a, b: a * 2 + b * x[0].sum(), w, 0, reverse=True)
        return (*one, two)

    return program


def nested(loops):
    def program(x, w):
        def row(c, v):
            y = v * 2
            inner, more = loops.scan(lambda d, u: (d + u * y.sum(), d * 1.5), v[0] * 0, v, dim=0)
            return c + inner, more

        carry, ys = loops.scan(row, w.sum() * 0, x * w, dim=0)
        return carry, loops.map(lambda r: r * carry, ys)

    return program


PROGRAMS = {f.__name__: f for f in (counted, swapped, scanned, mapped, cumulated, nested)}
EACH = pytest.mark.parametrize("name", PROGRAMS)


def values(lib, rows, shift=0.0):
    x = lib.arange(rows * 3, dtype=lib.float64).reshape(rows, 3).sin() + shift
    w = (lib.arange(rows * 3, dtype=lib.float64).reshape(rows, 3) * 0.7).cos()
    return x.requires_grad_(), w.requires_grad_()


def outcome(function, lib, rows, shift=0.0):
    """Return the results and gradients of a program, as lists of numbers."""
    x, w = values(lib, rows, shift)
    results = function(x, w)
    loss = sum((r * (k + 1)).sum() for k, r in enumerate(results) if r.requires_grad)
    slopes = lib.autograd.grad(loss, (x, w), materialize_grads=True)
    return [t.detach().tolist() for t in (*results, *slopes)]


def close(found, expected):
    return all(
        fb.allclose(fb.tensor(a), fb.tensor(b), rtol=1e-6, atol=1e-9)
        for a, b in zip(found, expected, strict=True)
    )


@EACH
@BACKENDS
def test_as_the_plain_program(name, backend):
    function = PROGRAMS[name](Ours)
    compiled = fb.compile(function, backend=backend, fullgraph=True)
    for rows, shift in ((3, 0.0), (3, 2.0), (3, -1.0), (4, 0.0), (5, 0.0), (3, 0.0)):
        assert close(outcome(compiled, fb, rows, shift), outcome(function, fb, rows, shift))
    if backend == "inductor":
        assert set(counters["fusion"]) <= {"groups", "operators computed again"}, dict(counters["fusion"])
        assert counters["fusion"]["groups"] > 0


@EACH
def test_as_pytorch(name):
    torch = pytorch()
    compiled = fb.compile(PROGRAMS[name](Ours), fullgraph=True)
    for shift in (-1.0, -2.0, -1.0):  # without iterations, PyTorch's gradient of `w` is not zero
        assert close(outcome(compiled, fb, 3, shift), outcome(PROGRAMS[name](theirs()), torch, 3, shift))


@EACH
def test_one_graph_with_a_node_for_each_loop(name):
    found = _dynamo.explain(PROGRAMS[name](Ours))(*values(fb, 3))
    assert found.graph_count == 1 and not found.break_reasons
    nodes = [node for node in found.graphs[0].graph.nodes if node.target in NODES]
    assert nodes and all(
        isinstance(getattr(found.graphs[0], n.args[0].target), fb.fx.GraphModule) for n in nodes
    )


@EACH
@BACKENDS
def test_without_gradients(name, backend):
    function = PROGRAMS[name](Ours)
    compiled = fb.compile(function, backend=backend, fullgraph=True)
    for _ in range(3):
        x, w = (t.detach() for t in values(fb, 4))
        assert same(list(compiled(x, w)), list(function(x, w)))
    with fb.no_grad():
        x, w = values(fb, 4)
        assert same(list(compiled(x, w)), list(function(x, w)))


@EACH
def test_finite_differences(name):
    compiled = fb.compile(PROGRAMS[name](Ours), fullgraph=True)
    for _ in range(2):
        assert fb.autograd.gradcheck(compiled, values(fb, 2))


@BACKENDS
def test_loops_without_iterations(backend):
    def use(x, w, n):
        return while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * w), (fb.tensor(0), x))[1] * 2

    compiled = fb.compile(use, backend=backend, fullgraph=True)
    for trips in (2, 0, 3, 0):
        x, w = fb.randn(3, requires_grad=True), fb.randn(3, requires_grad=True)
        n = fb.tensor(trips)
        one, other = compiled(x, w, n), use(x, w, n)
        assert fb.equal(one, other)
        slopes = fb.autograd.grad(one.sum(), (x, w), allow_unused=True)
        plain = fb.autograd.grad(other.sum(), (x, w), allow_unused=True)
        assert fb.allclose(slopes[0], plain[0])
        assert trips or slopes[1] is None or not slopes[1].any()
        assert not trips or fb.allclose(slopes[1], plain[1])


def test_results_are_new_tensors():
    x = fb.ones(3)
    flip = fb.compile(
        lambda a: while_loop(lambda b: b.sum() < 0, lambda b: (b * 2,), (a,))[0], backend="eager"
    )
    for function in (flip, lambda a: while_loop(lambda b: b.sum() < 0, lambda b: (b * 2,), (a,))[0]):
        for _ in range(2):
            function(x).add_(1)
            assert fb.equal(x, fb.ones(3))
    carry, _ = scan(lambda c, v: (v, c), x[0], x)
    carry.add_(1)
    assert fb.equal(x, fb.ones(3))


def _regions(x, w):
    def step(c, v):
        with fb.no_grad():
            scale = (c * v).sum()
        with fb.autocast("cpu", dtype=fb.bfloat16):
            product = c[None] @ w
            assert product.dtype == fb.bfloat16
        return product[0].to(c.dtype) * scale + v, scale

    return scan(step, x[0], x)


@BACKENDS
def test_gradient_modes_and_autocast_in_steps(backend):
    compiled = fb.compile(_regions, backend=backend, fullgraph=True)
    for rows in (3, 3, 4):
        pair = []
        for function in (compiled, _regions):
            x, w = fb.ones(rows, 3).requires_grad_(), fb.eye(3).requires_grad_()
            carry, scales = function(x, w)
            assert carry.requires_grad and not scales.requires_grad and fb.is_grad_enabled()
            pair.append([carry.detach(), scales, *fb.autograd.grad(carry.sum(), (x, w))])
        assert all(fb.allclose(a, b, rtol=2e-2) for a, b in zip(*pair, strict=True))


@BACKENDS
def test_random_numbers_are_those_of_a_plain_call(backend):
    def use(x, w):
        carry, ys = scan(lambda c, v: (fb.nn.functional.dropout(c * w + v), fb.rand(3) * v), x[0], x)
        return carry * fb.rand(3), ys, fb.rand(2)

    compiled = fb.compile(use, backend=backend, fullgraph=True)
    for rows in (3, 3, 4):
        pair = []
        for function in (compiled, use):
            fb.manual_seed(3)
            x, w = fb.ones(rows, 3).requires_grad_(), fb.ones(3).requires_grad_()
            results = function(x, w)
            loss = results[0].sum() + results[1].sum()
            pair.append([*results, fb.rand(1), *fb.autograd.grad(loss, (x, w)), fb.rand(1)])
        assert all(fb.allclose(a, b) for a, b in zip(*pair, strict=True))


LOG = []


def _raises(c, v):
    raise KeyError("own")


HOSTILE = {
    "writes to its state": lambda c, v: (c.add_(v), c * 1),
    "writes to its slice": lambda c, v: (c + v, v.mul_(2) * 1),
    "reads elements": lambda c, v: (c + v.sum().item(), v * 1),
    "prints": lambda c, v: (print("effect", end=""), (c + v, v * 1))[1],
    "changes a list": lambda c, v: (LOG.append(1), (c + v, v * 1))[1],
    "returns a number": lambda c, v: (c + v, 3),
    "returns None": lambda c, v: (c + v, None),
    "changes the dtype": lambda c, v: ((c + v).double(), v * 1),
    "changes the shape": lambda c, v: ((c + v)[None], v * 1),
    "changes the structure": lambda c, v: ((c, c), v * 1),
    "no pair": lambda c, v: c,
    "raises": _raises,
    "asks for leaves": lambda c, v: (c + v, v * c.is_leaf),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_functions_that_cannot_be_recorded_run_uncompiled(name, capsys):
    def use(x):
        return scan(HOSTILE[name], x[0] * 1, x * 1)

    compiled = fb.compile(use, backend="eager")
    for _ in range(3):
        found = []
        for function in (use, compiled):
            LOG.clear()
            try:
                result = function(fb.ones(3, 2))
            except Exception as error:
                result = type(error).__name__
            found.append((result, LOG[:], capsys.readouterr().out))
        assert same(found[0][0], found[1][0]) and found[0][1:] == found[1][1:]
    with pytest.raises(_dynamo.exc.Unsupported, match="scan|loop"):
        fb.compiler.reset()
        fb.compile(use, backend="eager", fullgraph=True)(fb.ones(3, 2))


@pytest.mark.parametrize(
    "body",
    [
        lambda i, a: (i + 1, a.double()),
        lambda i, a: (i + 1, a[:1] * 1),
        lambda i, a: (i + 1,),
        lambda i, a: (i + 1, (a, a)),
        lambda i, a: (i * 1.5, a),
        lambda i, a: 3,
    ],
)
def test_carried_tensors_keep_dtype_and_shape(body):
    torch = pytorch()

    def use(loops, x):
        return loops.while_loop(lambda i, a: i < 2, body, (loops.lib.tensor(0), x))

    for function in (use, fb.compile(use, backend="eager"), fb.compile(use)):
        for _ in range(2):
            with pytest.raises(_dynamo.exc.UncapturedHigherOrderOpError, match="while_loop: expected"):
                function(Ours, fb.ones(2))
    with pytest.raises((torch._dynamo.exc.UncapturedHigherOrderOpError, AssertionError)):
        use(theirs(), torch.ones(2))


def test_wrong_arguments():
    x = fb.ones(2)
    for call in (
        lambda: while_loop(3, fb.sin, (x,)),
        lambda: while_loop(lambda a: a > 0, lambda a: (a * 2,), (x,)),
        lambda: while_loop(lambda a: "yes", lambda a: (a * 2,), (x,)),
        lambda: while_loop(lambda a: True, lambda a: a, x),
        lambda: scan(3, x, x),
        lambda: scan(lambda c, v: (c, v), x, x[:0]),
        lambda: map(3, x),
        lambda: associative_scan(3, x, 0),
        lambda: associative_scan(lambda a, b: (a + b).double(), x, 0),
        lambda: associative_scan(lambda a, b: (a, b), x, 0),
    ):
        for function in (call, fb.compile(call, backend="eager")):
            with pytest.raises((RuntimeError, ValueError)):
                function()


def test_transforms_of_loops():
    x = fb.randn(4, 3, dtype=fb.float64)

    def total(a):
        found = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * a), (fb.tensor(0), a))[1]
        return scan(lambda c, v: (v, c * v), a[0], found)[1].sum()

    expected = fb.stack([total(row) for row in x])
    assert fb.allclose(fb.vmap(total)(x), expected)
    slopes = fb.vmap(fb.func.grad(total))(x)
    y = x.clone().requires_grad_()
    assert fb.allclose(slopes, fb.autograd.grad(sum(total(row) for row in y), y)[0])


def test_threads():
    function = scanned(Ours)
    compiled = fb.compile(function)
    errors = []

    def work(rows):
        try:
            for _ in range(5):
                assert close(outcome(compiled, fb, rows), outcome(function, fb, rows))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(3 + n % 2,)) for n in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not errors


def test_special_numbers_and_empty_tensors():
    inf, nan = float("inf"), float("nan")
    for x in (fb.tensor([[nan, inf], [-inf, -0.0]]), fb.ones(2, 0), fb.ones(3, 2).t(), fb.ones(2)):

        def use(a):
            return scan(lambda c, v: (c * v + 1, (c - v).exp()), a[0] * 2, a)

        compiled = fb.compile(use, fullgraph=True)
        for _ in range(2):
            assert same(list(compiled(x)), list(use(x)))
