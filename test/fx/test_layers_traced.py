"""The generated code of every traceable layer returns the layer's values."""

import copy
import io
import pickle

import flambeau as fb
import pytest
from flambeau import nn
from flambeau.fx import GraphModule, Interpreter, Tracer, Transformer, symbolic_trace

IMAGE = (2, 4, 8, 8)
LAYERS = [
    (lambda: nn.Linear(4, 3), (2, 4)),
    (lambda: nn.Bilinear(4, 4, 3), (2, 4), (2, 4)),
    (lambda: nn.Conv1d(4, 2, 3, padding=1), (2, 4, 8)),
    (lambda: nn.Conv2d(4, 2, 3, stride=2), IMAGE),
    (lambda: nn.ConvTranspose2d(4, 2, 3), IMAGE),
    (lambda: nn.BatchNorm2d(4).eval(), IMAGE),
    (lambda: nn.GroupNorm(2, 4), IMAGE),
    (lambda: nn.LayerNorm(8), IMAGE),
    (lambda: nn.InstanceNorm2d(4), IMAGE),
    (lambda: nn.MaxPool2d(2), IMAGE),
    (lambda: nn.AvgPool2d(2), IMAGE),
    (lambda: nn.AdaptiveAvgPool2d(2), IMAGE),
    (lambda: nn.Upsample(scale_factor=2), IMAGE),
    (lambda: nn.PixelShuffle(2), IMAGE),
    (lambda: nn.ZeroPad2d(1), IMAGE),
    (lambda: nn.ReflectionPad2d(1), IMAGE),
    (lambda: nn.Flatten(), IMAGE),
    (lambda: nn.Softmax(-1), (2, 4)),
    (lambda: nn.GELU(), (2, 4)),
    (lambda: nn.SiLU(), (2, 4)),
    (lambda: nn.ReLU6(), (2, 4)),
    (lambda: nn.LeakyReLU(), (2, 4)),
    (lambda: nn.ELU(), (2, 4)),
    (lambda: nn.Hardswish(), (2, 4)),
    (lambda: nn.PReLU(), (2, 4)),
    (lambda: nn.Softplus(), (2, 4)),
    (lambda: nn.Tanh(), (2, 4)),
    (lambda: nn.Sigmoid(), (2, 4)),
    (lambda: nn.LogSoftmax(1), (2, 4)),
    (lambda: nn.GLU(), (2, 4)),
    (lambda: nn.Dropout(0.5).eval(), (2, 4)),
    (lambda: nn.CosineSimilarity(), (2, 4), (2, 4)),
    (lambda: nn.MSELoss(), (2, 4), (2, 4)),
    (lambda: nn.SmoothL1Loss(), (2, 4), (2, 4)),
    (lambda: nn.Identity(), (2, 4)),
    (lambda: nn.Unflatten(1, (2, 2)), (2, 4)),
]


class Residual(nn.Module):
    """A module with operators, methods, attributes, containers, constants and unpacking around its layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4))])
        self.scale = nn.Parameter(fb.ones(4) * 2)
        self.register_buffer("shift", fb.arange(4.0))
        self.register_buffer("hidden", fb.ones(4), persistent=False)
        self.plain = fb.full((4,), 0.5)

    def forward(self, x, *rest, gain: float = 2.0, **named):
        for layer in self.layers:
            x = x + layer(x)
        left, right = x.chunk(2, dim=1)
        x = fb.cat([right, left], 1) * self.scale - self.shift
        x = (x + self.plain) * self.hidden
        rows, columns = x.shape
        x = abs(-x).view(rows, columns)[:, columns // 4 :] ** 2 / 3
        return {"x": x * gain, "both": (left.size(0), [x.T @ x, ~(x > 1)]), "none": None}


def inputs(shapes):
    fb.manual_seed(0)
    return [fb.randn(shape) for shape in shapes]


def leaves(value):
    return fb.utils._pytree.tree_leaves(value)


def same(found, expected):
    found, expected = leaves(found), leaves(expected)
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b)
        assert fb.equal(a, b) if isinstance(a, fb.Tensor) else a == b


class Deep(Tracer):
    """A tracer that traces the forward of every layer."""

    def is_leaf_module(self, m, module_qualified_name):
        return False


class Wrapped(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *args):
        return self.layer(args[0], args[1])


def copies(module):
    """Return copies of the module: by all ways to store it or run it."""
    yield "code", module
    yield "deepcopy", copy.deepcopy(module)
    yield "copy", copy.copy(module)
    yield "pickle", pickle.loads(pickle.dumps(module))
    file = io.BytesIO()
    fb.save(module, file)
    file.seek(0)
    yield "file", fb.load(file, weights_only=False)
    yield "traced again", symbolic_trace(module)
    yield "transformed", Transformer(module).transform()
    yield "interpreted", Interpreter(module).run


@pytest.mark.parametrize("case", LAYERS, ids=lambda case: type(case[0]()).__name__)
def test_a_layer_as_one_node_and_traced(case):
    layer, args = case[0](), inputs(case[1:])
    expected = layer(*args)
    for tracer in (Tracer(), Deep()):
        try:
            graph = tracer.trace(layer)
        except fb.fx.proxy.TraceError:
            continue  # its forward branches on sizes
        graph.lint()
        for _, run in copies(GraphModule(tracer.root, graph)):
            same(run(*args), expected)
    host = nn.Sequential(layer) if len(args) == 1 else Wrapped(layer)
    traced = symbolic_trace(host)
    assert [n.op for n in traced.graph.nodes if n.op == "call_module"] == ["call_module"]
    for name, run in copies(traced):
        arguments = args if name != "interpreted" or len(args) == 1 else args
        same(run(*arguments), expected)


def test_forward_methods_with_many_features():
    module, (x,) = Residual(), inputs([(2, 4)])
    expected = module(x)
    traced = symbolic_trace(module)
    traced.graph.lint()
    for name, run in copies(traced):
        if name != "interpreted":
            same(run(x), expected)
    assert set(traced.state_dict()) == {*module.state_dict(), "plain"}  # plain tensors become buffers
    assert "hidden" in dict(traced.named_buffers())


def test_gradients_are_those_of_the_module():
    module, (x,) = Residual(), inputs([(2, 4)])
    module(x)["x"].sum().backward()
    expected = [None if p.grad is None else p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    traced = symbolic_trace(module)
    traced(x)["x"].sum().backward()
    found = [p.grad for p in module.parameters()]  # shared with the traced module
    assert any(g is not None for g in expected)
    for a, b in zip(found, expected, strict=True):
        assert (a is None and b is None) or fb.allclose(a, b)


def test_a_folder_can_be_imported(tmp_path, monkeypatch):
    (x,) = inputs([(2, 4)])
    module = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 2)))
    traced = symbolic_trace(module)
    traced.to_folder(tmp_path / "written_by_fx", "Net")
    monkeypatch.syspath_prepend(tmp_path)
    import written_by_fx

    same(written_by_fx.Net()(x), module(x))
