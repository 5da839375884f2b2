"""Files that pretend to be programs: each gives an ordinary exception, and none gets at the machine."""

import io
import random

import flambeau as fb
import pytest
from flambeau import nn
from flambeau.jit._archive import FORMAT, Writer
from flambeau.jit._restricted import run


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x).relu() if x.sum() > 0 else x


ESCAPES = [
    "import os",
    "def f():\n    import os",
    "def f():\n    from os import system",
    "def f(x):\n    return x.__class__",
    "def f(x):\n    return ().__class__.__mro__",
    "def f():\n    return __builtins__",
    "def f():\n    global g",
    "def f(x=print(1)):\n    pass",
    "@print\ndef f():\n    pass",
    "class A:\n    x = print(1)",
    "def f(x):\n    return x.numpy().tofile('a')",
    "def f(x):\n    return x.untyped_storage()",
    "def f(x):\n    yield x",
    "def f(x):\n    return (g for g in x).gi_frame",
    "async def f():\n    pass",
    "def f():\n    pass\nprint(1)",
    "print(1)",
    "def f(",
    "def f(x, __y=1):\n    pass",
]
CALLS = [
    "open('a')",
    "eval('1')",
    "exec('1')",
    "compile('1', '', 'eval')",
    "globals()",
    "vars()",
    "getattr(x, '__cla' + 'ss__')",
    "setattr(x, '__cla' + 'ss__', 1)",
    "type('A', (), {})",
    "torch.load('a')",
    "torch.save(x, 'a')",
    "torch.serialization",
    "torch.compat",
    "torch._C",
    "torch.jit.CompilationUnit('')",
    "torch.jit.load('a')",
    "torch.hub",
    "torch.utils",
    "torch.ops",
    "torch.UntypedStorage",
    "torch.nn.modules",
    "torch.nn.functional.sys",
    "math.sys",
    "warnings.sys",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_source_that_is_refused(source):
    with pytest.raises(RuntimeError):
        run(source, {})


@pytest.mark.parametrize("expression", CALLS)
def test_calls_that_lead_nowhere(expression):
    from flambeau.jit._restricted import Window

    names = {"torch": Window("flambeau"), "math": Window("math"), "warnings": Window("warnings")}
    with pytest.raises((RuntimeError, NameError, AttributeError, TypeError)):
        run(f"def f(x):\n    return {expression}", names)(fb.ones(1))


def archive_of(program):
    return {**Writer().archive(program), "files": {}, "files_are_bytes": {}}


def loaded(data):
    buffer = io.BytesIO()
    fb.save(data, buffer)
    buffer.seek(0)
    return fb.jit.load(buffer)


def graph_with(op, at):
    data = archive_of(fb.jit.trace(nn.Sequential(Small().layer, nn.ReLU()), fb.ones(2, 2)))
    graph = data["modules"][0]["graph"]
    graph[-1:-1] = [["shape", "call_method", "relu", [("node", len(graph) - 2)], {}]]
    step = next(node for node in graph if node[1] == op)
    for place, value in at.items():
        step[place] = value
    return data


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"format": FORMAT},
        {"format": FORMAT, "kind": "module", "root": ("module", 0), "modules": [], "units": []},
        {"format": FORMAT, "kind": "module", "root": ("module", -1), "modules": [{}], "units": []},
        {"format": FORMAT, "kind": "function", "root": ("object", "os.system"), "modules": [], "units": []},
        {
            "format": FORMAT,
            "kind": "function",
            "root": ("object", "flambeau.load"),
            "modules": [],
            "units": [],
        },
        {"format": FORMAT, "kind": "function", "root": ("window", "os"), "modules": [], "units": []},
        {
            "format": FORMAT,
            "kind": "module",
            "root": ("layer", "flambeau.nn.Linear"),
            "modules": [],
            "units": [],
        },
        {"format": FORMAT, "kind": "module", "root": ("layer", "os.path"), "modules": [], "units": []},
    ],
    ids=str,
)
def test_data_that_is_not_a_program(data):
    with pytest.raises(RuntimeError):
        loaded(data)


def test_a_graph_that_is_not_changed_loads():
    assert loaded(graph_with("output", {}))(fb.ones(1, 2)).shape == (1, 2)


@pytest.mark.parametrize(
    "op, at",
    [
        ("placeholder", {2: "x=print(1)"}),
        ("placeholder", {1: "root"}),
        ("placeholder", {0: "x, y=print(1)", 2: "x\n"}),
        ("call_module", {2: 'layer"); print(1); ("'}),
        ("call_module", {2: "layer.__class__"}),
        ("call_module", {2: "absent"}),
        ("call_method", {2: "__reduce__"}),
        ("call_method", {2: "numpy"}),
        ("call_method", {1: "call_function", 2: ("object", "builtins.eval")}),
        ("call_method", {1: "call_function", 2: ("object", "os.system")}),
        (
            "call_method",
            {1: "call_function", 2: ("object", "builtins.getattr"), 3: [("node", 0), ("plain", "__class__")]},
        ),
        ("call_method", {3: [("node", 99)]}),
        ("call_method", {3: [("node", 3)]}),
        ("call_method", {4: {"a=print(1), b": ("plain", 1)}}),
        ("output", {3: [("node", "0")]}),
    ],
)
def test_graphs_that_are_refused(op, at, capsys):
    with pytest.raises(RuntimeError):
        loaded(graph_with(op=op, at=at))
    assert capsys.readouterr().out == ""


def test_pickles_of_other_things():
    for thing in (nn.Linear(1, 1), print, {"format": nn.Linear(1, 1)}):
        buffer = io.BytesIO()
        fb.save(thing, buffer)
        buffer.seek(0)
        with pytest.raises(RuntimeError):
            fb.jit.load(buffer)
    with pytest.raises(RuntimeError):
        fb.jit.load(io.BytesIO(b""))


@pytest.mark.parametrize("traced", [False, True])
def test_damaged_files(traced):
    module = Small()
    program = fb.jit.trace(module, fb.ones(2, 2)) if traced else fb.jit.script(module)
    whole = program.save_to_buffer()
    chance = random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            fb.jit.load(
                io.BytesIO(bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])]))
            )
        except (RuntimeError, ValueError, OSError, EOFError):
            pass
