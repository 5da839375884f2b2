"""Floating-point operations counted by `utils.flop_counter`, by operator and module."""

import contextlib
import importlib
import io
import threading

import flambeau as fb
import pytest
from flambeau.utils import _flops
from sides import Scenarios, raised

scenario = Scenarios()


def module(torch):
    return importlib.import_module(torch.__name__ + ".utils.flop_counter")


def counts(torch, call, *args, custom_mapping=None, **kwargs):
    """Module -> operator -> operations of what `call` runs."""
    counter = module(torch).FlopCounterMode(display=False, custom_mapping=custom_mapping)
    with counter:
        call(*args, **kwargs)
    return {
        name: {str(op): n for op, n in sorted(ops.items(), key=str)}
        for name, ops in sorted(counter.get_flop_counts().items())
    }


def through(call):
    """The call with its backward."""

    def run(*args, **kwargs):
        call(*args, **kwargs).sum().backward()

    return run


SHAPES = {
    "mm": [(3, 4), (4, 5)],
    "bmm": [(2, 3, 4), (2, 4, 5)],
    "matmul": [(3, 4), (4, 5)],
    "matmul of batches": [(2, 1, 3, 4), (6, 4, 5)],
    "matmul folded": [(2, 3, 4), (4, 5)],
    "matmul of a vector": [(4,), (4, 5)],
    "matmul with a vector": [(3, 4), (4,)],
    "matmul of vectors": [(4,), (4,)],
    "addmm": [(5,), (3, 4), (4, 5)],
    "baddbmm": [(5,), (2, 3, 4), (2, 4, 5)],
    "linear": [(2, 3, 4), (5, 4), (5,)],
    "linear of no bias": [(3, 4), (5, 4)],
    "linear of a vector": [(4,), (5, 4), (5,)],
    "conv1d": [(2, 4, 6), (8, 4, 3)],
    "conv2d": [(2, 4, 6, 6), (8, 4, 3, 3), (8,)],
    "conv2d of no batch": [(4, 6, 6), (8, 4, 3, 3), (8,)],
    "conv3d": [(1, 2, 4, 4, 4), (3, 2, 2, 2, 2)],
    "conv_transpose2d": [(2, 4, 6, 6), (4, 2, 3, 3), (2,)],
    "mv": [(3, 4), (4,)],
}


@pytest.mark.parametrize("leaves", [2, 1, 0])
@pytest.mark.parametrize("name", SHAPES)
def test_one_product(name, leaves):
    from oracle import pytorch

    def run(torch):
        tensors = [torch.ones(*shape) for shape in SHAPES[name]]
        for tensor in tensors[-leaves:] if leaves else ():
            tensor.requires_grad_()
        short = name.partition(" ")[0]
        function = getattr(torch.nn.functional, short, None) or getattr(torch, short)
        return counts(torch, through(function) if leaves else function, *tensors)

    assert run(fb) == run(pytorch())


@scenario
def convolutions_with_options(torch):
    x, w = torch.ones(2, 4, 6, 6, requires_grad=True), torch.ones(8, 2, 3, 3, requires_grad=True)
    conv2d = torch.nn.functional.conv2d
    strided = counts(torch, lambda: conv2d(x, w, None, 2, 1, groups=2).sum().backward())
    same = counts(torch, lambda: conv2d(x, w, padding="same", groups=2))
    frozen = counts(torch, lambda: conv2d(x.detach(), w, groups=2).sum().backward())
    return [strided, same, frozen]


@scenario
def products_inside_functions(torch):
    a, b = torch.ones(2, 3, 4, requires_grad=True), torch.ones(2, 4, 5, requires_grad=True)
    gru = torch.nn.GRU(3, 4, num_layers=2)
    attention = torch.nn.MultiheadAttention(8, 2)
    words = torch.ones(5, 2, 8, requires_grad=True)
    return [
        counts(torch, lambda: torch.einsum("bij,bjk->bik", a, b).sum().backward()),
        counts(torch, lambda: torch.tensordot(a, b, [[2], [1]])),
        counts(torch, lambda: torch.chain_matmul(a[0], b[0], b[1].t())),
        counts(torch, lambda: torch.linalg.multi_dot([a[0], b[0], b[1].t()]).sum().backward()),
        counts(torch, lambda: gru(torch.ones(5, 2, 3, requires_grad=True))),
        counts(torch, lambda: torch.nn.LSTMCell(3, 4)(torch.ones(2, 3, requires_grad=True))),
        counts(torch, lambda: torch.nn.LSTMCell(3, 4)(torch.ones(2, 3))[0].sum().backward()),
        counts(torch, lambda: torch.nn.GRUCell(3, 4)(torch.ones(2, 3)).sum().backward()),
        counts(torch, lambda: torch.nn.RNNCell(3, 4, bias=False)(torch.ones(2, 3)).sum().backward()),
        counts(torch, lambda: attention(words, words, words)[0].sum().backward()),
        counts(torch, lambda: torch.ops.aten.mm.default(a[0], b[0])),
        counts(torch, lambda: torch.mm(a[0].detach(), b[0].detach(), out=torch.ones(3, 5))),
    ]


