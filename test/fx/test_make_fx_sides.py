"""make_fx: graphs of operators below autograd, side by side with PyTorch's."""

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


def test_containers_as_inputs_and_outputs(fw):
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


def test_decompositions_are_recorded_instead_of_operators(fw):
    table = {fw.ops.aten.silu.default: lambda x: x * fw.sigmoid(x)}
    graph = make(fw, lambda x: fw.nn.functional.silu(x) + 1, fw.ones(2), decomposition_table=table)
    assert operators(graph) == ["aten.sigmoid.default", "aten.mul.Tensor", "aten.add.Tensor"]
    assert fw.allclose(graph(fw.arange(2.0)), fw.nn.functional.silu(fw.arange(2.0)) + 1)


def test_the_mode_can_be_queried_and_left(fw):
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
    for options in ({"tracing_mode": "unreal"}, {"pre_dispatch": True}):
        with pytest.raises(ValueError, match="make_fx: expected"):
            make(fb, lambda x: x, fb.ones(1), **options)


# --- on fake tensors -------------------------------------------------------------------------------


def fake_module(framework):
    return tensor_module(framework, "_subclasses.fake_tensor")


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_nodes_are_described(fw, mode):
    def program(x):
        values, places = x.max(1)
        return values * 2, places

    graph = make(fw, program, fw.ones(3, 4).t(), tracing_mode=mode)
    for node in graph.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, tuple | list):
            assert [tuple(v.shape) for v in value] == [(4,), (4,)]
        elif node.op != "output":
            assert isinstance(value, fake_module(fw).FakeTensor), node
            meta = node.meta["tensor_meta"]
            assert (meta.shape, meta.stride, meta.dtype) == (value.shape, value.stride(), value.dtype)
    first = next(iter(graph.graph.nodes)).meta["val"]
    assert (tuple(first.shape), first.stride(), str(first.device)) == ((4, 3), (1, 4), "cpu")


def test_nothing_is_computed_or_written(fw):
    def program(x, y):
        x.add_(y)
        return x * 2, x.view(-1)

    x, y = fw.zeros(2, 2), fw.ones(2, 2)
    graph = make(fw, program, x, y, tracing_mode="fake")
    assert x.tolist() == [[0, 0], [0, 0]]
    doubled, view = graph(x, y)
    assert x.tolist() == [[1, 1], [1, 1]] and doubled.tolist() == [[2, 2], [2, 2]]
    assert view.data_ptr() == x.data_ptr()


def test_gradients_inside_are_recorded_on_fake_tensors(fw):
    def slope(x):
        y = x.detach().requires_grad_()
        return fw.autograd.grad((y.sin() * y).sum(), y)[0]

    x = fw.arange(3.0)
    assert fw.allclose(make(fw, slope, fw.ones(3), tracing_mode="fake")(x), slope(x))


def test_results_that_are_inputs_and_numbers(fw):
    graph = make(fw, lambda x, n: (x, x, n, x + n), fw.ones(2), 3, tracing_mode="fake")
    x = fw.zeros(2)
    found = graph(x, 3)
    assert found[0] is x and found[1] is x and found[2] == 3 and found[3].tolist() == [3, 3]


def test_random_numbers_are_drawn_by_the_graph(fw):
    graph = make(fw, lambda x: x + fw.rand(3), fw.zeros(3), tracing_mode="fake")
    fw.manual_seed(1)
    first = graph(fw.zeros(3))
    fw.manual_seed(1)
    assert fw.equal(first, fw.rand(3)) and not fw.equal(first, graph(fw.zeros(3)))


def test_constants_of_the_program(fw):
    def program(x):
        table = fw.tensor([1.0, 2.0])
        table.mul_(3)
        return x + table, x * fw.tensor(2.0)

    graph = make(fw, program, fw.ones(2), tracing_mode="fake")
    for _ in range(2):  # the write does not change the graph's constant
        found = graph(fw.zeros(2) + 1)
        assert found[0].tolist() == [4, 7] and found[1].tolist() == [2, 2]


def test_other_tensors_are_refused_unless_they_are_allowed(fw):
    layer = fw.nn.Linear(2, 2)
    x = fw.ones(1, 2)
    with pytest.raises(AssertionError, match="convert all Tensors to FakeTensors"):
        make(fw, layer, x, tracing_mode="fake")
    graph = make(fw, layer, x, tracing_mode="fake", _allow_non_fake_inputs=True)
    assert fw.allclose(graph(x * 2), layer(x * 2))
    with fw.no_grad():
        layer.bias.add_(1)
    assert fw.allclose(graph(x), layer(x))  # the parameter itself is in the graph


