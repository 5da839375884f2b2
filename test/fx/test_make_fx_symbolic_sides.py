"""`make_fx` with symbolic sizes, side by side with PyTorch's: graphs compute what programs compute.

Each program has examples, sizes that the guards must admit, and sizes that they must refuse.
"""

import copy
from importlib import import_module

import flambeau as fb
import pytest

pytest.importorskip("sympy")


@pytest.fixture(params=["flambeau", "torch"])
def fw(request):
    return fb if request.param == "flambeau" else pytest.importorskip("torch")


def make_fx(fw, f, **options):
    proxy_tensor = import_module(f"{fw.__name__}.fx.experimental.proxy_tensor")
    return proxy_tensor.make_fx(f, tracing_mode="symbolic", _allow_non_fake_inputs=True, **options)


def placeholders(graph):
    return [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]


def admits(graph, *args):
    return graph.shape_env.evaluate_guards_for_args(placeholders(graph), args, ignore_static=False)


def flat(result):
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in flat(part)]
    return [result]


def assert_same(fw, got, expected):
    got, expected = flat(got), flat(expected)
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        if isinstance(b, fw.Tensor):
            assert a.shape == b.shape and a.dtype == b.dtype
            assert fw.allclose(a, b, atol=1e-5, equal_nan=True)
        else:
            assert a == b


def by_rows(fw, x):
    return x.view(x.shape[0], -1) * x.shape[1]


def branch(fw, x):
    return fw.cat([x, x]) if x.shape[0] > 3 else x - 1


def loop(fw, x):
    total = x
    for i in range(x.shape[0]):
        total = total + i
    return total


def while_loop(fw, x):
    while x.shape[0] > 4:
        x = x[::2]
    return x


def positions(fw, x):
    return fw.arange(x.shape[0]).unsqueeze(1) + x


def triangle(fw, x):
    mask = fw.ones(x.shape[0], x.shape[0], dtype=fw.bool).tril()
    return (x @ x.T).masked_fill(~mask, 0.0)


def attention(fw, q):
    b, h, n, d = q.shape
    scores = (q @ q.transpose(-1, -2)) / d**0.5
    return (scores.softmax(-1) @ q).transpose(1, 2).reshape(b, n, h * d)


def gradient(fw, x):
    x = x.detach().requires_grad_()
    y = (x.mean() * fw.softmax(x.reshape(-1), 0)).sum()
    return fw.autograd.grad(y, x)


def train_step(fw, x, w, b):
    w, b = (p.detach().requires_grad_() for p in (w, b))
    hidden = fw.tanh(fw.nn.functional.linear(x, w, b))
    loss = fw.nn.functional.cross_entropy(hidden, fw.arange(x.shape[0]) % 4)
    return [p - 0.1 * g for p, g in zip((w, b), fw.autograd.grad(loss, (w, b)), strict=True)]


def conv_gradient(fw, x, w):
    w = w.detach().requires_grad_()
    y = fw.nn.functional.max_pool2d(fw.nn.functional.conv2d(x, w, stride=2, padding=1).relu(), 2)
    return fw.autograd.grad(y.sum(), w)


def write_rows(fw, x):
    y = fw.zeros(x.shape[0] + 1, x.shape[1])
    y[1:] = x
    return y.add_(1).t()


def numbers(fw, x):
    return x.shape[0] * 2, x.shape[1] // 2, x.sum() * x.numel(), x.stride(0)


def windows(fw, x):
    return x.unfold(1, 3, 2)


