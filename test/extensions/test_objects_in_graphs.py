"""Objects of classes of C++ in recorded and compiled programs (objects.cpp): results, effects, order."""

from pathlib import Path

import flambeau as torch
import pytest
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.utils import cpp_extension

SOURCE = Path(__file__).with_name("objects.cpp")


@pytest.fixture(scope="module", autouse=True)
def native(build_root):
    folder = build_root / "objects"
    cpp_extension.load("objects", [str(SOURCE)], build_directory=folder, is_python_module=False)


def counter(count):
    return torch.classes.counters.Counter(count)


def calls_in_order(x, a, b):
    ops = torch.ops.counters
    first = ops.counted(x, a)
    ops.counted(x, a)  # the result is not used, the object changes
    ops.add_to(a, x, 2)
    second, other, third = ops.counted(x, a), ops.counted(x, b), ops.counted(x, a)
    return first * 2 + second, other - third, x.sin().exp()


def with_twin(x, a, b):
    twin = torch.ops.counters.twin_of(x, a)
    torch.ops.counters.add_to(twin, x, 1)
    return torch.ops.counters.counted(x, twin) + torch.ops.counters.counted(x, a), b.count


def equal_calls(x, a, b):
    ops = torch.ops.counters
    return ops.counted(x, a) + ops.counted(x, a), ops.counted(x, b), ops.counted(x, b)


PROGRAMS = [calls_in_order, with_twin, equal_calls]


def outcome(program, calls=3, shared=False):
    """Return results and counts of several calls, in which the objects change."""
    a = counter(1)
    b = a if shared else counter(10)
    seen = []
    for n in range(calls):
        results = program(torch.ones(3) * n, a, b)
        seen.append([r.tolist() if isinstance(r, torch.Tensor) else r for r in results])
    return seen, a.count, b.count


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_compiled_programs_read_and_change_objects(program, shared):
    compiled = torch.compile(program, fullgraph=program is not with_twin)
    assert outcome(compiled, shared=shared) == outcome(program, shared=shared)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_other_backends_take_objects(backend):
    compiled = torch.compile(calls_in_order, backend=backend, fullgraph=True)
    assert outcome(compiled) == outcome(calls_in_order)


def test_another_object_is_compiled_for():
    compiled = torch.compile(lambda x, c: torch.ops.counters.counted(x, c), fullgraph=True)
    one, other, x = counter(1), counter(100), torch.zeros(1)
    found = [compiled(x, c).item() for c in (one, other, one, other, one)]
    assert found == [1, 100, 2, 101, 3]
    with pytest.raises(RuntimeError, match="counted"):
        compiled(x, 3)


def test_gradients_pass_calls_on_objects():
    def loss(x, c):
        return (torch.ops.counters.counted(x * 3, c) * x).sum()

    found = []
    for program in (loss, torch.compile(loss, fullgraph=True)):
        c, x = counter(5), torch.ones(3, requires_grad=True)
        program(x, c).backward()
        found.append((x.grad.tolist(), c.count))
    assert found[0] == found[1] == ([11, 11, 11], 6)


def test_methods_and_constructors_run_outside_of_graphs():
    def method(x, a, b):
        a.next()
        return torch.ops.counters.counted(x, a), b.count

    def constructor(x, a, b):
        return (torch.ops.counters.counted(x, counter(3)),)

    for program in (method, constructor):
        with pytest.warns(UserWarning, match="runs uncompiled"):
            compiled = outcome(torch.compile(program))
        assert compiled == outcome(program)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("program", [calls_in_order, equal_calls])
def test_recorded_arguments_are_inputs(program, mode):
    a, b = counter(1), counter(10)
    graph = make_fx(program, tracing_mode=mode)(torch.ones(3), a, b)
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    assert len(inputs) == 3 and all(node.users for node in inputs)
    assert "_torchbind_obj" not in graph.code
    if mode != "real":
        assert (a.count, b.count) == (1, 10)
    assert outcome(graph) == outcome(program)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_other_objects_are_attributes(mode):
    held = counter(7)

    def program(x):
        once = torch.ops.counters.counted(x, held)
        return once + torch.ops.counters.counted(x, held)

    graph = make_fx(program, tracing_mode=mode)(torch.ones(2))
    attributes = [node.target for node in graph.graph.nodes if node.op == "get_attr"]
    assert attributes == ["_torchbind_obj0"]
    assert graph._torchbind_obj0.count == held.count
    before = held.count
    assert graph(torch.zeros(2)).tolist() == [2 * before + 1] * 2 and held.count == before + 2


def test_dead_code_keeps_calls_on_objects():
    graph = make_fx(calls_in_order)(torch.ones(3), counter(1), counter(10))
    count = len(graph.graph.nodes)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    assert len(graph.graph.nodes) == count and outcome(graph) == outcome(calls_in_order)


def test_modules_with_objects_are_traced():
    class Counted(torch.nn.Module):
        def __init__(self, held):
            super().__init__()
            self.held = held

        def forward(self, x):
            return torch.ops.counters.counted(x, self.held) * 2

    module, free = Counted(counter(4)), counter(9)
    graph = torch.fx.symbolic_trace(module)
    assert [n.target for n in graph.graph.nodes if n.op == "get_attr"] == ["held"]
    assert graph(torch.zeros(1)).item() == 8 and module(torch.zeros(1)).item() == 10
    other = torch.fx.symbolic_trace(lambda x: torch.ops.counters.counted(x, free))
    assert [n.target for n in other.graph.nodes if n.op == "get_attr"] == ["_torchbind_obj0"]
    assert other(torch.zeros(1)).item() == 9
    assert torch.compile(module, fullgraph=True)(torch.zeros(1)).item() == 12