def test_elements_that_are_read_on_fake_tensors(fw):
    fake = fake_module(fw)
    with pytest.raises(RuntimeError):
        make(fw, lambda x: x if x.sum() > 0 else -x, fw.ones(2), tracing_mode="fake")
    if fw is fb:
        with pytest.raises(fake.DynamicOutputShapeException):
            make(fw, lambda x: x.nonzero(), fw.ones(2), tracing_mode="fake")
    proxy_tensor = tensor_module(fw, "fx.experimental.proxy_tensor")
    assert proxy_tensor.get_proxy_mode() is None and fw.ones(1).item() == 1


def test_fake_examples_keep_their_mode(fw):
    mode = fake_module(fw).FakeTensorMode()
    with mode:
        x = fw.ones(2, 3, device="cuda")
    graph = make(fw, lambda x: x @ x.t(), x, tracing_mode="fake")
    value = list(graph.graph.nodes)[-2].meta["val"]
    assert value.fake_mode is mode and str(value.device) == "cuda:0" and tuple(value.shape) == (2, 2)


def test_stack_traces_name_the_line():
    graph = make(fb, lambda x: x.sin() + 1, fb.ones(1), record_stack_traces=True)
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    assert all("test_make_fx_sides.py" in node.stack_trace for node in calls)


# --- values of graphs ------------------------------------------------------------------------------


def propagated(fw, module, *args):
    prop = tensor_module(fw, "fx.passes.fake_tensor_prop").FakeTensorProp
    mode = fake_module(fw).FakeTensorMode(allow_non_fake_inputs=True)
    traced = fw.fx.symbolic_trace(module)
    return traced, prop(traced, mode).propagate(*args), mode


def test_fake_tensor_prop(fw):
    class Block(fw.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = fw.nn.Linear(3, 2)
            self.scale = fw.nn.Parameter(fw.ones(2))

        def forward(self, x):
            low, high = (self.layer(x) * self.scale).chunk(2, 1)
            return low + high, x.size(0)

    block = Block()
    traced, result, mode = propagated(fw, block, fw.ones(4, 3))
    assert tuple(result[0].shape) == (4, 1) and result[1] == 4 and result[0].fake_mode is mode
    described = {node.name: node.meta.get("val") for node in traced.graph.nodes}
    assert tuple(described["layer"].shape) == (4, 2) and described["size"] == 4
    assert [tuple(v.shape) for v in described["chunk"]] == [(4, 1), (4, 1)]
    assert type(block.scale.data) is fw.Tensor and fw.allclose(
        traced(fw.ones(4, 3))[0], block(fw.ones(4, 3))[0]
    )


def test_fake_tensor_prop_does_no_work(fw):
    with fake_module(fw).FakeTensorMode() as mode:
        huge = fw.empty(2**20, 2**20)
    traced = fw.fx.symbolic_trace(lambda x: (x @ x).relu())
    prop = tensor_module(fw, "fx.passes.fake_tensor_prop").FakeTensorProp(traced, mode)
    assert tuple(prop.propagate_dont_convert_inputs(huge).shape) == (2**20, 2**20)


def test_shape_prop_with_a_fake_mode(fw):
    model = fw.nn.Sequential(fw.nn.Conv2d(3, 4, 3), fw.nn.BatchNorm2d(4), fw.nn.Flatten())
    traced = fw.fx.symbolic_trace(model)
    mode = fake_module(fw).FakeTensorMode()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    shape_prop = tensor_module(fw, "fx.passes.shape_prop").ShapeProp
    result = shape_prop(traced, fake_mode=mode).propagate(fw.ones(2, 3, 8, 8))
    assert isinstance(result, fake_module(fw).FakeTensor)
    shapes = [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    assert shapes == [(2, 3, 8, 8), (2, 4, 6, 6), (2, 4, 6, 6), (2, 144), (2, 144)]
    assert all(fw.equal(t, before[name]) for name, t in model.state_dict().items())


def test_errors_of_propagation_name_the_node(fw):
    traced = fw.fx.symbolic_trace(lambda x: x.view(5))
    with pytest.raises(RuntimeError):
        shape_prop = tensor_module(fw, "fx.passes.shape_prop").ShapeProp
        shape_prop(traced, fake_mode=fake_module(fw).FakeTensorMode()).propagate(fw.ones(2, 3))
    assert fw.ones(1).item() == 1  # no mode is left


# --- parts of make_fx ----------------------------------------------------------------------------


def decomposed(fw, module, table, *inputs):
    """Return operators and function of the graph that a DecompositionInterpreter recorded."""
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