def leaf(torch, *sizes):
    return torch.ones(*sizes, requires_grad=True)


@scenario
def products_with_vectors(torch):
    def x(*sizes):
        return leaf(torch, *sizes)

    linear = torch.nn.functional.linear
    calls = [
        lambda: torch.dot(x(4), x(4)),
        lambda: torch.vdot(x(4), x(4)),
        lambda: x(4) @ x(4, 5),
        lambda: x(2, 3, 4) @ x(4),
        lambda: linear(x(4), x(5, 4), x(5)),
        lambda: linear(x(4), x(5, 4)),
        lambda: linear(x(3, 4), x(4)),
        lambda: torch.addmv(x(3), x(3, 4), x(4)),
        lambda: torch.addr(x(3, 4), x(3), x(4)),
        lambda: torch.outer(x(3), x(4)),
        lambda: torch.linalg.multi_dot([x(4), x(4, 5), x(5, 6), x(6)]),
    ]
    return [counts(torch, through(call)) for call in calls]


@scenario
def sums_of_products(torch):
    def x(*sizes):
        return leaf(torch, *sizes)

    a, b, many = torch.ones(3, 4), torch.ones(4, 5), (torch.ones(2, 3, 4), torch.ones(2, 4, 5))
    return [
        counts(torch, through(torch.addmm), x(5), x(3, 4), x(4, 5), beta=0),
        counts(torch, through(torch.addmm), x(5), x(3, 4), x(4, 5), beta=2, alpha=3),
        counts(torch, through(torch.baddbmm), x(5), x(2, 3, 4), x(2, 4, 5), alpha=3),
        counts(torch, through(torch.Tensor.addmm), x(5), x(3, 4), x(4, 5), alpha=2),
        counts(torch, lambda: torch.addmm(torch.ones(5), a, b, alpha=2, out=torch.ones(3, 5))),
        counts(torch, lambda: torch.ones(3, 5).addmm_(a, b)),
        counts(torch, lambda: torch.ones(3, 5).addmm_(a, b, alpha=2)),
        counts(torch, lambda: torch.ones(2, 3, 5).baddbmm_(*many)),
        counts(torch, lambda: torch.ops.aten.addmm.default(torch.ones(5), a, b, alpha=2)),
    ]


@scenario
def products_inside_operators(torch):
    def x(*sizes):
        return leaf(torch, *sizes)

    linalg, eye = torch.linalg, torch.eye(3, requires_grad=True)
    rows = torch.arange(12.0).reshape(3, 4)
    calls = [
        lambda: torch.inner(x(2, 4), x(3, 4)),
        lambda: torch.kron(x(2, 3), x(2, 4)),
        lambda: torch.matrix_power(x(3, 3), 5),
        lambda: torch.linalg.matrix_exp(x(3, 3)),
        lambda: torch.cov(rows.clone().requires_grad_()),
        lambda: torch.corrcoef(rows.clone().requires_grad_()),
        lambda: linalg.inv(eye),
        lambda: linalg.solve(eye, x(3, 2)),
        lambda: linalg.cholesky(eye),
        lambda: linalg.qr(eye)[0],
        lambda: torch.tensordot(x(2, 3, 4), x(4, 3, 5), [[1, 2], [1, 0]]),
    ]
    return [counts(torch, through(call)) for call in calls]


@scenario
def transforms_and_recomputation(torch):
    func, checkpoint = torch.func, importlib.import_module(torch.__name__ + ".utils.checkpoint").checkpoint
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    many, more = torch.ones(2, 3, 4), torch.ones(2, 4, 5)
    x = leaf(torch, 3, 4)

    def twice():
        grad = torch.autograd.grad((x @ b).pow(2).sum(), x, create_graph=True)[0]
        return torch.autograd.grad(grad.sum(), x)

    return [
        counts(torch, lambda: torch.vmap(torch.mm)(many, more)),
        counts(torch, lambda: torch.vmap(torch.mm, (0, None))(many, b)),
        counts(torch, lambda: func.grad(lambda y: (y @ b).sum())(a)),
        counts(torch, lambda: func.jvp(lambda y: y @ b, (a,), (a,))),
        counts(torch, lambda: checkpoint(lambda y: (y @ b).relu(), x, use_reentrant=False).sum().backward()),
        counts(torch, twice),
    ]


