"""`cond` in compiled functions: one node with both branches, or a graph break with the same result."""

import threading

import flambeau as fb
import pytest
from captured import Recorder, run_both, same
from flambeau import _dynamo, nn
from flambeau._higher_order_ops import cond


@pytest.fixture(autouse=True)
def forget():
    yield
    fb.compiler.reset()


LAYER = nn.Linear(3, 3)
SCALE = fb.randn(3, requires_grad=True)


def by_layer(x):
    y = x * 2

    def one(a):
        return (LAYER(a) * SCALE).sin(), {"y": y + 1}

    def two(a):
        rows = []
        for i, part in enumerate([a, y]):
            rows.append(part * i)
        return sum(rows) * SCALE + fb.zeros(3).add_(1), {"y": y - 1}

    z, more = cond(y.sum() > 0, one, two, (x,))
    return z.sum() + more["y"].mean()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_both_branches_are_in_one_graph(backend):
    found = _dynamo.explain(by_layer)(fb.ones(3))
    assert found.graph_count == 1 and not found.break_reasons
    nodes = [node for node in found.graphs[0].graph.nodes if node.target is cond]
    assert len(nodes) == 1 and isinstance(found.graphs[0].cond_true_0, fb.fx.GraphModule)
    made = fb.compile(by_layer, backend=backend, fullgraph=True)
    leaves = (SCALE, LAYER.weight)
    for x in (fb.ones(3), -fb.ones(3), fb.ones(3)):
        assert same(made(x), by_layer(x))
        plain = fb.autograd.grad(by_layer(x), leaves, allow_unused=True)
        got = fb.autograd.grad(made(x), leaves, allow_unused=True)
        for one, other in zip(got, plain, strict=True):
            assert (one is None and other is None) or fb.equal(one, other)


def test_a_condition_in_python_chooses_the_branch_of_the_graph():
    def use(x, flag):
        return cond(flag, fb.sin, fb.cos, (x,))

    made, x = fb.compile(use, backend="eager", fullgraph=True), fb.ones(2)
    for flag in (True, False, True):
        assert fb.equal(made(x, flag), use(x, flag))


def test_branches_may_be_nested():
    def use(x):
        def inner(a):
            return cond(a.sum() > 10, lambda b: b * 3, lambda b: b * 5, (a,))

        return cond(x.sum() > 0, inner, lambda a: -a, (x,)) + 1

    backend = Recorder()
    made = fb.compile(use, backend=backend, fullgraph=True)
    for x in (fb.ones(3), fb.ones(3) * 7, -fb.ones(3)):
        assert fb.equal(made(x), use(x))
    assert len(backend.graphs) == 1


def test_what_branches_read_is_guarded():
    box = {"factor": 2.0}

    def use(x):
        return cond(x.sum() > 0, lambda a: a * box["factor"], lambda a: a - box["factor"], (x,))

    made = fb.compile(use, backend="eager", fullgraph=True)
    for factor in (2.0, 3.0, 2.0):
        box["factor"] = factor
        for x in (fb.ones(2), -fb.ones(2)):
            assert fb.equal(made(x), use(x))


LOG, TABLE = [], {}
STEPS = iter(range(1000))


