"""make_fx: graphs of operators below autograd, beside PyTorch's."""

from importlib import import_module

import flambeau as fb
import pytest


def tensor_module(framework, name):
    return import_module(f"{framework.__name__}.{name}")


def make(framework, function, *args, **options):
    return tensor_module(framework, "fx.experimental.proxy_tensor").make_fx(function, **options)(*args)


@pytest.fixture(params=["flambeau", "torch"])
def fw(request):
    return fb if request.param == "flambeau" else pytest.importorskip("torch")


def operators(graph):
    return [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]


def test_operators_of_forward_and_backward(fw):
    def slope(x):
        y = x.detach().requires_grad_()
        return fw.autograd.grad((y.sin() * y).sum(), y)[0]

    graph = make(fw, slope, fw.ones(3))
    assert "aten.sin.default" in operators(graph) and len(operators(graph)) > 4
    x = fw.arange(3.0)
    assert fw.allclose(graph(x), slope(x))


def test_names_of_inputs_and_attributes(fw):
    constant, parameter = fw.ones(2), fw.nn.Parameter(fw.ones(2))

    def program(x, y):
        return x * constant + y * parameter

    graph = make(fw, program, fw.ones(2), fw.ones(2))
    assert [n.name for n in graph.graph.nodes if n.op == "placeholder"] == ["x_1", "y_1"]
    kinds = sorted(n.target.rstrip("0123456789") for n in graph.graph.nodes if n.op == "get_attr")
    assert kinds == ["_param_constant", "_tensor_constant"]
    assert operators(graph) == ["aten.mul.Tensor", "aten.mul.Tensor", "aten.add.Tensor"]


def test_containers_come_in_and_go_out(fw):
    def program(pair, rest):
        return {"sum": pair[0] + rest[0], "all": [pair[1], rest[1] * 2]}

    graph = make(fw, program, (fw.ones(2), fw.zeros(2)), [fw.ones(2), fw.ones(2)])
    found = graph((fw.ones(2) * 3, fw.zeros(2)), [fw.ones(2), fw.ones(2) * 4])
    assert found["sum"].tolist() == [4, 4] and [t.tolist() for t in found["all"]] == [[0, 0], [8, 8]]


def test_writes_are_recorded_in_their_order(fw):
    def program(x):
        y = x.clone()
        y.add_(1)
        z = y * 2
        y.mul_(3)
        return z, y

    graph = make(fw, program, fw.ones(2))
    assert operators(graph) == [
        "aten.clone.default",
        "aten.add_.Tensor",
        "aten.mul.Tensor",
        "aten.mul_.Tensor",
    ]
    assert [t.tolist() for t in graph(fw.zeros(2))] == [[2, 2], [3, 3]]


def test_numbers_are_those_of_the_example(fw):
    graph = make(fw, lambda x, n: x * n, fw.ones(2), 3)
    assert graph(fw.ones(2), 100).tolist() == [3, 3]


@pytest.mark.parametrize(
    "program",
    [lambda x: x * x.sum().item(), lambda x: x if x.sum() > 0 else -x, lambda x: x + int(x[0])],
    ids=["item", "branch", "int"],
)
def test_elements_that_are_read_are_errors(fw, program):
    with pytest.raises(RuntimeError):
        make(fw, program, fw.ones(2))


def test_decompositions_are_recorded_in_the_place_of_operators(fw):
    table = {fw.ops.aten.silu.default: lambda x: x * fw.sigmoid(x)}
    graph = make(fw, lambda x: fw.nn.functional.silu(x) + 1, fw.ones(2), decomposition_table=table)
    assert operators(graph) == ["aten.sigmoid.default", "aten.mul.Tensor", "aten.add.Tensor"]
    assert fw.allclose(graph(fw.arange(2.0)), fw.nn.functional.silu(fw.arange(2.0)) + 1)


def test_the_mode_can_be_asked_for_and_left(fw):
    proxy_tensor = tensor_module(fw, "fx.experimental.proxy_tensor")
    seen = []

    def program(x):
        seen.append(proxy_tensor.get_proxy_mode() is not None)
        with proxy_tensor.disable_proxy_modes_tracing():
            seen.append(proxy_tensor.get_proxy_mode() is not None)
            fw.ones(3) + 1
        return x + 1

    graph = make(fw, program, fw.ones(2))
    assert seen == [True, False] and operators(graph) == ["aten.add.Tensor"]
    assert proxy_tensor.get_proxy_mode() is None


