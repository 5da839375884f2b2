"""Passes over graphs: the metadata that they record, and equal results of the graphs that they change."""

import operator
import subprocess
import sys

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau import fx, nn
from flambeau.fx.experimental import const_fold, normalize, optimization
from flambeau.fx.passes import graph_manipulation, shape_prop, split_utils
from flambeau.fx.passes.dialect.common.cse_pass import CSEPass
from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
from flambeau.fx.passes.infra.pass_manager import PassManager, this_before_that_pass_constraint
from flambeau.fx.passes.operator_support import OperatorSupport, create_op_support
from flambeau.fx.passes.split_module import split_module
from flambeau.fx.passes.tools_common import legalize_graph, stable_topological_sort
from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
from flambeau.fx.passes.utils.source_matcher_utils import check_subgraphs_connected, get_source_partitions


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.9)
        self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.w = nn.Parameter(fb.rand(4))

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x))).mean(dim=(2, 3))
        left = self.drop(x) * self.w
        right = x.exp() + self.w
        return self.head(left + right), (left - right).T


@pytest.fixture
def net():
    fb.manual_seed(0)
    module = Net()
    module.norm.running_mean.uniform_()
    module.norm.running_var.uniform_(0.5, 2)
    return module.eval()


X = fb.linspace(-1, 1, 2 * 3 * 8 * 8).view(2, 3, 8, 8)


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        fb.testing.assert_close(a, b)


def test_shape_prop_notes_every_value(net):
    traced = fx.symbolic_trace(net)
    close(shape_prop.ShapeProp(traced).propagate(X), net(X))
    noted = {n.name: n.meta["tensor_meta"] for n in traced.graph.nodes if n.op != "output"}
    assert noted["conv"].shape == (2, 4, 6, 6) and noted["conv"].dtype == fb.float32
    assert noted["conv"].stride == (144, 36, 6, 1) and noted["conv"].memory_format is fb.contiguous_format
    output = traced.graph.output_node().meta["tensor_meta"]
    assert [m.shape for m in output] == [(2, 2), (4, 2)]
    with pytest.raises(RuntimeError, match="ShapeProp error for %conv"):
        shape_prop.ShapeProp(traced).propagate(fb.ones(2))
    graph_manipulation.get_size_of_all_nodes(traced, [X])
    conv = next(n for n in traced.graph.nodes if n.name == "conv")
    assert conv.size_bytes.output_size == 2 * 4 * 36 * 4
    assert conv.size_bytes.total_size - conv.size_bytes.output_size == 4 * (4 * 27 + 4)
    assert "conv: 'f32[2, 4, 6, 6]'" in traced.print_readable(print_output=False)


