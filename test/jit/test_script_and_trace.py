"""Scripted and traced programs give the values of the original, show code, and survive a file."""

import io
import math

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau import nn
from flambeau.jit import RecursiveScriptModule, ScriptFunction, ScriptModule


def scaled(x, factor: float = 2.0):
    return x * factor


def looped(x, n: int):
    total = fb.zeros_like(x)
    for i in range(n):
        total = scaled(total, 0.5) + x * i if bool(total.sum() < 100) else total - 1
    return total


class Gate(nn.Module):
    limit: float = 0.5

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.scale = nn.Parameter(fb.rand(4))
        self.register_buffer("shift", fb.rand(4))
        self.register_buffer("hidden", fb.ones(1), persistent=False)
        self.steps = 3
        self.names = ["a", "b"]

    def helper(self, x):
        return scaled(x, self.limit)

    def forward(self, x, flip: bool = False):
        """Branches on values, loops, and calls a function and a method."""
        y: fb.Tensor = self.inner(x)
        if y.mean() > self.limit:
            y = -y
        for _ in range(self.steps):
            y = self.helper(y) + self.shift * self.hidden
        y = self.drop(self.norm(y)) * self.scale
        return (
            {"y": F.softmax(y, dim=-1), "n": len(self.names)} if not flip else {"y": y.flip(0), "n": math.pi}
        )

    @fb.jit.export
    def extra(self, x):
        return self.helper(x) + 1

    @fb.jit.ignore
    def ignored(self, x):
        return fb.jit.is_scripting()

    @fb.jit.unused
    def left_out(self, x):
        return x


