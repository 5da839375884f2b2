"""`checkpoint` in compiled functions: backward computes again, with the same random numbers."""

import contextlib

import flambeau as fb
import pytest
from captured import same
from flambeau import _dynamo, nn
from flambeau._dynamo.utils import counters
from flambeau._operators import higher_order
from flambeau.compiler.passes import fusion
from flambeau.utils.checkpoint import checkpoint
from oracle import pytorch

BACKENDS = pytest.mark.parametrize("backend", ["eager", "inductor"])


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Fuse groups of any size, so that tests can use small tensors."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    counters["fusion"].clear()
    yield
    fb.compiler.reset()


def blocks(lib):
    """Two programs: a checkpoint with closure, keyword arguments and several results; and a nested one."""
    from_library = checkpoint if lib is fb else lib.utils.checkpoint.checkpoint

    def program(x, w):
        def one(a, *, scale):
            return {"y": (a @ w * scale + 1).tanh(), "z": [a.detach() * 2, (a * w).sum()]}

        def two(a, b):
            return from_library(lambda c: (c * b).sin(), a * w + b, use_reentrant=False) * 2

        found = from_library(one, x * 2, scale=3.0, use_reentrant=False)
        return from_library(two, found["y"], x, use_reentrant=False) * found["z"][1] + found["z"][0]

    return program


def outcome(function, lib, size):
    x = (lib.arange(size * size, dtype=lib.float64).reshape(size, size) * 0.3).sin().requires_grad_()
    w = (lib.arange(size * size, dtype=lib.float64).reshape(size, size) * 0.7).cos().requires_grad_()
    result = function(x, w)
    slopes = lib.autograd.grad((result * result).sum(), (x, w))
    return [t.detach().tolist() for t in (result, *slopes)]


def close(found, expected):
    pairs = zip(found, expected, strict=True)
    return all(fb.allclose(fb.tensor(a), fb.tensor(b), rtol=1e-6, atol=1e-9) for a, b in pairs)


@BACKENDS
def test_as_the_plain_program_and_pytorch(backend):
    torch = pytorch()
    function = blocks(fb)
    compiled = fb.compile(function, backend=backend, fullgraph=True)
    for size in (3, 3, 4, 5, 3):
        found = outcome(compiled, fb, size)
        assert close(found, outcome(function, fb, size)) and close(found, outcome(blocks(torch), torch, size))
    if backend == "inductor":
        assert counters["fusion"]["groups"] > 0
        assert set(counters["fusion"]) <= {"groups", "operators computed again"}, dict(counters["fusion"])


def test_one_node_with_a_graph():
    found = _dynamo.explain(blocks(fb))(fb.ones(3, 3), fb.ones(3, 3))
    assert found.graph_count == 1
    nodes = [node for node in found.graphs[0].graph.nodes if node.target is higher_order.checkpointed]
    assert len(nodes) == 2
    inner = getattr(found.graphs[0], nodes[1].args[0].target)
    assert any(node.target is higher_order.checkpointed for node in inner.graph.nodes)


@BACKENDS
@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers_are_drawn_again(backend, preserve):
    layer = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.GELU())

    def use(x):
        y = checkpoint(layer, x, use_reentrant=False, preserve_rng_state=preserve)
        return y * fb.rand(8), y

    def plain(x):
        y = layer(x)
        return y * fb.rand(8), y

    compiled = fb.compile(use, backend=backend, fullgraph=True)
    for _ in range(3):
        pair = []
        for function in (compiled, plain):
            fb.manual_seed(5)
            x = fb.ones(4, 8, requires_grad=True)
            result, y = function(x)
            if not preserve:  # backward draws other numbers, as in the plain program
                pair.append((result.detach(), fb.rand(1)))
                continue
            slope = fb.autograd.grad(result.sum() + y.sum(), x)[0]
            pair.append((result.detach(), slope, fb.rand(1)))
        assert all(fb.allclose(a, b) for a, b in zip(*pair, strict=True))


def test_backward_computes_again():
    """Intermediate tensors of a checkpoint are not alive between forward and backward."""
    size = 1 << 20

    def use(x):
        return checkpoint(
            lambda a: a.sin().cos().tanh().sigmoid().exp().sin(), x * 2, use_reentrant=False
        ).sum()

    compiled = fb.compile(use)
    held = []
    for function in (compiled, compiled, lambda x: (x * 2).sin().cos().tanh().sigmoid().exp().sin().sum()):
        x = fb.ones(size, requires_grad=True)
        before = fb._C._memory_stats()["allocated_bytes"]
        loss = function(x)
        held.append(fb._C._memory_stats()["allocated_bytes"] - before)
        loss.backward()
    assert held[1] <= 2 * 4 * size < held[2], held


def test_saved_numbers_of_a_second_backward_pass():
    compiled = fb.compile(blocks(fb), fullgraph=True)
    for _ in range(2):
        x, w = fb.ones(3, 3, requires_grad=True), fb.ones(3, 3, requires_grad=True)
        loss = compiled(x, w).sum()
        first = fb.autograd.grad(loss, (x, w), retain_graph=True)
        assert all(fb.equal(a, b) for a, b in zip(first, fb.autograd.grad(loss, (x, w)), strict=True))


LOG = []
NORM = nn.BatchNorm1d(3)


def _raises(a):
    raise KeyError("own")


OTHERS = {
    "reentrant": lambda x: checkpoint(fb.sin, x, use_reentrant=True),
    "contexts": lambda x: checkpoint(
        fb.sin,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()),
    ),
    "effects": lambda x: checkpoint(lambda a: (LOG.append(1), a.sin())[1], x, use_reentrant=False),
    "writes": lambda x: checkpoint(lambda a: a.mul_(2).sin(), x * 1, use_reentrant=False),
    "running means": lambda x: checkpoint(NORM, x, use_reentrant=False),
    "an input": lambda x: checkpoint(lambda a: a, x, use_reentrant=False),
    "a view": lambda x: checkpoint(lambda a: a[0], x, use_reentrant=False),
    "a number": lambda x: checkpoint(lambda a: (a.sin(), 3), x, use_reentrant=False)[0],
    "an error": lambda x: checkpoint(_raises, x, use_reentrant=False),
    "wrong arguments": lambda x: checkpoint(fb.sin, x, use_reentrant=True, debug=True),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_calls_that_cannot_be_recorded_run_uncompiled(name):
    compiled = fb.compile(OTHERS[name], backend="eager")
    for _ in range(3):
        found = []
        for function in (OTHERS[name], compiled):
            LOG.clear()
            NORM.reset_running_stats()
            x = fb.ones(2, 3, requires_grad=True)
            try:
                result = function(x)
                result.sum().backward()
                found.append((result.detach(), x.grad, NORM.running_mean.tolist(), len(LOG)))
            except Exception as error:
                found.append(type(error).__name__)
        assert same(*found)
    fb.compiler.reset()
    with pytest.raises(_dynamo.exc.Unsupported, match="checkpoint"):
        fb.compile(OTHERS[name], backend="eager", fullgraph=True)(fb.ones(2, 3, requires_grad=True))


def test_without_gradients():
    function = blocks(fb)
    compiled = fb.compile(function, fullgraph=True)
    for _ in range(3):
        with fb.no_grad():
            assert same(compiled(fb.ones(3, 3), fb.ones(3, 3)), function(fb.ones(3, 3), fb.ones(3, 3)))