@pytest.mark.parametrize("parts", [1, 2, 3, 30])
@pytest.mark.parametrize("original", [False, True])
def test_split_module_computes_the_same(net, parts, original):
    traced = fx.symbolic_trace(net)
    steps = [n for n in traced.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    number = {n: i * parts // len(steps) for i, n in enumerate(steps)}
    names = {}
    made = split_module(traced, net, number.__getitem__, names, keep_original_order=original)
    made.graph.lint()
    close(made(X), net(X))
    assert [n for n, _ in made.named_children()] and set(names.values()) == {
        "conv", "norm", "drop", "head.0", "head.1", "head.2"
    }  # fmt: skip
    calls = [n.target for n in made.graph.nodes if n.op == "call_module"]
    expected = [f"submod_{i}" for i in sorted(set(number.values()))]
    assert calls == expected if original else sorted(calls) == sorted(expected)


def test_split_module_refuses_a_cycle(net):
    traced = fx.symbolic_trace(net)
    part = {n: int(n.name == "norm") for n in traced.graph.nodes}
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(traced, net, part.__getitem__)


def test_split_by_tags(net):
    traced = fx.symbolic_trace(net)
    for node in traced.graph.nodes:
        node.tag = "trunk" if node.name in ("conv", "norm", "relu", "mean") else "rest"
    made, paths = split_utils.split_by_tags(traced, ["trunk", "rest"], return_fqn_mapping=True)
    close(made(X), net(X))
    assert [n for n, _ in made.named_children()] == ["trunk", "rest"] and paths["trunk.conv"] == "conv"


@pytest.mark.parametrize("names", [set(), {"relu"}, {"relu", "exp", "mul"}, None])
def test_partitions_are_fused(net, names):
    traced = fx.symbolic_trace(net)
    supports = create_op_support(lambda mods, n: names is None or n.name in names or n.op == "call_module")
    partitioner = CapabilityBasedPartitioner(traced, supports, allows_single_node_partition=True)
    fused = partitioner.partition_and_fuse()
    fused.graph.lint()
    close(fused(X), net(X))
    assert [n for n, _ in fused.named_children() if n.startswith("fused_")]


def test_operator_support_by_table(net):
    traced = fx.symbolic_trace(net)
    shape_prop.ShapeProp(traced).propagate(X)
    modules = dict(traced.named_modules())
    path = "flambeau.nn.modules.conv.Conv2d"
    conv = next(n for n in traced.graph.nodes if n.name == "conv")
    for dtypes, expected in ((None, True), (([fb.float32],), True), (([fb.float16],), False)):
        table = {path: dtypes and ([dtypes[0]], {})}
        assert OperatorSupport(table).is_node_supported(modules, conv) is expected


def test_pass_manager_orders_and_repeats():
    log = []

    def negates(x):
        for _ in range(3):
            x = -x
        return x * 2

    class Removes(PassBase):
        def __init__(self, name):
            self.__name__ = self.name = name

        def call(self, gm):
            log.append(self.name)
            nodes = [n for n in gm.graph.nodes if n.target is operator.neg]
            for node in nodes[:1]:
                node.replace_all_uses_with(node.args[0])
                gm.graph.erase_node(node)
            return PassResult(gm, bool(nodes))

    first, second = Removes("first"), Removes("second")
    manager = PassManager([second, first], [this_before_that_pass_constraint(first, second)], steps=5)
    result = manager(fx.symbolic_trace(negates))
    assert log == ["first", "second"] * 3 and result.modified and "-" not in result.graph_module.code
    manager.add_constraint(this_before_that_pass_constraint(second, first))
    with pytest.raises(RuntimeError, match="circular"):
        manager(result.graph_module)
    with pytest.raises(TypeError, match="PassResult"):
        PassManager([lambda gm: gm])(result.graph_module)


def test_fusion_for_inference(net):
    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
            self.drop = nn.Dropout()

        def forward(self, x):
            return self.drop(self.b(self.a(x)))

    module = Convolutions().eval()
    module.b.running_var.uniform_(0.5, 2)
    fused = optimization.fuse(module)
    fb.testing.assert_close(fused(X), module(X), rtol=1e-4, atol=1e-5)
    assert [n.target for n in fused.graph.nodes if n.op == "call_module"] == ["a", "drop"]
    small = optimization.optimize_for_inference(module)
    fb.testing.assert_close(small(X), module(X), rtol=1e-4, atol=1e-5)
    assert [n.target for n in small.graph.nodes if n.op == "call_module"] == ["a"]
    assert isinstance(module.b, nn.BatchNorm2d)


def test_constants_are_folded():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(fb.rand(3)), nn.Parameter(fb.rand(3))

        def forward(self, x):
            return x * (self.a + self.b).exp() + self.a

    module = Constant()
    folded = const_fold.split_const_subgraphs(module)
    x = fb.rand(3)
    for _ in range(2):
        fb.testing.assert_close(folded(x), module(x))
    assert [n.target for n in folded.graph.nodes if n.op == "call_function"] == [operator.mul, operator.add]
    assert "_FX_CONST_FOLDED_ATTRS_0" in dict(folded.named_parameters())


def test_normal_forms():
    traced = fx.symbolic_trace(lambda x, y: fb.add(x, y, alpha=2) + F.dropout(x, 0.5, False))
    named = normalize.NormalizeArgs(traced).transform()
    calls = [n for n in named.graph.nodes if n.op == "call_function"]
    assert calls[0].kwargs.keys() == {"input", "other", "alpha"} and not calls[0].args
    plain = normalize.NormalizeOperators(traced).transform()
    assert [n.target for n in plain.graph.nodes if n.op == "call_function"][-1] is fb.add
    x, y = fb.rand(2), fb.rand(2)
    fb.testing.assert_close(named(x, y), traced(x, y))
    fb.testing.assert_close(plain(x, y), traced(x, y))


def test_equal_calls_are_merged():
    def function(x):
        return fb.exp(x) + fb.exp(x) * fb.exp(-x) + fb.rand(()) * 0 + fb.rand(()) * 0

    traced = fx.symbolic_trace(function)
    x = fb.rand(3)
    expected = traced(x)
    merged, modified = CSEPass()(traced)
    assert modified and merged.code.count("exp(") == 2
    fb.testing.assert_close(merged(x), expected)


def test_orders_are_restored(net):
    for restore in (legalize_graph, stable_topological_sort):
        traced = fx.symbolic_trace(net)
        nodes = list(traced.graph.nodes)
        nodes[0].prepend(nodes[5])
        with pytest.raises(RuntimeError, match="before it has been defined"):
            traced.graph.lint()
        restore(traced).recompile()
        traced.graph.lint()
        close(traced(X), net(X))


def test_sources(net):
    traced = fx.symbolic_trace(net)
    found = get_source_partitions(traced.graph, [nn.Conv2d, nn.BatchNorm2d, nn.Linear])
    assert [len(found[c]) for c in (nn.Conv2d, nn.BatchNorm2d, nn.Linear)] == [1, 1, 2]
    conv, norm = found[nn.Conv2d][0], found[nn.BatchNorm2d][0]
    assert check_subgraphs_connected(conv, norm) and not check_subgraphs_connected(norm, conv)
    assert [n.name for n in conv.input_nodes] == ["x"] and [n.name for n in conv.output_nodes] == ["conv"]


def test_matches_do_not_leak_values():
    pattern = fx.symbolic_trace(lambda a, b: fb.relu(fb.add(a, b))).graph
    whole = fx.symbolic_trace(lambda x, y: (fb.relu(fb.add(x, y)), fb.relu(fb.add(y, x))))
    assert [m.returning_nodes[0].name for m in SubgraphMatcher(pattern).match(whole.graph)] == [
        "relu",
        "relu_1",
    ]

    def leaking(x, y):
        z = fb.add(x, y)
        return fb.relu(z), z

    assert SubgraphMatcher(pattern).match(fx.symbolic_trace(leaking).graph) == []


@pytest.mark.parametrize("installed", [False, True])
def test_pictures_need_pydot(net, installed):
    code = (
        "import sys, types\n"
        "class Item:\n"
        "    def __init__(self, *a, **k): self.a, self.k, self.nodes = a, k, []\n"
        "    def add_node(self, n): self.nodes.append(n)\n"
        "    add_edge = add_node\n"
        "fake = types.SimpleNamespace(Dot=Item, Node=Item, Edge=Item)\n"
        f"sys.modules['pydot'] = fake if {installed} else None\n"
        "import flambeau as fb\n"
        "from flambeau.fx.passes.graph_drawer import FxGraphDrawer\n"
        "traced = fb.fx.symbolic_trace(fb.nn.Sequential(fb.nn.Linear(2, 2)))\n"
        "drawer = FxGraphDrawer(traced, 'net')\n"
        "labels = [n.k.get('label', '') for n in drawer.get_dot_graph().nodes]\n"
        "assert len(labels) == 5 and any('Linear' in l or 'in_features=2' in l for l in labels), labels\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if installed:
        assert run.returncode == 0, run.stderr
    else:
        assert "RuntimeError" in run.stderr and "pydot" in run.stderr


def test_an_unknown_tracing_mode_raises_a_clear_error():
    from flambeau.fx.experimental import proxy_tensor, symbolic_shapes

    with pytest.raises(ValueError, match="tracing_mode"):
        proxy_tensor.make_fx(lambda x: x, tracing_mode="symbols")
    assert not isinstance(3, symbolic_shapes.SymInt) and symbolic_shapes.is_concrete_int(3)