class Counter(fb.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counter.calls += 1
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def _set_global(a):
    global LATEST
    LATEST = 3
    return a + 1


def _without_gradients(a):
    context = fb.no_grad()
    context.__enter__()
    try:
        return a * 2
    finally:
        fb.set_grad_enabled(False)


def _raise(a):
    raise KeyError("never" if a.sum() > 0 else "negative")


HOSTILE = {
    "writes to its input": lambda a: a.add_(1) * 1,
    "writes to a view": lambda a: a[:1].mul_(3) * fb.ones(2),
    "writes by index": lambda a: (a.__setitem__(0, 5.0), a * 2)[1],
    "returns its input": lambda a: a,
    "returns one tensor twice": lambda a: [a + 1] * 2,
    "returns a number": lambda a: 3,
    "changes a list": lambda a: (LOG.append(1), a + 1)[1],
    "changes a dict": lambda a: (TABLE.update(n=TABLE.get("n", 0) + 1), a + 1)[1],
    "reads elements": lambda a: a * a.sum().item(),
    "another shape": lambda a: (a + 1)[:1],
    "another dtype": lambda a: a.double(),
    "prints": lambda a: (print("effect", end=""), a + 1)[1],
    "own function": Counter.apply,
    "normalises": lambda a: nn.functional.batch_norm(
        a.reshape(2, 1),
        TABLE.setdefault("mean", fb.zeros(1)),
        TABLE.setdefault("var", fb.ones(1)),
        training=True,
    ).reshape(2),
    "an outer iterator": lambda a: a + next(STEPS),
    "sets a global": _set_global,
    "leaves gradients off": _without_gradients,
}


def _effects():
    return LOG[:], {k: v.tolist() if isinstance(v, fb.Tensor) else v for k, v in TABLE.items()}, Counter.calls


@pytest.mark.parametrize("is_first", [True, False], ids=["true branch", "false branch"])
@pytest.mark.parametrize("name", HOSTILE)
def test_branches_with_effects_end_the_graph(name, is_first, capsys):
    branch = HOSTILE[name]
    pair = (branch, lambda a: a + 1) if is_first else (lambda a: a + 1, branch)

    def use(x):
        return cond(x.sum() > 0, *pair, (x * 1,))

    made = fb.compile(use, backend="eager")
    for x in (fb.ones(2), -fb.ones(2), fb.ones(2)):
        global STEPS
        found = []
        for function in (use, made):
            LOG.clear(), TABLE.clear()
            Counter.calls, STEPS = 0, iter(range(7, 100))
            result = function(x.clone())
            found.append((result, _effects(), fb.is_grad_enabled(), next(STEPS), capsys.readouterr().out))
            fb.set_grad_enabled(True)
        assert same(found[0][0], found[1][0]) and found[0][1:] == found[1][1:]
    with pytest.raises(_dynamo.exc.Unsupported, match="cond"):
        fb.compiler.reset()
        fb.compile(use, backend="eager", fullgraph=True)(fb.ones(2))


def test_writes_to_the_arguments_of_the_program_happen_once():
    def use(x):
        return cond(x.sum() > 0, lambda a: a.add_(1) * 1, lambda a: a.sub_(1) * 1, (x,))

    made = fb.compile(use, backend="eager")
    for start in (1.0, -1.0, 1.0):
        x, y = fb.full((2,), start), fb.full((2,), start)
        assert same(use(x), made(y)) and fb.equal(x, y)


def test_errors_of_branches():
    def use(x):
        return cond(x.sum() > 0, lambda a: a + 1, _raise, (x,))

    made = fb.compile(use, backend="eager")
    for _ in range(2):
        assert fb.equal(made(fb.ones(2)), fb.ones(2) + 1)
        with pytest.raises(KeyError, match="negative"):
            made(-fb.ones(2))
    for arguments in (
        (fb.ones(2) > 0, fb.sin, fb.cos, (fb.ones(2),)),
        (True, 3, fb.cos, ()),
        ("x", fb.sin, fb.cos, ()),
    ):
        with pytest.raises(RuntimeError, match="cond"):
            fb.compile(lambda *args: cond(*args), backend="eager")(*arguments)


def test_random_numbers_are_those_of_a_plain_call():
    def use(x):
        return cond(
            x.sum() > 0, lambda a: a + fb.rand(2), lambda a: a * fb.rand(2) + fb.rand(2), (x,)
        ) + fb.rand(2)

    made = fb.compile(use, backend="eager", fullgraph=True)
    for x in (fb.ones(2), -fb.ones(2), fb.ones(2)):
        found = []
        for function in (use, made):
            fb.manual_seed(0)
            found.append((function(x), fb.rand(1)))
        assert same(*found)


def test_branches_that_differ_in_their_gradient_state():
    w = fb.ones(2, requires_grad=True)

    def use(x):
        return cond(x.sum() > 0, lambda a: a * w, lambda a: a * 2, (x,))

    made = fb.compile(use, backend="eager")
    for x in (fb.ones(2), -fb.ones(2), fb.ones(2)):
        assert made(x).requires_grad == use(x).requires_grad and fb.equal(made(x), use(x))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_gradient_modes_in_branches(backend):
    def use(x):
        def one(a):
            with fb.no_grad():
                scale = a.sum()
            return a * scale

        return cond(x.sum() > 0, one, lambda a: a * 2, (x,)) + 1

    made = fb.compile(use, backend=backend, fullgraph=True)
    for x in (fb.ones(2), -fb.ones(2), fb.ones(2)):
        pair = []
        for function in (made, use):
            leaf = x.clone().requires_grad_()
            result = function(leaf)
            assert fb.is_grad_enabled()
            pair.append((result.detach(), fb.autograd.grad(result.sum(), leaf)[0]))
        assert same(*pair)


def test_a_module_with_a_branch():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return cond(x.mean() > 0, self.one, self.two, (x,))

    graphs, found = run_both(Gate(), [fb.ones(2, 3)])
    assert len(graphs) == 1 and not found.log


def test_threads_record_branches():
    made = fb.compile(by_layer, backend="eager")
    errors = []

    def work(sign):
        try:
            for _ in range(10):
                assert same(made(sign * fb.ones(3)), by_layer(sign * fb.ones(3)))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=((-1) ** n,)) for n in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not errors


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_sizes_that_differ(backend):
    def use(x, y):
        z = cond(y.sum() > 0, fb.sin, fb.cos, (y,))
        return x * 2 + z, cond(x.sum() > 0, lambda a: a * a.shape[0], lambda a: a - 1, (x,))

    made = fb.compile(use, backend=backend)
    for n in (2, 3, 4, 5, 3):
        for sign in (1, -1):
            x, y = sign * fb.ones(n, 2), -sign * fb.ones(2)
            assert same(made(x, y), use(x, y))
