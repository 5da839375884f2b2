"""Subclasses of Tracer and GraphModule as in libraries: features of inner nodes, one graph per mode."""

import subprocess
import sys
from collections import OrderedDict
from copy import deepcopy

import flambeau as fb
import pytest
from flambeau import fx, nn
from flambeau.fx.graph_module import _copy_attr


class PathTracer(fx.Tracer):
    """A tracer that notes the module path of each node."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.current, self.paths = "", OrderedDict()

    def call_module(self, m, forward, args, kwargs):
        before = self.current
        try:
            self.current = self.path_of_module(m)
            if self.is_leaf_module(m, self.current):
                return self.create_proxy("call_module", self.current, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.current = before

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *_):
        made = super().create_proxy(kind, target, args, kwargs, name, type_expr)
        self.paths[made.node] = f"{self.current}.{made.node.name}".lstrip(".")
        return made


class TwoGraphs(fx.GraphModule):
    """A module with one graph for training and one for evaluation."""

    def __init__(self, root, train_graph, eval_graph, class_name):
        super(fx.GraphModule, self).__init__()
        self.__class__.__name__ = class_name
        self.train_graph, self.eval_graph = train_graph, eval_graph
        for node in (*train_graph.nodes, *eval_graph.nodes):
            if node.op in ("get_attr", "call_module"):
                _copy_attr(root, self, node.target)
        self.train()
        self.graph = train_graph

    def train(self, mode=True):
        if mode and not self.training:
            self.graph = self.train_graph
        elif not mode and self.training:
            self.graph = self.eval_graph
        return super().train(mode=mode)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()) for _ in range(3))
        )
        self.head = nn.Linear(4, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = self.blocks(self.stem(x)).mean((2, 3))
        if self.training:
            x = x * 3
        return self.head(self.drop(x))


def features(model, wanted):
    graphs = {}
    for mode in ("train", "eval"):
        tracer = PathTracer()
        graph = tracer.trace(getattr(model, mode)())
        found = {tracer.paths[n].rpartition(".")[0] or n.name: n for n in graph.nodes if n in tracer.paths}
        output = graph.output_node()
        graph.erase_node(output)
        graph.output({name: found[path] for path, name in wanted.items()})
        graph.eliminate_dead_code()
        graphs[mode] = graph
    made = TwoGraphs(model, graphs["train"], graphs["eval"], "Features")
    return made.train(model.training)


def test_features_of_inner_nodes():
    fb.manual_seed(0)
    model, x = Net().eval(), fb.rand(2, 3, 8, 8)
    made = features(model, {"blocks.1.1": "inner", "head": "out"})
    model.eval()
    for extractor in (made, deepcopy(made)):
        extractor.eval()
        found = extractor(x)
        assert list(found) == ["inner", "out"] and type(extractor).__name__ == "Features"
        fb.testing.assert_close(found["out"], model(x))
        fb.testing.assert_close(found["inner"], model.blocks[:2](model.stem(x)))
    made.train()
    assert "* 3" in made.code
    made.eval()
    assert "* 3" not in made.code


def test_sizes_of_parameters_can_be_numbers():
    class Grows(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(fb.ones(3))

        def forward(self, x):
            return x + self.w if self.w.shape[0] > 2 and self.w.numel() == 3 else x

    with pytest.raises(fx.proxy.TraceError):
        fx.Tracer().trace(Grows())
    tracer = fx.Tracer(param_shapes_constant=True)
    made = fx.GraphModule(Grows(), tracer.trace(Grows()))
    assert fb.equal(made(fb.zeros(3)), fb.ones(3))


def test_asserts_can_be_recorded():
    class Asserts(fx.Tracer):
        trace_asserts = True

    scope = {}  # pytest rewrites the assert statements of this file
    exec("def program(x):\n    assert x.sum() > 0, 'positive'\n    return x\n", scope)
    graph = Asserts().trace(scope["program"])
    assert [n.target.__name__ for n in graph.nodes if n.op == "call_function"] == ["gt", "assert_fn"]


def test_nothing_stays_patched():
    import math

    before = nn.Module.__call__, nn.Module.__getattr__, math.sqrt
    for program in (lambda x: math.sqrt(x), lambda x: 1 if x else 2):
        try:
            fx.symbolic_trace(program)
        except fx.proxy.TraceError:
            pass
        assert (nn.Module.__call__, nn.Module.__getattr__, math.sqrt) == before
        assert not fx._symbolic_trace.is_fx_tracing()


def test_names_while_flambeau_is_imported_as_torch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import io, torch\n"
        "from torch import nn, fx\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(2, 2)\n"
        "    def forward(self, x):\n"
        "        return torch.relu(self.layer(x)) if x.sum() > 0 else nn.functional.relu(x)\n"
        "net, x = Net(), torch.ones(2, 2)\n"
        "traced = fx.symbolic_trace(nn.Sequential(net.layer, nn.ReLU()))\n"
        "assert [n.op for n in traced.graph.nodes].count('call_module') == 2, traced.graph\n"
        "assert 'torch.relu' in fx.symbolic_trace(lambda x: torch.relu(x)).code\n"
        "for program in (torch.jit.script(net), torch.jit.trace(net, x)):\n"
        "    file = io.BytesIO()\n"
        "    torch.jit.save(program, file)\n"
        "    file.seek(0)\n"
        "    assert torch.equal(torch.jit.load(file)(x), net(x))\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "flambeau.compat", str(script)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_signatures_of_all_operators_follow_from_their_schemas():
    from flambeau.fx.operator_schemas import signature_of
    from flambeau.ops import _schemas

    for schema in _schemas().values():
        signature = signature_of(schema)
        for parameter in signature.parameters.values():
            value = parameter.default
            if value is not parameter.empty and value is not None:
                assert not isinstance(value, str) or "str" in str(parameter.annotation), schema
