"""Graphs of models for TensorBoard: nodes, scopes and edges beside those that PyTorch traces."""

import importlib
import sys
from types import SimpleNamespace as Names

import flambeau as fb
import pytest
from oracle import pytorch

DataType = pytest.importorskip("tensorboard.compat.proto.types_pb2").DataType


def writer_of(torch, folder):
    return importlib.import_module(f"{torch.__name__}.utils.tensorboard").SummaryWriter(str(folder))


def read_events(path):
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    return [Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()]


def network(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
            self.head = nn.Linear(18, 4)

        def forward(self, x, scale):
            x = self.body(x).flatten(1)
            return self.head(x).mul(scale), x.mean()

    return Net()


# Nodes of PyTorch's traces that are no function of a tensor, and its inner name of a convolution.
LEFT_OUT = ("prim::Constant", "prim::ListConstruct", "prim::TupleConstruct")
RENAMED = {"aten::_convolution": "aten::conv2d"}


def graph_in(folder):
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    (path,) = folder.iterdir()
    (event,) = [event for event in read_events(path) if event.graph_def]
    return GraphDef.FromString(event.graph_def)


def described_graph(graph):
    """Each function with its scope, the kinds and scopes of its tensors, and the sizes of its result."""
    nodes = {node.name: node for node in graph.node}
    assert len(nodes) == len(graph.node)

    def place(node):
        scope = node.name.rpartition("/")[0]
        kind = RENAMED.get(node.op, node.op)
        return kind, node.name.split("/")[-2] if kind == "prim::GetAttr" and "." in node.name else scope

    found = []
    for node in graph.node:
        if not node.op.startswith("aten::"):
            continue
        inputs = [nodes[name] for name in node.input if nodes[name].op not in LEFT_OUT]
        shapes = [[d.size for d in s.dim] for s in node.attr["_output_shapes"].list.shape]
        found.append([*place(node), shapes, [place(one)[0] for one in inputs]])
    return found


def test_the_graph_of_a_model(tmp_path):
    graphs = []
    for torch in (fb, pytorch()):
        with writer_of(torch, tmp_path / torch.__name__) as writer:
            writer.add_graph(network(torch), (torch.ones(2, 1, 8, 8), torch.ones(4)))
        graphs.append(graph_in(tmp_path / torch.__name__))
    found, expected = map(described_graph, graphs)
    assert len(found) == 8 and found == expected
    assert graphs[0].versions == graphs[1].versions


def test_edges_and_names_of_a_graph(tmp_path):
    class Net(fb.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = fb.nn.Linear(2, 2)

        def forward(self, x):
            x = self.layer(self.layer(x))
            x.add_(1)
            return {"a": x + self.layer.bias, "b": fb.zeros(1)}

    with fb.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_graph(Net(), fb.ones(1, 2))
    nodes = {node.name: (node.op, list(node.input)) for node in graph_in(tmp_path).node}
    first, second = "Net/Linear[layer]/linear", "Net/Linear[layer]/linear_2"
    weight, bias = "Net/Linear[layer]/weight", "Net/Linear[layer]/bias"
    assert nodes == {
        "input/input_0": ("IO Node", []),
        weight: ("prim::GetAttr", []),
        bias: ("prim::GetAttr", []),
        first: ("aten::linear", ["input/input_0", weight, bias]),
        second: ("aten::linear", [first, weight, bias]),
        "Net/add": ("aten::add_", [second]),
        "Net/add_2": ("aten::add", ["Net/add", bias]),
        "Net/zeros": ("aten::zeros", []),
        "output/output_0": ("IO Node", ["Net/add_2"]),
        "output/output_1": ("IO Node", ["Net/zeros"]),
    }


def test_a_graph_changes_nothing_of_the_model(tmp_path):
    model = fb.nn.Sequential(fb.nn.BatchNorm1d(2), fb.nn.Dropout()).train()
    model[1].eval()
    before, state = {k: v.clone() for k, v in model.state_dict().items()}, fb.get_rng_state()
    with fb.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, [fb.rand(3, 2, generator=fb.Generator().manual_seed(1))])
        with pytest.raises(RuntimeError):
            writer.add_graph(model, fb.ones(3, 5))
        with pytest.raises(TypeError, match="expected a module, got int"):
            writer.add_graph(3, fb.ones(3))
    assert [m.training for m in model.modules()] == [True, True, False]
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert fb.get_rng_state().equal(state)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


class FakeOnnx:
    """The part of the package onnx that reads files, for a model that is made here."""

    def __init__(self, graph):
        self.graph = graph
        self.helper = Names(get_attribute_value=lambda attribute: attribute.value)

    def load(self, path):
        return Names(graph=self.graph)


def value_info(name, kind, *sizes):
    dims = [Names(dim_value=size) for size in sizes]
    return Names(name=name, type=Names(tensor_type=Names(elem_type=kind, shape=Names(dim=dims))))


def call_of(kind, inputs, outputs, **settings):
    attributes = [Names(name=name, value=value) for name, value in settings.items()]
    return Names(op_type=kind, input=inputs, output=outputs, attribute=attributes)


def test_the_graph_of_an_onnx_file(tmp_path, monkeypatch):
    graph = Names(
        input=[value_info("x", 1, 2, 0), value_info("w", 11, 3, 4)],
        initializer=[Names(name="w", data_type=11, dims=[3, 4]), Names(name="c", data_type=7, dims=[5])],
        node=[
            call_of("Gemm", ["x", "w", "", "c"], ["y"], alpha=0.5, mode=b"abc"),
            call_of("Split", ["y"], ["a", "b"]),
            call_of("Add", ["b", "a"], ["sum"]),
        ],
        output=[value_info("sum", 16, 1), value_info("b", 9)],
    )
    monkeypatch.setitem(sys.modules, "onnx", FakeOnnx(graph))
    with fb.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_onnx_graph("model.onnx")
    nodes = {node.name: node for node in graph_in(tmp_path).node}
    assert {name: (node.op, list(node.input)) for name, node in nodes.items()} == {
        "x": ("Variable", []),
        "w": ("Variable", []),
        "c": ("Variable", []),
        "y": ("Gemm", ["x", "w", "c"]),
        "a": ("Split", ["y"]),
        "sum": ("Add", ["a", "a"]),
        "output/sum": ("IO Node", ["sum"]),
        "output/b": ("IO Node", ["a"]),
    }
    assert nodes["y"].attr["parameters"].s == b"alpha = 0.5, mode = b'abc'"
    names = {name: DataType.Name(node.attr["dtype"].type) for name, node in nodes.items()}
    assert [names[name] for name in ("x", "w", "c", "output/sum", "output/b")] == [
        *("DT_FLOAT", "DT_DOUBLE", "DT_INT64", "DT_BFLOAT16", "DT_BOOL")
    ]
    assert [[d.size for d in nodes[n].attr["shape"].shape.dim] for n in "xwc"] == [[2, 0], [3, 4], [5]]


def test_without_onnx(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    for torch in (fb, pytorch()):
        with writer_of(torch, tmp_path) as writer, pytest.raises(ModuleNotFoundError):
            writer.add_onnx_graph("model.onnx")
