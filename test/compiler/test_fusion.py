"""The default backend: compiled programs and their gradients against the same programs uncompiled."""

import copy

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from captured import program
from flambeau._dynamo.utils import counters
from flambeau.compiler import backend
from flambeau.compiler.passes import fusion
from random_programs import random_program

nn = fb.nn


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Fuse groups of any size, so that tests can use small tensors."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    counters["fusion"].clear()


def copies(values):
    return [
        v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, fb.Tensor) else v for v in values
    ]


def gradients(result, inputs):
    """Return gradients of all tensors, with different weights, with respect to the inputs."""
    total = sum((r * fb.arange(r.numel()).view_as(r).cos()).sum() for r in result if r.requires_grad)
    leaves = [v for v in inputs if isinstance(v, fb.Tensor) and v.requires_grad]
    return (
        fb.autograd.grad(total, leaves, allow_unused=True) if leaves and isinstance(total, fb.Tensor) else ()
    )


def check(function, *inputs, groups=None, calls=2):
    """Compare results bit for bit and gradients within a tolerance; return how many groups were made."""
    compiled = fb.compile(function)
    for seed in range(calls):
        ours, theirs = copies(inputs), copies(inputs)
        fb.manual_seed(seed)
        expected = function(*theirs)
        fb.manual_seed(seed)
        got = compiled(*ours)
        one, two = ([r] if isinstance(r, fb.Tensor) else list(r) for r in (got, expected))
        assert len(one) == len(two)
        for x, y in zip(one, two, strict=True):
            assert x.dtype == y.dtype and x.stride() == y.stride() and x.requires_grad == y.requires_grad
            assert fb.equal(fb.nan_to_num(x.detach()), fb.nan_to_num(y.detach()))
        for x, y in zip(gradients(one, ours), gradients(two, theirs), strict=True):
            assert (x is None) == (y is None)
            assert x is None or fb.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True)
        for x, y in zip(ours, theirs, strict=True):  # the program may have written to inputs
            assert not isinstance(x, fb.Tensor) or fb.equal(x.detach(), y.detach())
    made = counters["fusion"]["groups"]
    assert groups is None or made == groups, dict(counters["fusion"])
    return made


def t(*sizes, grad=True):
    return fb.randn(sizes).requires_grad_(grad)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    fb.manual_seed(seed)
    grad = seed % 3 != 0
    check(random_program(seed), t(6, 8, grad=grad), t(6, 8, grad=seed % 2 == 0), t(8, grad=grad))