def halves(fw, x):
    return x[: x.shape[0] // 2], x[x.shape[0] // 2 :], x[1:-1]


PROGRAMS = {
    "view": (by_rows, [(3, 4, 5)], [[(5, 7, 2)], [(2, 2, 9)]], []),
    "branch": (branch, [(5, 4)], [[(4, 9)], [(50, 2)]], [[(3, 4)], [(2, 2)]]),
    "other branch": (branch, [(3, 4)], [[(2, 9)]], [[(5, 4)]]),
    "loop": (loop, [(3, 4)], [[(3, 9)]], [[(4, 4)]]),
    "while": (while_loop, [(10, 3)], [], [[(4, 3)], [(40, 3)]]),
    "arange": (positions, [(3, 4)], [[(7, 2)]], []),
    "mask": (triangle, [(5, 4)], [[(9, 3)], [(2, 7)]], []),
    "attention": (attention, [(2, 3, 5, 4)], [[(3, 2, 9, 16)]], []),
    "broadcast": (lambda fw, x, y: x * y + 1, [(3, 4), (3, 1)], [[(5, 7), (5, 1)]], [[(5, 7), (5, 7)]]),
    "equal sizes": (lambda fw, x, y: x + y, [(3, 4), (3, 4)], [[(5, 7), (5, 7)]], [[(3, 4), (4, 3)]]),
    "product": (lambda fw, x, y: x @ y, [(2, 3), (3, 5)], [[(7, 4), (4, 9)]], [[(2, 3), (4, 5)]]),
    "einsum": (
        lambda fw, x, y: fw.einsum("bij,bjk->bik", x, y),
        [(2, 3, 4), (2, 4, 5)],
        [[(6, 7, 5), (6, 5, 3)]],
        [],
    ),
    "cat": (lambda fw, x, y: fw.cat([x, y], 1).sum(0), [(3, 4), (3, 5)], [[(2, 7), (2, 9)]], []),
    "divisible": (lambda fw, x: x.view(-1, 4), [(3, 8)], [[(5, 12)]], [[(3, 7)]]),
    "gradient": (gradient, [(3, 4)], [[(6, 5)]], []),
    "training": (train_step, [(3, 8), (4, 8), (4,)], [[(9, 8), (4, 8), (4,)]], []),
    "convolution": (conv_gradient, [(2, 3, 20, 22), (4, 3, 3, 3)], [[(5, 3, 17, 31), (4, 3, 3, 3)]], []),
    "writes": (write_rows, [(5, 8)], [[(9, 16)]], []),
    "numbers": (numbers, [(5, 8)], [[(9, 16)], [(4, 7)]], []),
    "windows": (windows, [(2, 7)], [[(4, 9)], [(3, 8)]], [[(2, 2)]]),
    "slices": (halves, [(6, 8)], [[(9, 3)], [(5, 2)]], []),
    "statistics": (lambda fw, x: (x.var(), x.std(0), x.norm()), [(5, 8)], [[(9, 16)]], []),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_compute_for_other_sizes(fw, name):
    program, example, admitted, refused = PROGRAMS[name]

    def f(*args):
        return program(fw, *args)

    fw.manual_seed(0)
    graph = make_fx(fw, f)(*[fw.randn(size) for size in example])
    for sizes in (example, *admitted):
        args = [fw.randn(size) for size in sizes]
        assert admits(graph, *args), f"{sizes}: {[str(g.expr) for g in graph.shape_env.guards]}"
        assert_same(fw, graph(*args), f(*args))
    for sizes in refused:
        assert not admits(graph, *[fw.randn(size) for size in sizes]), sizes


def models(fw):
    nn = fw.nn
    images = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 4, 3, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
    )
    heads = nn.MultiheadAttention(8, 2, batch_first=True)
    return {
        "mlp": (
            nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)),
            (3, 8),
            (7, 8),
        ),
        "attention": (lambda x: heads(x, x, x, need_weights=False)[0], (2, 5, 8), (3, 9, 8)),
        "encoder": (
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).train(),
            (2, 5, 8),
            (3, 9, 8),
        ),
        "images": (images.eval(), (2, 3, 20, 22), (4, 3, 17, 31)),
    }


@pytest.mark.parametrize("name", ["mlp", "attention", "encoder", "images"])
def test_modules(fw, name):
    model, example, other = models(fw)[name]
    graph = make_fx(fw, lambda x: model(x))(fw.randn(example))
    for size in (example, other):
        x = fw.randn(size)
        assert admits(graph, x)
        assert_same(fw, graph(x), model(x))