class Straight(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.gru = nn.GRU(4, 5, batch_first=True)
        self.unused = nn.Linear(2, 2)
        self.w = nn.Parameter(fb.rand(5))

    def forward(self, x, extra=None):
        y = F.relu(self.conv(x)).flatten(2).transpose(1, 2)
        out, h = self.gru(y)
        a, b = out.chunk(2, dim=1) if out.shape[1] % 2 == 0 else (out, out)
        out = out.view(out.size(0), -1, out.shape[-1]) * self.w
        if isinstance(out, fb.Tensor) and out.dim() == 3:
            out = out + 1
        return (out, {"h": h}, [a, b])


def through_a_file(program, **extra):
    buffer = io.BytesIO()
    fb.jit.save(program, buffer, **extra)
    buffer.seek(0)
    return fb.jit.load(buffer)


def same(found, expected):
    found, expected = map(fb.utils._pytree.tree_leaves, (found, expected))
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert fb.equal(a, b) if isinstance(a, fb.Tensor) else a == b


@pytest.mark.parametrize("n", [0, 1, 7, 20])
def test_a_scripted_function_follows_its_control_flow(n):
    scripted = fb.jit.script(looped)
    assert isinstance(scripted, ScriptFunction) and "for i in range(n)" in scripted.code
    x = fb.arange(4.0)
    same(scripted(x, n), looped(x, n))
    again = through_a_file(through_a_file(scripted))
    same(again(x, n=n), looped(x, n))


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("training", [False, True])
def test_a_scripted_module_runs_both_branches(flip, sign, training):
    fb.manual_seed(0)
    module, x = Gate().train(training), fb.randn(6, 4) * sign * 3
    state = {k: v.clone() for k, v in module.state_dict().items()}

    def run(program, call=None):
        program.load_state_dict(state)
        fb.manual_seed(1)
        return (call or program)(x, flip)

    expected = run(module)
    scripted = fb.jit.script(module)
    loaded = through_a_file(scripted)
    for program in (scripted, loaded, through_a_file(loaded)):
        assert isinstance(program, ScriptModule) and program.training is training
        assert list(program.state_dict()) == list(state)
        same(run(program), expected)
        same(run(program, program.forward), expected)
        same(program.extra(x), module.extra(x))
        program.eval()
        assert not program.inner[0].training
    module.train(training)


def test_marks_of_methods():
    scripted = fb.jit.script(Gate())
    assert isinstance(scripted, RecursiveScriptModule) and scripted.original_name == "Gate"
    assert not scripted.ignored(None) and not fb.jit.is_scripting()
    with pytest.raises(RuntimeError, match="unused"):
        scripted.left_out(1)
    assert fb.jit.script(lambda: fb.jit.is_scripting())() is True


@pytest.mark.parametrize("size", [(2, 3, 8, 8), (1, 3, 6, 7), (5, 3, 9, 9)])
def test_a_traced_module_holds_for_other_sizes(size):
    fb.manual_seed(0)
    module = Straight()
    traced = fb.jit.trace(module, fb.randn(3, 3, 8, 8))
    x = fb.randn(size)
    if (size[2] - 2) * (size[3] - 2) % 2 == 0:
        same(traced(x), module(x))
        same(through_a_file(traced)(x), module(x))
    assert list(traced.state_dict()) and set(traced.state_dict()) == set(module.state_dict())
    assert not [name for name in vars(module) if "constant" in name]
    assert "self.conv(" in traced.code and [n.op for n in traced.graph.nodes][0] == "placeholder"


def test_a_traced_function_and_what_it_freezes():
    def function(x):
        if x.sum() > 0:
            x = x * 2
        for _ in range(int(x.size(0))):
            x = x + 1
        x[0] = 5
        return x, x.shape[0], float(x.max())

    with pytest.warns(fb.jit.TracerWarning):
        traced = fb.jit.trace(function, fb.ones(3))
    x = fb.ones(3)
    same(traced(x)[0], function(fb.ones(3))[0])
    same(through_a_file(traced)(-fb.ones(3))[0], fb.tensor([5.0, 1.0, 1.0]))  # the example's branch


def test_a_program_that_changes_fails_the_check():
    calls = []

    def function(x):
        calls.append(1)
        return x * len(calls)

    with pytest.raises(fb.jit.TracingCheckError):
        fb.jit.trace(function, fb.ones(2))


def test_several_methods():
    module = Gate().eval()
    x = fb.rand(3, 4)
    traced = fb.jit.trace_module(module, {"forward": (x,), "extra": x})
    for program in (traced, through_a_file(traced)):
        same(program(x), module(x))
        same(program.extra(x + 1), module.extra(x + 1))


def test_extra_files_and_paths(tmp_path):
    scripted = fb.jit.script(Gate().eval())
    scripted.save(tmp_path / "model.pt", _extra_files={"note.txt": "text", "raw": b"\0\xff"})
    files = {"note.txt": "", "raw": "", "absent": 1}
    loaded = fb.jit.load(str(tmp_path / "model.pt"), _extra_files=files)
    assert files == {"note.txt": "text", "raw": b"\0\xff", "absent": 1}
    same(loaded(fb.ones(2, 4)), scripted(fb.ones(2, 4)))
    with pytest.raises(ValueError, match="does not exist"):
        fb.jit.load(tmp_path / "nothing.pt")


def test_shared_parameters_stay_shared():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.second = nn.Linear(3, 3)
            self.second.weight = self.first.weight
            self.third = self.first

        def forward(self, x):
            return self.third(self.second(self.first(x)))

    loaded = through_a_file(fb.jit.script(Tied()))
    assert loaded.second.weight is loaded.first.weight and loaded.third is loaded.first


def test_what_cannot_be_saved_says_why():
    import sys

    @fb.jit.script
    def removes(x):
        sys.exit(1)
        return x

    with pytest.raises(RuntimeError, match="jit.save: .*sys"):
        fb.jit.save(removes, io.BytesIO())

    @fb.jit.script
    def imports(x):
        import sys as system

        return system.path

    with pytest.raises(RuntimeError, match="Import is not allowed in a file"):
        fb.jit.save(imports, io.BytesIO())
    with pytest.raises(RuntimeError, match="ScriptModule"):
        fb.jit.save(nn.Linear(1, 1), io.BytesIO())


def test_freeze():
    module = fb.jit.script(Gate().eval())
    frozen = fb.jit.freeze(module)
    x = fb.rand(3, 4)
    same(frozen(x), module(x))
    assert not any(p.requires_grad for p in frozen.parameters())
    assert all(p.requires_grad for p in module.parameters())
    with pytest.raises(RuntimeError, match="eval"):
        fb.jit.freeze(fb.jit.script(Gate()))


class Keeps(nn.Module):
    """Keeps what ScriptModule has under the same names."""

    def __init__(self):
        super().__init__()
        self.graph = [1, 2]
        self.inlined_graph = nn.Linear(2, 2)
        self.register_buffer("code", fb.ones(2))

    def graph_for(self, x):
        return x + 1

    def forward(self, x):
        return self.graph_for(self.inlined_graph(x)) * self.code + len(self.graph)


def test_names_of_the_program_come_first():
    module, x = Keeps(), fb.ones(1, 2)
    scripted = fb.jit.script(module)
    same(scripted(x), module(x))
    same(through_a_file(scripted)(x), module(x))
    assert scripted.graph == [1, 2]
