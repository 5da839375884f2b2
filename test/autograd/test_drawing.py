"""Pictures of the graph."""

import shutil

import flambeau as fb
import pytest
from flambeau.autograd import graph


def loss():
    fb.manual_seed(0)
    net = fb.nn.Sequential(fb.nn.Linear(4, 3), fb.nn.ReLU(), fb.nn.Linear(3, 1))
    return net, net(fb.ones(2, 4)).sum()


def test_text_names_leaves_shapes_and_dtypes():
    net, total = loss()
    lines = str(graph.draw(total, net)).splitlines()
    assert lines[0].split() == ["Sum", "scalar", "float32"]
    assert any("0.weight" in line and "3 × 4  float32" in line for line in lines)
    assert sum("Relu" in line for line in lines) == 1


def test_source_has_a_box_and_an_arrow_for_each_step():
    net, total = loss()
    drawing = graph.draw(total, dict(net.named_parameters()))
    assert drawing.source.startswith("digraph {")
    assert drawing.source.count("label=") == drawing.nodes
    assert "<b>2.bias</b>" in drawing.source
    assert drawing.left_out == 0


def test_shared_nodes_are_listed_once():
    x = fb.ones(2, requires_grad=True)
    y = x.exp()
    text = graph.draw((y * y).sum(), {"x": x}).text
    assert text.count("Exp #") == 2
    assert text.count("(above)") == 1


def test_large_graphs_are_cut_and_say_so():
    y = x = fb.ones(1, requires_grad=True)
    for _ in range(5000):
        y = y * 2
    with pytest.warns(UserWarning, match="the graph has 5001 nodes; the 50 nearest"):
        drawing = graph.draw(y, {"x": x}, limit=50)
    assert (drawing.nodes, drawing.left_out) == (50, 4951)
    assert drawing.text.endswith("… 4951 more nodes")


def test_files(tmp_path):
    net, total = loss()
    graph.draw(total, net, file=tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text().startswith("digraph")
    if shutil.which("dot"):
        graph.draw(total, net, file=tmp_path / "graph.svg")
        assert b"<svg" in (tmp_path / "graph.svg").read_bytes()
        graph.draw(total, net, file=tmp_path / "graph", format="png")
        assert (tmp_path / "graph").read_bytes().startswith(b"\x89PNG")


def test_text_where_graphviz_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    net, total = loss()
    with pytest.warns(UserWarning, match="graphviz is not installed"):
        graph.draw(total, net, file=tmp_path / "graph.svg")
    assert "0.weight" in (tmp_path / "graph.txt").read_text()
    with pytest.raises(RuntimeError, match="graphviz is not installed"):
        graph.draw(total).render()


def test_several_outputs_functions_and_leaves():
    class Both(fb.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b, a + b

        @staticmethod
        def backward(ctx, g, h):
            return g, h

    x = fb.ones(2, requires_grad=True)
    a, b = Both.apply(x, x * 2)
    drawing = graph.draw([a.sum(), b.exp().sum()])
    assert drawing.text.count("Both #") == 2
    assert "leaf" in drawing.text
    assert str(graph.draw(x, {"x": x})).split() == ["x", "2", "float32"]


def test_bad_arguments():
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        graph.draw(fb.ones(1))
    _, total = loss()
    with pytest.raises(TypeError, match="a dict of tensors or a module"):
        graph.draw(total, params=3)
    with pytest.raises(ValueError, match="limit"):
        graph.draw(total, limit=0)