@scenario
def inputs_of_every_kind(torch):
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    on_meta = [t.to("meta") for t in (a, b)]
    return [
        counts(torch, lambda: torch.ones(0, 4) @ b),
        counts(torch, lambda: on_meta[0] @ on_meta[1]),
        counts(torch, lambda: a.long() @ b.long()),
        counts(torch, lambda: (a * 1j) @ (b * 1j)),
        counts(torch, lambda: torch.ones(5, 4, 3).transpose(0, 2)[:, :, 0] @ b),
        counts(torch, lambda: torch.full((3, 4), float("nan")) @ b),
        counts(torch, lambda: a @ b, custom_mapping={torch.ops.aten.mm: lambda x, y, out_shape=None: 7}),
        counts(
            torch,
            lambda: torch.addmm(torch.ones(5), a, b),
            custom_mapping={torch.ops.aten.addmm: lambda *shapes, out_shape=None: out_shape[0]},
        ),
        counts(torch, lambda: a.exp(), custom_mapping={torch.ops.aten.exp: lambda x, out_shape=None: 2}),
    ]


@scenario
def convolutions_of_every_kind(torch):
    f = torch.nn.functional

    def x(*sizes):
        return leaf(torch, *sizes)

    image = torch.ones(1, 2, 5, 5)
    operator = torch.ops.aten.convolution
    calls = [
        lambda: f.conv2d(image, x(3, 2, 3, 3)),
        lambda: f.conv2d(image, torch.ones(3, 2, 3, 3), x(3)),
        lambda: f.conv2d(x(1, 2, 5, 5), x(3, 2, 2, 2), padding="same"),
        lambda: f.conv_transpose1d(x(1, 4, 5), x(4, 2, 3), groups=2),
        lambda: f.conv_transpose3d(x(1, 4, 3, 3, 3), x(4, 2, 2, 2, 2)),
        lambda: operator(x(1, 2, 5, 5), x(3, 2, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ]
    return [counts(torch, through(call)) for call in calls]


@scenario
def modules_by_name(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
            self.head = nn.Conv1d(1, 1, 2)

        def forward(self, x):
            return self.head(self.body(x).unsqueeze(1))

    net = Net()
    free = torch.ones(5, 3, requires_grad=True)

    def twice():
        for _ in range(2):
            net(free).sum().backward()

    return [counts(torch, twice), counts(torch, lambda: net.body[2](torch.ones(1, 4)))]


@scenario
def a_backward_outside_is_not_counted(torch):
    x = torch.ones(3, 3, requires_grad=True)
    counter = module(torch).FlopCounterMode(display=False)
    with counter:
        y = (x @ x).sum()
    y.backward()
    first = counter.get_total_flops()
    with counter:
        x @ x @ x
    return [first, counter.get_total_flops()]


@scenario
def formulas_of_operators(torch):
    functions, aten = module(torch), torch.ops.aten
    name = "flop_counter_sides::product"

    @torch.library.custom_op(name, mutates_args=())
    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y

    x, y = torch.ones(3, 4), torch.ones(4, 5)
    custom = {torch.ops.flop_counter_sides.product: lambda a, b, out_shape=None: a[0] * out_shape[1]}
    mapped = counts(torch, lambda: product(x, y), custom_mapping=custom)
    functions.register_flop_formula(torch.ops.flop_counter_sides.product)(lambda a, b, out_shape=None: 7)
    return [
        mapped,
        counts(torch, lambda: torch.ops.flop_counter_sides.product(x, y)),
        raised("duplicate", functions.register_flop_formula(aten.mm), lambda *shapes: 0),
        [functions.mm_flop((3, 4), (4, 5)), functions.bmm_flop((2, 3, 4), (2, 4, 5))],
        functions.conv_flop_count([2, 4, 6, 6], [8, 4, 3, 3], [2, 8, 4, 4]),
        functions.sdpa_flop_count((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 5)),
    ]


test_counted = scenario.test()


def test_attention():
    q, k, v = (fb.ones(2, 3, n, w, requires_grad=True) for n, w in ((4, 5), (6, 5), (6, 7)))
    found = counts(fb, through(fb.nn.functional.scaled_dot_product_attention), q, k, v)
    forward = 2 * 2 * 3 * 4 * 6 * (5 + 7)
    assert found == {"Global": {"aten.bmm": 3 * forward}}


def test_lstm_counts_its_products():
    steps, batch, width, hidden = 5, 2, 3, 4
    found = counts(fb, fb.nn.LSTM(width, hidden), fb.ones(steps, batch, width))
    assert found["Global"] == {
        "aten.addmm": 2 * steps * batch * width * 4 * hidden,
        "aten.mm": 2 * steps * batch * hidden * 4 * hidden,
    }


def test_old_orders_of_arguments_count():
    a, b = fb.ones(3, 4), fb.ones(4, 5)
    found = counts(fb, lambda: fb.addmm(2, fb.ones(5), 3, a, b))
    assert found == {"Global": {"aten.addmm": 120}}


def test_a_counter_within_a_counter():
    mode = module(fb).FlopCounterMode
    with mode(display=False) as outer:
        fb.ones(2, 3) @ fb.ones(3, 4)
        with mode(display=False) as inner:
            fb.addmm(fb.ones(4), fb.ones(2, 3), fb.ones(3, 4), alpha=2)
        with pytest.raises(RuntimeError, match="outside of its own block"), outer:
            pass
    assert (inner.get_total_flops(), outer.get_total_flops()) == (48, 96)
    assert inner.get_flop_counts()["Global"] == {fb.ops.aten.addmm: 48}


def test_an_exception_ends_the_count():
    counter = module(fb).FlopCounterMode(display=False)
    with pytest.raises(RuntimeError, match="cannot be multiplied"), counter:
        fb.addmm(fb.ones(5), fb.ones(3, 4), fb.ones(3, 4), alpha=2)
    with counter:
        fb.mm(fb.ones(1, 2), fb.ones(2, 3))
    fb.mm(fb.ones(1, 2), fb.ones(2, 3))
    assert counter.get_flop_counts() == {"Global": {fb.ops.aten.mm: 12}}


def test_other_threads_are_not_counted():
    counter = module(fb).FlopCounterMode(display=False)
    with counter:
        thread = threading.Thread(target=lambda: fb.ones(2, 3) @ fb.ones(3, 4))
        thread.start()
        thread.join()
    assert counter.get_total_flops() == 0


def test_left_before_it_was_entered():
    with pytest.raises(RuntimeError, match="left before it was entered"):
        module(fb).FlopCounterMode(display=False).__exit__(None, None, None)


def test_formulas_refuse_sizes_that_do_not_fit():
    functions = module(fb)
    for call in (
        lambda: functions.mm_flop((3, 4), (5, 6)),
        lambda: functions.addmm_flop((6,), (3, 4), (5, 6)),
        lambda: functions.bmm_flop((2, 3, 4), (1, 4, 5)),
        lambda: functions.baddbmm_flop((5,), (2, 3, 4), (2, 5, 4)),
    ):
        with pytest.raises(AssertionError, match="expected equal"):
            call()


def test_every_operator_with_operations_has_a_formula():
    registry = module(fb).flop_registry
    assert all(getattr(fb.ops.aten, name) in registry for name in _flops.COUNTED)
    a, b = fb.ones(2, 3), fb.ones(3, 4)
    assert registry[fb.ops.aten.mm](a, b, out_val=a @ b) == 48
    assert registry[fb.ops.aten._addmm](fb.ones(4), a, b, out_val=a @ b) == 48


def test_the_table_is_printed():
    text = io.StringIO()
    net = fb.nn.Sequential(fb.nn.Linear(64, 32))
    with contextlib.redirect_stdout(text), module(fb).FlopCounterMode() as counter:
        net(fb.ones(1000, 64))
    lines = text.getvalue().splitlines()
    assert [line.split() for line in lines if "Sequential.0" in line] == [
        ["Sequential.0", "4.096M", "100.00%"]
    ]
    assert "Sequential.0" not in counter.get_table(depth=1)


def test_running_modules_by_name():
    tracker = importlib.import_module("flambeau.utils.module_tracker").ModuleTracker()
    net = fb.nn.Sequential(fb.nn.Linear(2, 2), fb.nn.Linear(2, 1))
    seen = []
    net[0].register_forward_pre_hook(lambda *args: seen.append((sorted(tracker.parents), tracker.is_bw)))
    with tracker:
        out = net(fb.ones(1, 2))
        net[1].weight.register_hook(lambda g: seen.append((sorted(tracker.parents), tracker.is_bw)))
        out.sum().backward()
        assert tracker.parents == {"Global"}
    assert seen[0] == (["Global", "Sequential", "Sequential.0"], False)
    assert seen[1] == (["Global", "Sequential", "Sequential.1"], True)