def test_sizes_are_nodes(fw):
    graph = make_fx(fw, lambda x: x.view(x.shape[0], -1))(fw.ones(3, 4, 5))
    nodes = [n for n in graph.graph.nodes if n.op == "call_function"]
    assert [n.target for n in nodes] == [fw.ops.aten.sym_size.int, fw.ops.aten.view.default]
    assert nodes[0].args[1] == 0 and nodes[1].args[1] == [nodes[0], -1]
    assert isinstance(nodes[0].meta["val"], fw.SymInt)
    value = nodes[1].meta["val"]
    assert [str(n) for n in placeholders(graph)[0].shape] == [
        str(value.shape[0]),
        *[str(n) for n in placeholders(graph)[0].shape[1:]],
    ]
    assert value.shape[1].node.hint == 20


def test_a_branch_records_its_condition(fw):
    graph = make_fx(fw, lambda x: branch(fw, x))(fw.ones(5, 4))
    assert len(graph.shape_env.guards) == 1
    (symbol,) = graph.shape_env.guards[0].expr.free_symbols
    assert str(graph.shape_env.guards[0].expr) == f"{symbol} > 3"


def test_programs_without_conditions_have_no_guard(fw):
    for name in ("view", "arange", "mask", "gradient", "writes", "statistics", "cat"):
        program, example, *_ = PROGRAMS[name]
        graph = make_fx(fw, lambda *args, program=program: program(fw, *args))(*[fw.ones(s) for s in example])
        assert graph.shape_env.guards == [], name