def test_an_error_of_the_program_leaves_no_mode(fw):
    def program(x):
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        make(fw, program, fw.ones(2))
    assert tensor_module(fw, "fx.experimental.proxy_tensor").get_proxy_mode() is None


def test_modules_and_functionalised_programs(fw):
    model = fw.nn.Sequential(fw.nn.Linear(3, 2), fw.nn.ReLU())
    x = fw.ones(4, 3)
    assert fw.allclose(make(fw, model, x)(x), model(x))

    def write(x):
        y = x + 1
        y.mul_(2)
        return y

    graph = make(fw, fw.func.functionalize(write), fw.ones(2))
    assert not any(name.split(".")[1].endswith("_") for name in operators(graph)), operators(graph)
    assert graph(fw.ones(2)).tolist() == [4, 4]


def test_modes_of_tracing_that_are_refused():
    for options in ({"tracing_mode": "symbolic"}, {"tracing_mode": "fake"}, {"pre_dispatch": True}):
        with pytest.raises(ValueError, match="make_fx: expected"):
            make(fb, lambda x: x, fb.ones(1), **options)


# --- parts of make_fx ----------------------------------------------------------------------------


def decomposed(fw, module, table, *inputs):
    """The operators and the graph's function after a DecompositionInterpreter has run a graph."""
    fresh = fw.fx.Graph()
    proxy = tensor_module(fw, "fx.experimental.proxy_tensor")
    result = proxy.DecompositionInterpreter(module, fresh, decomposition_table=table).run(*inputs)
    return result, fw.fx.GraphModule(module, fresh)


def test_decomposition_interpreter_records_a_graph_again(fw):
    weight = fw.nn.Parameter(fw.full((3,), 2.0))
    graph = make(fw, lambda x: (fw.addcmul(x, x, weight), x * 2), fw.ones(3))
    aten = fw.ops.aten
    table = {aten.addcmul.default: lambda a, b, c, value=1: a + b * c}
    x = fw.arange(3.0)
    result, again = decomposed(fw, graph, table, x)
    names = operators(again)  # PyTorch records how it copies the parameter, too
    assert [n for n in names if "addcmul" in n or "mul.Tensor" in n] == ["aten.mul.Tensor", "aten.mul.Tensor"]
    for found, one in zip(result, again(x), strict=True):
        assert fw.equal(found, one)
    y = fw.ones(3) * 5
    assert again(y)[0].tolist() == [15, 15, 15] and again(y)[1].tolist() == [10, 10, 10]
    with fw.no_grad():
        weight.fill_(3)
    assert again(y)[0].tolist() == [20, 20, 20]  # the parameter itself is in the graph


def test_decomposition_interpreter_leaves_the_thread_as_it_was(fw):
    graph = make(fw, lambda x: x.sin(), fw.ones(2))

    def failing(x):
        raise KeyError("inside")

    with pytest.raises(Exception, match="inside"):
        decomposed(fw, graph, {fw.ops.aten.sin.default: failing}, fw.ones(2))
    proxy = tensor_module(fw, "fx.experimental.proxy_tensor")
    assert proxy.get_innermost_proxy_mode() is None
    assert fw.ones(2).sin().shape == (2,)


def test_dispatch_trace_uses_the_given_tracer(fw):
    proxy = tensor_module(fw, "fx.experimental.proxy_tensor")

    class Block(fw.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = fw.nn.Linear(2, 2)

        def forward(self, x, twice=False):
            x = self.inner(x)
            return x + x if twice else x

    class Entering(fw.fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    module = Block()
    graph = proxy.dispatch_trace(module, Entering(), concrete_args={"twice": True})
    assert sorted({n.op for n in graph.graph.nodes}) == ["call_function", "get_attr", "output", "placeholder"]
    assert type(graph).__name__ == "Block"
    x = fw.ones(1, 2)
    assert fw.equal(graph(x, True), module(x, True))
