"""`compile` with a backend: what backends receive, breaks, marks, limits, errors."""

import copy
import pickle

import flambeau as fb
import pytest
from captured import Recorder, program
from flambeau import _dynamo, nn
from flambeau.fx import GraphModule
from side_by_side import same


@pytest.fixture(autouse=True)
def forget():
    yield
    fb.compiler.reset()
    _dynamo.utils.counters.clear()


def test_a_backend_receives_the_graph_and_its_inputs():
    seen = []

    def backend(graph, inputs):
        assert isinstance(graph, GraphModule)
        seen.append(([n.op for n in graph.graph.nodes], [tuple(t.shape) for t in inputs]))
        return lambda *given: [graph.forward(*given)[0] * 10]

    layer = nn.Linear(3, 2)
    made = fb.compile(layer, backend=backend)
    x = fb.ones(4, 3)
    assert fb.equal(made(x), layer(x))  # the first call runs the program itself
    assert fb.equal(made(x), layer(x) * 10)
    assert seen == [(["placeholder"] * 3 + ["call_function", "output"], [(4, 3), (2, 3), (2,)])]


def test_a_break_names_its_reason_and_line():
    def branch(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    found = _dynamo.explain(branch)(fb.ones(2))
    assert found.graph_count == 2 and found.graph_break_count == 1 and found.op_count == 4
    assert "the value of a tensor" in found.break_reasons[0] and "test_interface.py" in str(found)
    with pytest.raises(_dynamo.exc.Unsupported, match="one graph"):
        fb.compile(branch, backend="eager", fullgraph=True)(fb.ones(2))
    made = fb.compile(branch, backend="eager")
    for x in (fb.ones(2), -fb.ones(2), fb.ones(2)):
        assert fb.equal(made(x), branch(x))


def test_marks_on_functions():
    calls = []

    @fb.compiler.disable
    def plain(x):
        calls.append("plain")
        return x + 1

    @fb.compiler.allow_in_graph
    def whole(x):
        calls.append("whole")
        return x * 3

    @fb.compiler.assume_constant_result
    def constant():
        calls.append("constant")
        return 5

    def use(x):
        return whole(plain(x) * 2) + constant() if fb.compiler.is_compiling() else x

    backend = Recorder()
    made = fb.compile(use, backend=backend)
    for _ in range(3):
        assert made(fb.ones(1)).item() == 17
    assert calls.count("plain") == 3 and calls.count("whole") == 3 and calls.count("constant") == 1
    assert [n.target for g in backend.graphs for n in g.graph.nodes if n.target is whole] == [whole]
    assert not fb.compiler.is_compiling()


def test_graphs_are_recorded_again_up_to_a_limit():
    backend = Recorder()
    made = fb.compile(lambda x: x + 1, backend=backend, dynamic=False)
    with _dynamo.config.patch(recompile_limit=3), pytest.warns(UserWarning, match="runs uncompiled from now"):
        for n in range(6):
            assert made(fb.ones(n)).shape == (n,)
    assert len(backend.graphs) == 3 and program(made).is_given_up
    fb.compiler.reset()
    made(fb.ones(2))
    assert len(backend.graphs) == 4 and not program(made).is_given_up


def test_stances():
    backend = Recorder()
    made = fb.compile(lambda x: x + 1, backend=backend)
    with fb.compiler.set_stance("force_eager"):
        made(fb.ones(1))
    assert backend.graphs == []
    made(fb.ones(1))
    with fb.compiler.set_stance("fail_on_recompile"):
        made(fb.ones(1))
        with pytest.raises(RuntimeError, match="size"):
            made(fb.ones(2))
    with fb.compiler.set_stance("eager_on_recompile"):
        assert made(fb.ones(3)).tolist() == [2, 2, 2]
    assert len(backend.graphs) == 1


def test_errors_of_programs_and_backends():
    def fail(x):
        y = x + 1
        if x.shape[0] == 2:
            raise KeyError("two")
        return y @ fb.ones(7)

    made = fb.compile(fail, backend="eager")
    for _ in range(2):
        with pytest.raises(KeyError, match="two") as caught:
            made(fb.ones(2))
        assert any("test_interface.py" in note and "in fail" in note for note in caught.value.__notes__)
        with pytest.raises(RuntimeError):
            made(fb.ones(3))
        with pytest.raises(TypeError):
            made()

    def broken(graph, inputs):
        raise ValueError("no code")

    with pytest.raises(_dynamo.exc.BackendCompilerFailed, match="ValueError: no code"):
        fb.compile(lambda x: x + 1, backend=broken)(fb.ones(1))
    with pytest.raises(_dynamo.exc.BackendCompilerFailed, match="got int"):
        fb.compile(lambda x: x + 1, backend=lambda graph, inputs: 3)(fb.ones(1))


def test_compiled_modules_are_modules():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    made = fb.compile(model, backend="eager")
    assert isinstance(made, _dynamo.OptimizedModule) and made._orig_mod is model and made[0] is model[0]
    made.eval()
    assert not model.training and not model[1].training
    made.note = 3
    assert model.note == 3
    again = copy.deepcopy(made)
    assert again._orig_mod is not model and again(fb.ones(1, 2)).shape == (1, 2)
    assert isinstance(pickle.loads(pickle.dumps(made))._orig_mod, nn.Sequential)
    assert [p is q for p, q in zip(made.parameters(), model.parameters(), strict=True)] == [True, True]


def test_registered_backends():
    @_dynamo.register_backend
    def my_backend(graph, inputs):
        return graph.forward

    try:
        assert "my_backend" in fb.compiler.list_backends()
        assert fb.compile(lambda x: x * 2, backend="my_backend")(fb.ones(1)).item() == 2
        assert _dynamo.lookup_backend("my_backend") is my_backend
    finally:
        del fb.compiler.registered["my_backend"]
    with pytest.raises(_dynamo.exc.InvalidBackend, match="my_backend"):
        _dynamo.lookup_backend("my_backend")


def test_counts():
    made = fb.compile(lambda x: x.sum().item() + 1, backend="eager")
    made(fb.ones(2))
    assert _dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert sum(_dynamo.utils.counters["graph_break"].values()) >= 1


@pytest.mark.parametrize("name", ["graph_count", "graph_break_count"])
def test_the_counts_are_those_of_pytorch(name):
    def run(torch):
        def two(x):
            y = torch.sin(x)
            print(end="")
            return torch.cos(y) * 2

        torch._dynamo.reset()
        return getattr(torch._dynamo.explain(two)(torch.ones(3)), name)

    same(run)


def test_nested_transforms_and_modes_run_programs_uncompiled():
    made = fb.compile(lambda x: (x * x).sum(), backend=Recorder())
    x = fb.arange(3.0)
    assert fb.equal(fb.func.grad(made)(x), 2 * x)
    assert fb.equal(fb.func.vmap(made)(fb.stack([x, x])), fb.stack([(x * x).sum()] * 2))


def test_threads_may_record_at_once():
    import threading

    made = fb.compile(lambda x: (x * 2 + 1).sum(), backend=Recorder())
    results = []

    def work(n):
        results.extend(made(fb.ones(n % 3 + 1)).item() == 3 * (n % 3 + 1) for _ in range(20))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 120 and all(results)


LOGGED = """
import flambeau as fb
def step(x):
    y = (x * 2 + 1).sin()
    print(len(y))
    return y + 1
quick = fb.compile(step)
for n in (5000, 6000):
    quick(fb.ones(n, requires_grad=True))
"""
LINES = {
    "graph_breaks": "Graph break in step: ",
    "recompiles": "Recompiling step: x: expected ",
    "graph_code": "mul = l_x_ * 2",
    "guards": "tensor of x",
    "aot_joint_graph": "tangent_0",
    "aot_graphs": "Backward:",
    "output_code": "s0 = mul(i0, 2): float32",
}


def test_logs_show_breaks_graphs_and_programs():
    import os
    import subprocess
    import sys

    def printed(setting):
        environment = {**os.environ, "TORCH_LOGS": setting}
        done = subprocess.run([sys.executable, "-c", LOGGED], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stderr

    everything = printed(",".join(LINES))
    assert {name: text for name, text in LINES.items() if text not in everything} == {}
    assert printed("") == ""
    only = printed("graph_breaks")
    assert LINES["graph_breaks"] in only and LINES["graph_code"] not in only
