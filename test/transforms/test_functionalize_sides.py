"""functionalize against eager execution and PyTorch: values, effects, and what a mode sees."""

import random
import threading

import flambeau as fb
import pytest
from flambeau.utils._python_dispatch import TorchDispatchMode
from oracle import pytorch
from sides import Scenarios, raised
from view_walk import walk

scenario = Scenarios()
REMOVE = ("mutations", "mutations_and_views")


class Log(TorchDispatchMode):
    """Records the operators below functionalisation, and which of them write."""

    def __init__(self):
        super().__init__()
        self.names, self.writing = [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func).removeprefix("aten."))
        if func._schema.is_mutable:
            self.writing.append(str(func))
        return func(*args, **(kwargs or {}))


def is_equal(found, expected):
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(is_equal, found, expected))
    if isinstance(found, fb.Tensor):
        elements = expected.flatten().tolist()
        return found.shape == expected.shape and found.flatten().tolist() == pytest.approx(
            elements, nan_ok=True
        )
    return found == expected


def start(torch, shape):
    return (torch.arange(1.0, 25, dtype=torch.float64) / 8).reshape(shape)


@pytest.mark.parametrize("remove", REMOVE)
@pytest.mark.parametrize("seed", random.Random(14).sample(range(10**6), 60))
def test_random_writes_through_views(seed, remove):
    print(f"seed {seed}, remove {remove}")
    shape = random.Random(seed).choice([(24,), (4, 6), (2, 3, 4), (2, 2, 2, 3)])
    x, same = start(fb, shape), start(fb, shape)
    expected = walk(fb, seed, x)
    log = Log()
    with log:
        found = fb.func.functionalize(lambda t: walk(fb, seed, t), remove=remove)(same)
    assert is_equal(found, expected)
    assert is_equal(same, x)
    assert set(log.writing) <= {"aten.copy_.default", "aten.as_strided_.default"}, log.writing
    assert (same.shape, same.stride()) == (x.shape, x.stride())
    assert len(log.writing) <= 2
    torch = pytorch()
    theirs = start(torch, shape)
    assert is_equal(found, walk(torch, seed, theirs))
    assert is_equal(same, theirs)


def below(f, *args, remove="mutations"):
    """The operators that a mode sees below the functionalised function, without the copies back."""
    log = Log()
    layer_free = fb.func.functionalize(f, remove=remove)
    with log:
        layer_free(*args)
    return log


def test_a_mode_sees_no_operator_that_writes():
    def f(x):
        y = fb.zeros(3, 4)
        y[0].add_(x)
        y.t().mul_(2)
        fb.add(y, 1, out=y)
        y.uniform_()
        y[:, 1] = 5
        fb.nn.functional.dropout(y, inplace=True)
        return y.scatter_(0, fb.tensor([[0, 1, 2, 0]]), 3.0)

    for remove in REMOVE:
        log = below(f, fb.ones(4), remove=remove)
        assert log.writing == []
        assert log.names


def test_no_view_is_left_where_views_are_removed():
    def f(x):
        y = x.view(2, 2)
        y.transpose(0, 1)[0].add_(1)
        return y.unsqueeze(0).split(1, 1)[1]

    names = below(f, fb.ones(4), remove="mutations_and_views").names
    bases = {name.partition(".")[0] for name in names}
    assert not bases & {"view", "transpose", "select", "unsqueeze", "split", "as_strided", "add_"}
    assert {"view_copy", "transpose_copy", "select_copy"} <= bases


@scenario
def effects_on_arguments(torch):
    def f(a, b):
        a.t_()
        a[0].mul_(b)
        b += 1
        return a, a.sum(), b.view(1, -1)

    found = []
    for remove in REMOVE:
        a, b = torch.arange(4.0).view(2, 2), torch.ones(2)
        found += [torch.func.functionalize(f, remove=remove)(a, b)[1:], b]
    return found


@scenario
def dtypes_and_sizes(torch):
    def casts(x):
        y = torch.zeros(3, dtype=torch.int32)
        y.copy_(x)
        y.add_(torch.ones(3, dtype=torch.int64))
        mask = x.clone()
        mask.gt_(1)
        return y, mask, torch.add(y, 1, out=torch.empty(0))

    def grown(x):
        out = torch.empty(0)
        torch.mul(x, 2, out=out)
        return out, torch.max(x.view(1, 3), 1, out=(torch.empty(0), torch.empty(0, dtype=torch.int64)))

    x = torch.tensor([0.5, 1.5, 2.5])
    g = torch.func.functionalize
    return [g(casts)(x), [list(t) if isinstance(t, tuple) else t for t in g(grown)(x)]]


