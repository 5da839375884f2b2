"""`minifier`: the resulting graph fails and is small, and the given graph and inputs are unchanged."""

import operator
import random

import flambeau as fb
import pytest
from flambeau import fx
from flambeau._functorch.fx_minifier import minifier


def names(module):
    return [node.name for node in module.graph.nodes if node.op != "output"]


def calls_of(module):
    return [node for node in module.graph.nodes if node.op.startswith("call_")]


def has(*targets):
    return lambda module, inputs: {*targets} <= {node.target for node in module.graph.nodes}


def long_program(x, y):
    a = fb.sin(x) + y
    for _ in range(20):
        a = fb.tanh(a * 2) + 1
    b = fb.cos(a)
    for _ in range(10):
        b = fb.exp(-b)
    return b, a + x, fb.sum(y)


def test_one_operator_remains():
    traced = fx.symbolic_trace(long_program)
    before = str(traced.graph)
    inputs = [fb.ones(2), fb.ones(2)]
    small, given = minifier(traced, inputs, has(fb.cos))
    assert [node.target for node in calls_of(small)] == [fb.cos] and len(given) == 1
    assert str(traced.graph) == before and fb.equal(inputs[0], fb.ones(2))
    small(*given)


def test_the_value_of_the_remaining_operator_is_that_of_the_program():
    def program(x):
        return fb.exp(fb.sin(x) * 3) - 1

    def fails(module, inputs):
        outputs = module(*inputs)
        leaf = outputs[0] if isinstance(outputs, tuple) else outputs
        return bool((leaf > 15).any())

    small, given = minifier(fx.symbolic_trace(program), [fb.tensor([1.5, 0.0])], fails)
    assert fails(small, given) and len(calls_of(small)) == 1


def test_two_operators_that_fail_together():
    traced = fx.symbolic_trace(long_program)
    small, _ = minifier(traced, [fb.ones(2), fb.ones(2)], has(fb.sin, fb.sum))
    assert {node.target for node in calls_of(small)} == {fb.sin, fb.sum}


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_become_minimal(seed):
    """The failure needs a fixed set of operators, so no node of the result can be removed."""
    rng = random.Random(seed)
    graph = fx.Graph()
    values = [graph.placeholder(f"x{i}") for i in range(3)]
    wanted = []
    for i in range(25):
        if rng.random() < 0.3:
            node = graph.call_function(operator.add, (rng.choice(values), rng.choice(values)))
        else:
            node = graph.call_function(rng.choice([fb.sin, fb.cos, fb.tanh]), (rng.choice(values),))
        if rng.random() < 0.1 or i == 24:
            node.target = rng.choice([fb.erf, fb.expm1])
            node.args = node.args[:1]
            wanted.append(node.target)
        values.append(node)
    graph.output(tuple(rng.sample(values, 4)) + (values[-1],))
    module = fx.GraphModule(fb.nn.Module(), graph)
    kind = wanted[-1]
    small, given = minifier(module, [fb.ones(2), fb.zeros(2), fb.ones(2)], has(kind))
    assert [node.target for node in calls_of(small)] == [kind]
    assert len(given) == 1


def test_writes_do_not_reach_the_inputs_of_other_attempts():
    def program(x):
        y = x * 2
        y.add_(1)
        return fb.log(y - 3)

    def fails(module, inputs):
        found = module(*inputs)
        found = found[0] if isinstance(found, tuple) else found
        return has(fb.log)(module, inputs) and bool(found.isinf().any())

    x = fb.ones(2)
    small, given = minifier(fx.symbolic_trace(program), [x], fails)
    assert fb.equal(x, fb.ones(2)) and fails(small, given)
    assert [node.target for node in calls_of(small)] == [fb.log]


def test_modules_attributes_and_gradients():
    class Net(fb.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = fb.nn.Linear(3, 3), fb.nn.Linear(3, 3)
            self.scale = fb.nn.Parameter(fb.ones(3))

        def forward(self, x):
            return (self.two(fb.relu(self.one(x))) * self.scale).sum()

    def fails(module, inputs):
        return any(node.target == "two" for node in calls_of(module))

    small, given = minifier(fx.symbolic_trace(Net()), [fb.ones(2, 3, requires_grad=True)], fails)
    assert [node.target for node in calls_of(small)] == ["two"]
    assert small(*given)[0].shape == (2, 3)


def test_a_graph_whose_run_raises():
    def program(x):
        y = fb.sin(x)
        return fb.reshape(fb.cos(y), (7,)) + 1

    def fails(module, inputs):
        try:
            module(*inputs)
        except RuntimeError:
            return True
        return False

    small, given = minifier(fx.symbolic_trace(program), [fb.ones(4)], fails)
    assert [node.target for node in calls_of(small)] == [fb.reshape] and fails(small, given)


def test_states_and_errors_of_the_predicate():
    seen = []
    asked = []

    def fails(module, inputs):
        asked.append(len(calls_of(module)))
        if len(calls_of(module)) == 1:
            raise KeyError("another failure")
        return has(fb.cos)(module, inputs)

    traced = fx.symbolic_trace(lambda x: fb.exp(fb.cos(fb.sin(x))))
    small, _ = minifier(traced, [fb.ones(2)], fails, lambda module, inputs: seen.append(module))
    assert len(calls_of(small)) == 2 and 1 in asked
    sizes = [len(calls_of(module)) for module in seen]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] == 2


def test_special_inputs():
    nan = fb.tensor([float("nan"), float("inf"), -0.0])
    for x in (nan, fb.ones(0, 3), fb.tensor(2.0), fb.ones(2, 3).t(), fb.ones(3, dtype=fb.int64)):
        small, given = minifier(fx.symbolic_trace(lambda a: fb.abs(a * 2) + 1), [x], has(fb.abs))
        assert [node.target for node in calls_of(small)] == [fb.abs]
        assert fb.equal((given[0]).nan_to_num(), (x * 2).nan_to_num())


def test_graphs_that_do_not_fail_and_wrong_inputs():
    traced = fx.symbolic_trace(lambda x: fb.sin(x))
    with pytest.raises(RuntimeError, match="minifier: expected a graph that fails"):
        minifier(traced, [fb.ones(2)], has(fb.cos))
    with pytest.raises(RuntimeError, match="minifier: expected 1 inputs, one for each placeholder, got 2"):
        minifier(traced, [fb.ones(2), fb.ones(2)], has(fb.sin))