def test_integers_are_arguments(fw):
    graph = make_fx(fw, lambda x, n: x * n + n // 2)(fw.ones(2, 3), 7)
    x = fw.randn(5, 4)
    assert_same(fw, graph(x, 9), x * 9 + 4)


def test_an_integer_that_is_a_dimension_becomes_a_constant():
    for d in (-1, 0, 1):
        graph = make_fx(fb, lambda x, d: x.sum(d))(fb.ones(2, 3, 4), d)
        for other in (-2, -1, 0, 1, 2):
            if other != d and (d, other) != (-1, 2):
                assert not admits(graph, fb.ones(2, 3, 4), other), (d, other)
        assert_same(fb, graph(fb.ones(3, 5, 6), d), fb.ones(3, 5, 6).sum(d))


def test_copies_of_graphs_keep_the_environment(fw):
    graph = make_fx(fw, lambda x: x.view(-1) + x.shape[0])(fw.ones(3, 4))
    x = fw.randn(5, 6)
    assert_same(fw, copy.deepcopy(graph)(x), x.view(-1) + 5)


def test_containers(fw):
    graph = make_fx(fw, lambda d: {"sum": d["a"] + d["b"][0]})({"a": fw.ones(3, 4), "b": [fw.ones(4)]})
    given = {"a": fw.randn(5, 6), "b": [fw.randn(6)]}
    assert_same(fw, graph(given)["sum"], given["a"] + given["b"][0])


def test_sizes_that_depend_on_elements(fw):
    graph = make_fx(fw, lambda x: (x[x > 0] * 2, x.nonzero(), x.masked_select(x > 1)))(fw.randn(3, 4))
    x = fw.randn(6, 5)
    assert_same(fw, graph(x), (x[x > 0] * 2, x.nonzero(), x.masked_select(x > 1)))
    sizes = [str(n.meta["val"].shape[0]) for n in graph.graph.nodes if "nonzero" in n.name]
    assert all(size.startswith("u") for size in sizes)


def test_numbers_that_depend_on_elements(fw):
    graph = make_fx(fw, lambda x: x * x.sum().item())(fw.randn(3, 4))
    x = fw.randn(6, 5)
    assert_same(fw, graph(x), x * x.sum().item())


def test_branches_on_elements_are_refused(fw):
    errors = import_module(f"{fw.__name__}.fx.experimental.symbolic_shapes")
    with pytest.raises(errors.GuardOnDataDependentSymNode):
        make_fx(fw, lambda x: x + 1 if x.sum() > 0 else x)(fw.randn(3))


def test_transforms(fw):
    def loss(w, x):
        return (x @ w).sin().sum()

    graph = make_fx(fw, lambda w, x: fw.func.grad(loss)(w, x))(fw.randn(4, 2), fw.randn(3, 4))
    w, x = fw.randn(5, 3), fw.randn(7, 5)
    assert_same(fw, graph(w, x), fw.func.grad(loss)(w, x))
    rows = fw.vmap(lambda a: a.softmax(0).cumsum(0))
    graph = make_fx(fw, lambda x: rows(x))(fw.randn(3, 4))
    assert_same(fw, graph(x), rows(x))


def test_custom_gradients(fw):
    class Double(fw.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 + ctx.saved_tensors[0].shape[0]

    def f(x):
        x = x.detach().requires_grad_()
        return fw.autograd.grad(Double.apply(x).sum(), x)[0]

    graph = make_fx(fw, f)(fw.randn(3, 4))
    x = fw.randn(6, 5)
    assert_same(fw, graph(x), f(x))


def test_optimizers_count_their_steps():
    def f(x):
        p = x.detach().clone().requires_grad_()
        optimizer = fb.optim.Adam([p], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (p * p * x).sum().backward()
            optimizer.step()
        return p.detach()

    graph = make_fx(fb, f)(fb.randn(3, 4))
    x = fb.randn(5, 2)
    assert_same(fb, graph(x), f(x))


def test_checkpoints(fw):
    from_utils = import_module(f"{fw.__name__}.utils.checkpoint")

    def f(x):
        x = x.detach().requires_grad_()
        y = from_utils.checkpoint(lambda a: (a.sin() @ a.T).sum(), x, use_reentrant=False)
        return fw.autograd.grad(y, x)[0]

    graph = make_fx(fw, f)(fw.randn(3, 4))
    x = fw.randn(6, 5)
    assert_same(fw, graph(x), f(x))


def test_running_statistics():
    norm = fb.nn.BatchNorm1d(4)
    graph = make_fx(fb, lambda x: norm(x))(fb.randn(3, 4))
    other = copy.deepcopy(norm)
    x = fb.randn(7, 4)
    assert_same(fb, graph(x), other(x))
    assert_same(fb, list(norm.buffers()), list(other.buffers()))


def test_control_flow_on_elements_is_refused():
    def branches(x):
        return fb.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))

    def loops(x):
        loop = import_module("flambeau._higher_order_ops").while_loop
        return loop(lambda a: a.sum() < 9, lambda a: (a + 1,), (x,))

    for program in (branches, loops):
        with pytest.raises(RuntimeError, match=r"data-dependent|elements"):
            make_fx(fb, program)(fb.ones(2, 3))


def test_what_is_refused():
    weight = fb.nn.Linear(4, 2)
    proxy_tensor = import_module("flambeau.fx.experimental.proxy_tensor")
    with pytest.raises(AssertionError, match="allow_non_fake_inputs"):
        proxy_tensor.make_fx(weight, tracing_mode="symbolic")(fb.ones(3, 4))
    with pytest.raises(RuntimeError, match="shape"):
        make_fx(fb, lambda x: x @ x)(fb.ones(3, 4))
    with pytest.raises(RuntimeError, match="backward: expected"):  # a gradient has no place for each lane
        make_fx(fb, lambda x: weight(x).sum().backward())(fb.ones(3, 4))


def test_decompositions(fw):
    table = {fw.ops.aten.silu.default: lambda x: x * fw.sigmoid(x)}
    graph = make_fx(fw, lambda x: fw.nn.functional.silu(x), decomposition_table=table)(fw.randn(3, 4))
    assert "silu" not in graph.code and "sigmoid" in graph.code
    x = fw.randn(7, 2)
    assert_same(fw, graph(x), fw.nn.functional.silu(x))