@scenario
def numbers_of_other_kinds(torch):
    def f(x):
        z = torch.view_as_complex(x)
        z.mul_(1j)
        z.real.add_(1)
        z.imag[0] = 7
        z.conj().add_(2j)
        torch.view_as_real(z)[1].mul_(3)
        return z, x, z.conj(), x.view(torch.int32)

    x = torch.arange(8.0).view(4, 2)
    found = []
    for remove in REMOVE:
        y = x.clone()
        z, inner, conj, bits = torch.func.functionalize(f, remove=remove)(y)
        found += [torch.view_as_real(z), inner, torch.view_as_real(conj.resolve_conj()), bits, y]
    return found


@scenario
def errors(torch):
    g = torch.func.functionalize
    x = torch.ones(2, 3)
    captured = torch.zeros(3)
    return [
        raised("", g(lambda t: t.add_(torch.ones(2, 2, 3))), x),
        raised("", g(lambda t: t.int().add_(1.5)), x),
        raised("", g(lambda t: t.view(5)), x),
        raised("", g(lambda t: t.index_add_(0, torch.tensor([5]), t[:1])), x),
        raised("", g(lambda t: captured.add_(t[0])), x),
        raised("remove", g, torch.sin, remove="views"),
        x,
    ]


@scenario
def a_network_in_training(torch):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.ReLU(inplace=True), torch.nn.Linear(3, 2))
    state = {k: torch.ones_like(v) for k, v in net.state_dict().items()}
    net.double()
    state = {k: v.double() if v.is_floating_point() else v for k, v in state.items()}
    x = torch.arange(12.0, dtype=torch.float64).view(4, 3).cos()
    f = torch.func.functionalize(lambda s, t: torch.func.functional_call(net, s, (t,)))
    return [t.double().round(decimals=9) for t in [f(state, x), *state.values()]]


@scenario
def other_transforms(torch):
    func = torch.func

    def f(x):
        y = x.clone()
        y[0].mul_(3)
        y.view(-1)[1:].add_(x.reshape(-1)[1:] ** 2)
        return y

    def loss(x):
        return f(x).sin().sum()

    x = torch.linspace(0.1, 1.2, 6, dtype=torch.float64).view(2, 3)
    batch = torch.stack([x, x + 1, x - 1])
    g = func.functionalize
    results = [
        func.grad(g(loss))(x),
        g(func.grad(loss))(x),
        func.vmap(f)(batch),
        g(func.vmap(f))(batch),
        g(func.jacrev(f))(x),
        func.jvp(g(f), (x,), (x,))[1],
    ]
    leaf = x.clone().requires_grad_()
    g(loss)(leaf).backward()
    return [r.round(decimals=9) for r in [*results, leaf.grad]]


@scenario
def functional_tensors_outside_of_transforms(torch):
    x = torch.zeros(4)
    inside = torch._to_functional_tensor(x)
    row = inside.view(2, 2)[1]
    row.add_(1)
    torch._sync(inside)
    found = [torch._is_functional_tensor(inside), torch._is_functional_tensor(x), x]
    return [*found, torch._from_functional_tensor(inside), torch._from_functional_tensor(row)]


def test_enabled_functionalization_makes_new_tensors_functional():
    fb._enable_functionalization(reapply_views=True)
    try:
        x = fb.zeros(3)
        assert fb._is_functional_tensor(x)
        with pytest.raises(RuntimeError, match="off"):
            fb._enable_functionalization()
        x[1:].add_(2)
    finally:
        fb._disable_functionalization()
    assert fb._from_functional_tensor(x).tolist() == [0, 2, 2]
    assert not fb._is_functional_tensor(fb.zeros(3))


@pytest.mark.filterwarnings("ignore:.*once per entry")
def test_a_batch_below_functionalisation():
    def f(x):
        y = x.clone()
        y[0].mul_(3)
        y.t()[1:].add_(x.t()[1:] ** 2)
        return y

    batch = fb.arange(18.0).view(3, 2, 3)
    for remove in REMOVE:
        found = fb.vmap(fb.func.functionalize(f, remove=remove))(batch)
        assert is_equal(found, fb.stack([f(x) for x in batch]))


