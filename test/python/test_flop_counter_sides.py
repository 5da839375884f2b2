"""Floating-point operations counted by `utils.flop_counter`, by operator and module."""

import contextlib
import importlib
import io

import flambeau as fb
import pytest
from sides import Scenarios, raised

scenario = Scenarios()


def module(torch):
    return importlib.import_module(torch.__name__ + ".utils.flop_counter")


def counts(torch, call, *args, **kwargs):
    """Module -> operator -> operations of what `call` runs."""
    counter = module(torch).FlopCounterMode(display=False, **kwargs)
    with counter:
        call(*args)
    return {
        name: {str(op): n for op, n in sorted(ops.items(), key=str)}
        for name, ops in sorted(counter.get_flop_counts().items())
    }


def through(call):
    """The call with its backward."""

    def run(*args):
        call(*args).sum().backward()

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