CASES = {
    "chain": (lambda x: ((x * 2 + 1).sigmoid() * x).tanh(), (t(3, 5),), 2),
    "without gradients": (lambda x: ((x * 2 + 1).sigmoid() * x).tanh(), (t(3, 5, grad=False),), 1),
    "layer": (lambda x, w, b: F.gelu(x @ w + b) * x, (t(4, 6), t(6, 6), t(6)), None),
    "dropout": (lambda x: F.dropout(F.relu(x * 2), 0.3) * 2 + 1, (t(30, 4),), None),
    "softmax": (lambda x: (F.softmax(x * 0.5 + 1, -1) * x).sum(-1), (t(4, 6),), None),
    "cross entropy": (lambda x: F.cross_entropy(x * 2 + 1, fb.arange(4)), (t(4, 6),), None),
    "autocast": (lambda x: autocast_part(x) * 2 + 1, (t(4, 4),), None),
    "no_grad inside": (lambda x: no_grad_part(x) * x, (t(4),), None),
    "factories": (lambda x: x * fb.ones(4) + fb.arange(4) * 2.0, (t(4),), None),
    "two groups around a sum": (lambda x: (x * 2 + 1) / (x * x + 1).sum(), (t(5),), None),
    "a number of another dtype": (lambda x: x.long() * 2 + x * 1.5, (t(5, grad=False),), None),
    "integers": (lambda x: (x.long() // 3 + 2) ** 2 % 7, (t(5, grad=False),), 1),
    "complex": (lambda x: (fb.complex(x, x * 2) * 1j + 2).abs() * 2, (t(5, grad=False),), None),
    "channels last": (lambda x: (nhwc(x) * 2 + 1).relu(), (t(2, 3, 4, 4),), None),
    "transposed": (lambda x: (x.t() * 2 + x.t()).relu(), (t(3, 4),), None),
    "empty": (lambda x: (x * 2 + 1).relu(), (t(0, 4),), 0),
    "0-dim": (lambda x: (x * 2 + 1).relu(), (t(),), None),
    "one value twice": (lambda x: (x * x + x, x * x - x), (t(4),), None),
}  # fmt: skip


def nhwc(x):
    return x.to(memory_format=fb.channels_last)


def autocast_part(x):
    with fb.autocast("cpu", dtype=fb.bfloat16):
        return (x @ x * 2).float()


def no_grad_part(x):
    with fb.no_grad():
        return (x * 2 + 1).relu()


@pytest.mark.parametrize("name", CASES)
def test_programs(name):
    function, inputs, groups = CASES[name]
    fb.manual_seed(0)
    check(function, *inputs, groups=groups)


def test_writes_to_inputs_and_buffers():
    def write(x, y):
        x.mul_(2).add_(y)
        z = (x + 1) * 2
        x[0] = 5
        return z, (x * 3 + 1).relu()

    check(write, t(4, grad=False), t(4, grad=False))
    norm = nn.BatchNorm1d(4)
    twin = copy.deepcopy(norm)
    compiled = fb.compile(lambda x: F.relu(twin(x) * 2) + 1)
    x = fb.randn(8, 4)
    for _ in range(3):
        assert fb.equal(compiled(x), F.relu(norm(x) * 2) + 1)
        assert all(fb.equal(a, b) for a, b in zip(norm.buffers(), twin.buffers(), strict=True))
    assert counters["fusion"]["groups"] > 0


def test_views_of_inputs_and_of_results_keep_their_memory():
    def views(x):
        y = x * 2 + 1
        return y, y.view(-1)[1:], x.t()

    compiled = fb.compile(views)
    x = fb.ones(2, 2)
    for _ in range(2):
        y, part, turned = compiled(x)
        part.fill_(7)
        turned[0, 1] = 3
        assert y.flatten()[1:].tolist() == [7, 7, 7] and x[1, 0] == 3
        x.fill_(1)


def test_equal_results_have_separate_memory():
    def f(x):
        a, b = x.clone(), x.clone()
        c, d = x * 2 + 1, x * 2 + 1
        return a, b, c, d, c.view(-1), d.view(-1)

    compiled = fb.compile(f)
    x = fb.ones(2, 2)
    for made in (compiled(x), compiled(x), f(x)):
        for i, tensor in enumerate(made[:4]):
            tensor.fill_(i + 10)
        assert [t.flatten()[0].item() for t in made] == [10, 11, 12, 13, 12, 13] and x.sum() == 4


def test_a_write_between_two_aliases_is_seen():
    def f(x, y):
        z = x * 2 + 1
        y.add_(10)
        return z + x * 2 + 1

    x = fb.zeros(4)
    compiled, base, other = fb.compile(f), fb.zeros(4), fb.zeros(4)
    assert fb.equal(compiled(fb.zeros(4), fb.zeros(4)), f(fb.zeros(4), fb.zeros(4)))
    assert fb.equal(compiled(base, base[:]), f(other, other[:])) and fb.equal(base, other)
    assert fb.equal(x, fb.zeros(4))


def test_training_gives_the_same_values():
    fb.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 3))
    twin = copy.deepcopy(model)
    x, target = fb.randn(16, 6), fb.randint(0, 3, (16,))
    step = fb.compile(lambda x, target: F.cross_entropy(twin(x) * 2 + 1, target))
    for one, loss in ((model, lambda x, y: F.cross_entropy(model(x) * 2 + 1, y)), (twin, step)):
        optimizer = fb.optim.AdamW(one.parameters(), lr=0.01)
        fb.manual_seed(1)
        for _ in range(5):
            optimizer.zero_grad()
            loss(x, target).backward()
            optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert fb.allclose(a, b, rtol=1e-5, atol=1e-6)
    assert counters["fusion"]["groups"] > 0


def test_another_size_gives_its_own_result():
    compiled = fb.compile(lambda x: (x * 2 + 1).relu())
    for n in (3, 5, 3, 7):
        assert compiled(fb.arange(n) * 1.0).tolist() == [i * 2 + 1 for i in range(n)]


def test_a_second_derivative_through_compiled_code_is_an_error():
    x = t(3)
    compiled = fb.compile(lambda x: (x * x + 1).sin())
    compiled(x)
    y = compiled(x)
    (first,) = fb.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        fb.autograd.grad(first.sum(), x)


def test_hooks_and_unused_gradients():
    seen = []

    def f(x, y):
        return (x * 2 + 1).relu(), y.detach() * 2 + 1

    x, y = t(3), t(3)
    x.register_hook(lambda g: seen.append(g.clone()))
    one, two = fb.compile(f)(x, y)
    assert one.requires_grad and not two.requires_grad
    one.sum().backward()
    assert len(seen) == 1 and y.grad is None and fb.equal(seen[0], x.grad)


