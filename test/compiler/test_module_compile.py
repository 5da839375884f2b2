"""`Module.compile` and compiled modules: hooks, copies, pickles, modes, calls from other compiled code."""

import copy
import io
import pickle
import threading

import flambeau as fb
import pytest
from captured import Recorder
from flambeau import _dynamo, nn


@pytest.fixture(autouse=True)
def forget():
    yield
    fb.compiler.reset()


class Switch(nn.Module):
    """A module whose graph depends on the training mode."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, *, factor=2.0):
        y = self.layer(x) * factor
        return y.relu() if self.training else y.tanh()


def kept(graph, inputs):
    """A backend that pickles refer to by name."""
    return graph.forward


def test_calls_run_graphs_and_leave_the_module_unchanged():
    model, plain, backend = Switch(), None, Recorder()
    plain = copy.deepcopy(model)
    assert model.compile(backend=backend) is None
    assert type(model) is Switch and list(model.state_dict()) == ["layer.weight", "layer.bias"]
    x = fb.randn(2, 3)
    for _ in range(3):
        assert fb.equal(model(x, factor=3.0), plain(x, factor=3.0))
    assert len(backend.graphs) == 1
    model.eval(), plain.eval()
    assert fb.equal(model(x), plain(x)) and len(backend.graphs) == 2
    model.train(), plain.train()
    model(x).sum().backward(), plain(x).sum().backward()
    assert fb.equal(model.layer.weight.grad, plain.layer.weight.grad)
    count = len(backend.graphs)
    model.forward(fb.randn(5, 3))  # only calls are compiled
    assert len(backend.graphs) == count


def test_hooks_are_in_the_graph_and_can_be_added_and_removed():
    model, backend = nn.Linear(2, 2), Recorder()
    model.compile(backend=backend, fullgraph=True)
    x = fb.ones(2)
    expected = model.forward(x)
    assert fb.equal(model(x), expected)
    after = model.register_forward_hook(lambda module, args, output: output + 1)
    before = model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    for _ in range(2):
        assert fb.equal(model(x), model.forward(x * 2) + 1)
    assert len(backend.graphs) == 2
    after.remove(), before.remove()
    assert fb.equal(model(x), expected) and len(backend.graphs) == 2


def test_copies_and_pickles_are_not_compiled():
    for model in (Switch(), nn.LSTM(3, 3)):
        backend = Recorder()
        model.compile(backend=backend)
        model(fb.ones(2, 3))
        assert len(backend.graphs) == 1
        stream = io.BytesIO()
        fb.save(model, stream)
        stream.seek(0)
        loaded = fb.load(stream, weights_only=False)
        for other in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model)), loaded):
            assert other._compiled_call_impl is None
            other(fb.ones(4, 3))
        assert len(backend.graphs) == 1


def test_arguments_are_those_of_compile():
    model = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="expected backend"):
        model.compile(backend="nonesuch")
    assert model._compiled_call_impl is None
    model.compile(disable=True)
    assert model(fb.ones(2)).shape == (2,)

    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    broken = Branch()
    broken.compile(fullgraph=True)
    with pytest.raises(_dynamo.exc.Unsupported, match="one graph"):
        broken(fb.ones(2))


def test_compiled_modules_inside_compiled_code_are_parts_of_its_graph():
    inner, other = fb.compile(nn.Linear(3, 3), backend="eager"), nn.Linear(3, 3)
    other.compile(backend="eager")
    inner.register_forward_hook(lambda module, args, output: output * 2)

    def use(x):
        return inner(x).relu() + other(x)

    found = _dynamo.explain(use)(fb.ones(3))
    assert found.graph_count == 1 and found.graph_break_count == 0
    assert fb.equal(fb.compile(use, backend="eager")(fb.ones(3)), use(fb.ones(3)))


def test_a_class_with_its_own_call_keeps_it():
    class Own(nn.Linear):
        def __call__(self, x):
            return super().__call__(x) + 1

    model, backend = Own(2, 2), Recorder()
    model.compile(backend=backend)
    assert fb.equal(model(fb.ones(2)), model.forward(fb.ones(2)) + 1)
    assert len(backend.graphs) == 1


def test_a_submodule_is_compiled_alone():
    model, backend = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), Recorder()
    model[0].compile(backend=backend)
    x = fb.ones(2)
    assert fb.equal(model(x), model[0].forward(x).relu()) and len(backend.graphs) == 1


def test_errors_of_forward_leave_the_module_usable():
    class Raises(nn.Module):
        def forward(self, x):
            if x.shape[0] == 3:
                raise KeyError("three")
            return x + 1

    model = Raises()
    model.compile(backend="eager")
    for _ in range(2):
        assert model(fb.ones(2)).tolist() == [2, 2]
        with pytest.raises(KeyError, match="three"):
            model(fb.ones(3))


def test_threads_call_one_compiled_module():
    model = Switch()
    model.compile(backend="eager")
    inputs = [fb.randn(n + 1, 3) for n in range(4)]
    found = [None] * 4

    def work(n):
        found[n] = [model(inputs[n]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    for x, results in zip(inputs, found, strict=True):
        assert all(fb.equal(result, model.forward(x)) for result in results)


def test_hooks_of_a_wrapper_are_its_own():
    model = nn.Linear(2, 2)
    made = fb.compile(model, backend="eager")
    made.register_forward_hook(lambda module, args, output: output + 1)
    assert not model._forward_hooks
    assert fb.equal(made(fb.ones(2)), model(fb.ones(2)) + 1)


def test_pickles_of_a_wrapper_keep_named_backends():
    for backend in ("eager", kept):
        made = pickle.loads(pickle.dumps(fb.compile(nn.Linear(2, 2), backend=backend)))
        assert isinstance(made, _dynamo.OptimizedModule) and list(made.state_dict())[0] == "_orig_mod.weight"
        assert made(fb.ones(2)).shape == (2,)
    assert type(pickle.loads(pickle.dumps(fb.compile(nn.ReLU(), backend=Recorder())))) is nn.ReLU
