"""Graphs and code, side by side with PyTorch: the same nodes, and the same text except the package's name."""

import math
import operator
import re

from sides import Scenarios, raised

scenario = Scenarios()


def text(code):
    """Return generated code with the package named torch and operators by their public paths."""
    return re.sub(r"\bflambeau\b", "torch", code).strip()


def nodes(graph):
    named = lambda t: t if isinstance(t, str) else getattr(t, "__name__", repr(t))  # noqa: E731
    return [[n.op, n.name, named(n.target), len(n.users), sorted(n.kwargs)] for n in graph.nodes]


def traced(torch, program, **options):
    made = torch.fx.symbolic_trace(program, **options)
    made.graph.lint()
    return [nodes(made.graph), text(made.code), text(str(made.graph)), text(made.print_readable(False))]


def network(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.act = torch.nn.Linear(3, 4), torch.nn.ReLU()
            self.seq = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2))
            self.p = torch.nn.Parameter(torch.ones(4))
            self.register_buffer("b", torch.zeros(4))

        def forward(self, x: torch.Tensor, y=None, *, scale: float = 2.0):
            z = torch.relu(self.lin(x) + self.p * self.b).view(-1, 4)
            a, b = z.chunk(2, dim=1)
            z = z[:, None, 1:3, ...]
            v = 3 ** (abs(-z) // 2)
            k = torch.nn.functional.gelu(self.seq(z), approximate="tanh")
            d = {"a": a, "b": [b, None, torch.float32, slice(1, None), math.inf, torch.device("cpu"), (1,)]}
            return d, z.to(torch.float64), torch.cat([a, b], dim=1), v @ v > 1, ~k, math.sqrt(a.shape[0])

    return Net()


@scenario
def a_network(torch):
    return traced(torch, network(torch))


@scenario
def operators(torch):
    def program(x, y):
        z = x + y - x * y / 2 // 3 % 4
        z = (z @ y) << 1 >> 2
        z = (z & 1) | (z ^ 2)
        return (
            +z,
            -z,
            ~z,
            z == 1,
            z != 1,
            z < 1,
            z <= 1,
            z > 1,
            z >= 1,
            2 - z,
            2**z,
            z[0],
            z[1:, None],
            abs(z),
        )

    return traced(torch, program)


@scenario
def methods_attributes_and_functions(torch):
    functional = torch.nn.functional

    def program(x):
        y = functional.relu(x)
        y = functional.softmax(y, dim=-1)
        y = functional.linear(y, x)
        y = torch.sum(y, dim=0).add_(1)
        y = y.T.size(0) + y.shape[1]
        return x.device, y, x.foo(1, b=2)

    return traced(torch, program)


@scenario
def constants(torch):
    return traced(torch, lambda x: torch.ones(2) + x), traced(
        torch, lambda x: torch.stack([x, torch.ones(1)])
    )


@scenario
def signatures(torch):
    def program(a, b=(1, 2), *args, c=None, **kwargs):
        return a, b, args[0], c, kwargs["k"]

    return traced(torch, program)


@scenario
def fixed_arguments(torch):
    def choose(x, y, flag):
        return x + y if flag else x - y

    def tree(d, b):
        return {"r": d["a"] + d["b"][0] + b, "s": (b,)}

    hole = torch.fx.PH
    both = torch.fx.symbolic_trace(tree, concrete_args={"d": {"a": hole, "b": [hole, 3]}})
    flag = torch.fx.symbolic_trace(choose, concrete_args={"flag": True})
    one = torch.ones(1)
    without_message = lambda code: re.sub(r"'\w+ (is|has been) specialized .*?'", "''", text(code))  # noqa: E731
    return [
        without_message(both.code),
        without_message(flag.code),
        both({"a": one, "b": [one, 3]}, 2),
        raised("specialized to have value 3", both, {"a": one, "b": [one, 4]}, 2),
        raised("specialized to have value True", flag, one, one, False),
    ]


@scenario
def refusals(torch):
    def attempt(phrase, program):
        return raised(phrase, torch.fx.symbolic_trace, program)

    return [
        attempt("symbolically traced variables cannot", lambda x: x if x else 1),
        attempt("Proxy object cannot be iterated", lambda x: [i for i in x]),
        attempt("'len' is not supported", lambda x: len(x)),
        attempt("", lambda x: int(x)),
        attempt("", lambda x: range(x)),
        attempt("cannot contain a Node", lambda x: x.foo({x: 1})),
        attempt("argument of type", lambda x: x + object()),
        raised("wrap must be called", torch.fx.wrap, "name"),
        raised("Unsupported type", torch.fx.wrap, 3),
    ]


def by_hand(torch):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.placeholder("y", default_value=3)
    z = graph.call_function(operator.add, (x, y))
    r = graph.call_function(torch.relu, (z,))
    m = graph.call_method("view", (r, -1))
    c = graph.call_module("foo.0", (m,))
    p = graph.get_attr("w.x")
    graph.output((m, c, p))
    return graph, x, z


@scenario
def graphs_by_hand(torch):
    graph, x, z = by_hand(torch)
    return [
        text(graph.python_code("self").src),
        text(str(graph)),
        [text(n.format_node()) for n in graph.nodes],
        raised("1 users", graph.erase_node, z),
        raised("not in _legal_ops", graph.create_node, "foo", "x"),
        raised("a Callable is expected", graph.call_function, "str"),
        raised("a str is expected", graph.call_method, torch.relu),
        raised("was not provided in ``root``", torch.fx.GraphModule, {}, graph),
        raised("does not support mutation", graph.call_function(torch.cat, ([x],)).args[0].append, 1),
        [str(n) for n in graph.find_nodes(op="placeholder")],
        raised("target must not be None", lambda: graph.find_nodes(op="call_function")),
    ]


@scenario
def places_and_names(torch):
    graph, x, z = by_hand(torch)
    with graph.inserting_after(x):
        graph.call_function(torch.neg, (x,))
        graph.call_function(torch.exp, (x,))
    names = [
        "add",
        "add",
        "add_3",
        "add",
        "x",
        "x_1",
        "for",
        "sum",
        "torch",
        "inf",
        "1a",
        "a-b",
        "_",
        "fooBar",
    ]
    return [
        [str(n) for n in graph.nodes],
        [graph.create_node("call_function", operator.add, (x, 1), name=n).name for n in names],
        [x < z, z < x, len(graph.nodes), [str(n) for n in z.all_input_nodes], list(map(str, z.users))],
        nodes(graph),
    ]


@scenario
def patterns(torch):
    made = torch.fx.symbolic_trace(lambda x, w: torch.relu(torch.add(x, w)) + torch.relu(torch.add(w, x)))

    def pattern(a, b):
        return torch.relu(torch.add(a, b))

    found = torch.fx.replace_pattern(made, pattern, lambda a, b: torch.mul(a, b).neg())
    one = torch.ones(2)
    return len(found), text(made.code), made(one, one * 3)


@scenario
def interpreters(torch):
    class Swap(torch.fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.sub if target is torch.add else target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("exp" if target == "neg" else target, args, kwargs)

    made = torch.fx.symbolic_trace(lambda x, y: torch.add(x, y).neg())
    one = torch.ones(2)
    return text(Swap(made).transform().code), torch.fx.Interpreter(made).run(one, one)


@scenario
def wrapped_calls(torch):
    made = torch.fx.symbolic_trace(lambda x: math.floor(x.sum()) + math.sqrt(4))
    return traced(torch, made), made(torch.ones(3))


@scenario
def module_edits(torch):
    made = torch.fx.symbolic_trace(network(torch))
    added = made.add_submodule("a.b", torch.nn.ReLU())
    gone = [made.delete_submodule("a.b"), made.delete_submodule("zz")]
    made.delete_all_unused_submodules()
    return added, gone, [n for n, _ in made.named_modules()], type(made).__name__, list(made.state_dict())


@scenario
def scripted_and_traced(torch):
    def looped(x, n: int):
        for i in range(n):
            x = x + i if bool(x.sum() < 10) else x - 1
        return x

    import inspect

    assert inspect.getsource(looped)
    traced_by_example = torch.jit.trace(lambda x: (x + x).view(x.size(0), -1), torch.ones(2, 2, 2))
    return [
        torch.jit.script(looped)(torch.ones(2), 6),
        traced_by_example(torch.ones(3, 2, 2)),
        torch.jit.is_scripting(),
        torch.jit.is_tracing(),
        torch.jit.isinstance([1], list[int]) if hasattr(torch, "fft") else None,
        isinstance(torch.jit.trace(torch.nn.ReLU(), torch.ones(1)), torch.jit.ScriptModule),
        raised("eval", torch.jit.freeze, torch.jit.script(torch.nn.ReLU())),
    ]


test_as_in_pytorch = scenario.test()