def test_functionalize_nests():
    def f(x):
        x[0].mul_(2)
        return x.view(-1)

    g = fb.func.functionalize
    x, y = fb.ones(2, 2), fb.ones(2, 2)
    assert is_equal([g(g(f))(x), x], [f(y), y])


def test_elements_can_be_read_inside():
    def f(x):
        x[1:].add_(x[0])
        total = x.sum()
        x[total > 3] = 7.0
        return x, total.item(), bool(total > 3), x.tolist(), [float(e) for e in x], repr(x.view(1, 3))

    found, total, large, elements, numbers, text = fb.func.functionalize(f)(fb.ones(3))
    assert (total, large, elements, numbers) == (5, True, [7, 7, 7], [7, 7, 7])
    assert found.tolist() == elements
    assert "7." in text


def test_random_operators_draw_the_same_numbers():
    def f(x):
        x.normal_()
        y = fb.rand(3)
        y.bernoulli_(0.5)
        return fb.nn.functional.dropout(x, 0.5), y, fb.randn(2), fb.empty(3).exponential_()

    fb.manual_seed(3)
    expected = f(fb.zeros(4)), fb.rand(1)
    fb.manual_seed(3)
    found = fb.func.functionalize(f)(fb.zeros(4)), fb.rand(1)
    assert is_equal(found, expected)


def test_an_operator_of_a_program_writes_to_a_clone():
    library = fb.library.Library("functionalized", "DEF")
    library.define("twice_(Tensor(a!) x, Tensor y) -> Tensor")
    library.impl("twice_", lambda x, y: x.mul_(2) + y, "CPU")

    def f(x):
        sums = fb.ops.functionalized.twice_(x[1:], x[:1])
        return sums, x.sum()

    x, y = fb.ones(3), fb.ones(3)
    assert is_equal(fb.func.functionalize(f)(x), f(y))
    assert x.tolist() == y.tolist() == [1, 2, 2]


def test_a_tensor_that_escapes_has_its_last_elements():
    kept = []

    def f(x):
        kept.append(x.view(-1))
        x.add_(1)

    fb.func.functionalize(f)(fb.zeros(2, 2))
    assert (kept[0] + 0).tolist() == [1, 1, 1, 1]


def test_escaped_tensors_remain_aliases_of_each_other():
    kept = []

    def f(x):
        kept.extend([x, x.view(-1)])
        x.add_(1)

    given = fb.zeros(2, 2)
    fb.func.functionalize(f)(given)
    x, flat = kept
    flat[0].add_(4)
    assert x.tolist() == [[5, 1], [1, 1]]
    assert given.tolist() == [[1, 1], [1, 1]]


def test_another_thread_gets_an_error():
    errors = []

    def write(x):
        try:
            x.add_(1)
        except RuntimeError as error:
            errors.append(str(error))

    def f(x):
        thread = threading.Thread(target=write, args=(x,))
        thread.start()
        thread.join()
        return x.clone()

    assert fb.func.functionalize(f)(fb.zeros(2)).tolist() == [0, 0]
    assert "not active here" in errors[0]


@pytest.mark.parametrize(
    "given",
    [
        lambda torch: torch.zeros(5, 0),
        lambda torch: torch.zeros(()),
        lambda torch: torch.arange(6.0)[::2],
        lambda torch: torch.arange(6.0)[2:],
        lambda torch: torch.ones(2, 3).t(),
        lambda torch: torch.full((2,), float("nan")),
    ],
)
def test_arguments_of_any_layout(given):
    def f(x):
        x.unsqueeze(0).mul_(3)
        return x.reshape(-1).add(1)

    x, y = given(fb), given(fb)
    for remove in REMOVE:
        assert is_equal([fb.func.functionalize(f, remove=remove)(x), x], [f(y), y])


test_as_in_pytorch = scenario.test()


def test_views_of_empty_tensors_with_sizes_of_any_length():
    x = fb.empty(5, 1, 2**61 + 1, 0)
    found = fb.func.functionalize(lambda x: x.transpose(0, 1).conj())(x)
    assert found.shape == (1, 5, 2**61 + 1, 0)