def test_division_by_zero_raises_the_plain_error():
    compiled = fb.compile(lambda x: (x + 1) // x * 2)
    assert compiled(fb.tensor([1, 2])).tolist() == [4, 2]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(fb.tensor([1, 0]))
    assert compiled(fb.tensor([1, 2])).tolist() == [4, 2]


def test_a_function_without_groups_runs_uncompiled():
    calls = []

    def f(x):
        calls.append(1)
        return x @ x

    compiled = fb.compile(f)
    x = fb.eye(3)
    assert fb.equal(compiled(x), x) and fb.equal(compiled(x), x) and len(calls) == 2
    assert program(compiled).is_plain


def six_times(x):
    return x * 2 * 3


def test_other_inputs_run_as_captured():
    class Own(fb.Tensor):
        pass

    dense = fb.ones(3)
    for x in (dense.to_sparse(), fb.complex(dense, dense).conj(), dense.as_subclass(Own)):
        assert type(fb.compile(six_times)(x)) is type(x)
        assert fb.equal(fb.compile(six_times)(x).to_dense(), six_times(x).to_dense())


def test_reasons_are_counted():
    fb.compile(lambda x: x.view(-1))(t(2, 2))
    assert sum(counters["fusion"].values()) > 0
    assert backend.GAIN == "gain"


# --- FLAMBEAU_VERIFY ------------------------------------------------------------------------------------


def test_verification_changes_no_result(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_VERIFY", "1")
    check(lambda x, y: F.dropout(x.sin() * 2 + y, 0.5) * y, t(4, 5), t(5))

    def write(x, y):
        y.add_(x)
        return (x * 2 + y).relu(), x

    check(write, t(4, grad=False), t(4, grad=False))


def wrong(graph, inputs, change):
    return lambda *given: change(graph.forward(*given), given)


CHANGES = {
    "result 0": lambda out, given: (out[0] + 1, *out[1:]),
    "result 1": lambda out, given: (out[0], out[1] + 1),
    "like": lambda out, given: (out[0].double(), *out[1:]),
    "input 0": lambda out, given: given[0].add_(1) is None or out,
    "random numbers": lambda out, given: fb.rand(1) is None or out,
}


@pytest.mark.parametrize("what", CHANGES)
def test_differences_are_reported(what, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_VERIFY", "1")
    compiled = fb.compile(
        lambda x: (x * 2, x.long()), backend=lambda graph, inputs: wrong(graph, inputs, CHANGES[what])
    )
    x = fb.ones(3)
    compiled(x)  # recorded
    with pytest.raises(RuntimeError, match=f"compile: expected .*{what}"):
        compiled(x)


def test_exceptions_of_the_program_propagate(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_VERIFY", "1")
    compiled = fb.compile(lambda x: (x + 1) // x * 2)
    compiled(fb.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(fb.tensor([1, 0]))


# --- memory orders and storage offsets ------------------------------------------------------------------

GRADIENTS = {
    "expanded": lambda y: fb.ones(1, 1).expand(y.size()),
    "transposed": lambda y: fb.arange(24.0).view(y.size(1), y.size(0)).t(),
    "stepped": lambda y: fb.arange(96.0).view(2 * y.size(0), 2 * y.size(1))[::2, ::2],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_in_any_memory_order(name):
    def f(x):
        return ((x * 2 + 1).sin()).view(8, 3)

    compiled, x = fb.compile(f), fb.randn(4, 6)
    expected = []
    for function in (f, compiled, compiled):
        leaf = x.clone().requires_grad_()
        y = function(leaf)
        y.backward(GRADIENTS[name](y))
        expected.append(leaf.grad)
    assert fb.allclose(expected[1], expected[0]) and fb.allclose(expected[2], expected[0])


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_the_storage_offset_is_read_at_each_call(backend):
    base = fb.arange(20.0)

    def f(x):
        return x.as_strided((3,), (1,), x.storage_offset() + 2) * 2 + 1

    def g(x):
        return x.as_strided((3,), (1,), 2) * 2 + 1

    def h(x):
        return (x * 2 + 1).as_strided((2,), (1,), 3) + x[1:3]

    for function in (f, g, h):
        compiled = fb.compile(function, backend=backend)
        for start in (0, 0, 5, 5, 9):
            x = base[start : start + 6]
            assert fb.equal(compiled(x), function(x))


def test_forward_mode_runs_the_function_uncompiled():
    from flambeau.autograd import forward_ad

    def f(x):
        return (x * 2 + 1).sin()

    compiled, x = fb.compile(f), fb.arange(4.0)
    for _ in range(3):
        with forward_ad.dual_level():
            found = forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, fb.ones(4))))
            assert fb.allclose(found.tangent, 2 * (x * 2 + 1).cos())
        assert fb.equal(compiled(x), f(x))


def test_gradients_of_weights_are_row_major_products():
    from flambeau.compiler.passes.products import transpose_products
    from flambeau.fx.experimental.proxy_tensor import make_fx

    def gradient(x, y):
        return (x.t() @ y).t() + 1, (x @ x.t()).t()

    x, y = fb.randn(4, 3), fb.randn(4, 5)
    graph = make_fx(gradient)(x, y)
    for node in graph.graph.nodes:
        node.meta["val"] = fb.empty(y.t().size() if node.name == "mm" else (4, 4), device="meta")
    expected = graph(x, y)
    transpose_products(graph.graph)
    graph.recompile()
    found = graph(x, y)
    assert all(map(fb.allclose, found, expected)) and found[1].is_contiguous()

    linear = nn.Linear(3, 5)
    compiled = fb.compile(lambda x: (linear(x) * 2 + 1).sin().sum())
    for _ in range(2):
        linear.zero_grad()
        compiled(x).backward()
    weight = linear.weight.grad.clone()
    linear.zero_grad()
    (linear(x) * 2 + 1).sin().sum().backward()
    assert fb.allclose(weight, linear.weight.grad) and weight.is_contiguous()
