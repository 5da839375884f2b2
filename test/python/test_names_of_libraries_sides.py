"""Private names that public libraries call: checks, operators, arguments of `Module.to`, questions."""

import importlib
import inspect

import flambeau as fb
import pytest
from flambeau._operators.control_flow import associative_scan, cond, while_loop
from sides import Scenarios, raised

scenario = Scenarios()


@scenario
def checks(torch):
    t = torch.tensor
    kinds = ["_check", "_check_index", "_check_value", "_check_type", "_check_not_implemented"]
    told = [raised("mine", getattr(torch, kind), False, lambda: "mine") for kind in kinds]
    untold = [raised("", getattr(torch, kind), False)[0] for kind in kinds]
    return [
        [told, untold, [getattr(torch, kind)(True, "x") for kind in kinds]],
        raised("must be a callable", torch._check, False, "text"),
        raised("cond must be a bool", torch._check, 1),
        raised("cond must be a bool", torch._check, t(True)),
        raised("mine", torch._check_with, KeyError, False, lambda: "mine"),
        raised("", torch._check_with, RuntimeError, False, None)[0],
        raised("", torch._check_with, 3, False, None)[0],
        raised("", torch._check_tensor_all, t([True, False]))[0],
        raised("cond must be a tensor", torch._check_tensor_all, True),
        raised("cond tensor must have dtype", torch._check_tensor_all, t([1, 1])),
        raised("mine", torch._check_tensor_all_with, ValueError, t([False]), lambda: "mine"),
        [torch._check_tensor_all(t([True])), torch._check_tensor_all(t([], dtype=torch.bool))],
        raised("mine", torch._assert_async, t(False), "mine"),
        [raised("", torch._assert_async, t(0))[0], torch._assert_async(t(float("nan")))],
        raised("ambiguous", torch._assert_async, t([1, 1])),
    ]


@scenario
def sizes_are_not_negative(torch):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [raised("", torch._check_is_size, n, max=top) for n, top in ((-1, None), (3, 2), (3, 3))]
    return [f[0] if isinstance(f, tuple) else f for f in found]


@scenario
def compressed_rows(torch):
    t, to, back = torch.tensor, torch._convert_indices_from_coo_to_csr, None
    back = torch._convert_indices_from_csr_to_coo
    crow, col = t([0, 2, 2, 3]), t([1, 0, 2])
    results = [
        to(t([0, 0, 2, 3]), 5),
        to(t([]).long(), 3),
        to(t([0, 1], dtype=torch.int32), 2),
        to(t([0, 1]), 2, out_int32=True),
        back(crow, col),
        back(crow, col, out_int32=True, transpose=True),
        back(t([[0, 1, 2], [0, 0, 2]]), t([[0, 1], [1, 0]])),
        torch.ops.aten._shape_as_tensor.default(torch.ones(2, 3)),
        torch._shape_as_tensor(t(1)),
        torch._pin_memory(t(1)) if torch.accelerator.is_available() else t(1),
    ]
    return [
        results,
        [str(r.dtype).rpartition(".")[2] for r in results],
        raised("vector", to, t([[0, 1]]), 2)[0],
        raised("1", torch._shape_as_tensor(torch.ones(3)).tolist),
    ]


PLACES = {
    "nothing": lambda t: ((), {}),
    "device": lambda t: (("cpu",), {}),
    "dtype": lambda t: ((t.float16,), {}),
    "tensor": lambda t: ((t.ones(1),), {}),
    "tensor by name": lambda t: ((), {"tensor": t.ones(1)}),
    "all": lambda t: (("cpu", t.float64, True), {}),
    "memory format": lambda t: ((), {"dtype": t.float32, "memory_format": t.channels_last}),
    "no device": lambda t: ((None, t.float32), {}),
    "dtype, non_blocking": lambda t: ((t.float16, True), {}),
    "two devices": lambda t: (("cpu", "cpu"), {}),
    "unknown keyword": lambda t: ((), {"other": 1}),
    "a dtype of integers": lambda t: ((t.int32,), {}),
    "a Python type": lambda t: ((float,), {}),
    "twice": lambda t: (("cpu",), {"device": "cpu"}),
}


@pytest.mark.parametrize("name", PLACES)
def test_arguments_of_to(name):
    from oracle import pytorch

    def parsed(torch):
        args, kwargs = PLACES[name](torch)
        try:
            return [str(part).rpartition(".")[2] for part in torch._C._nn._parse_to(*args, **kwargs)]
        except (TypeError, RuntimeError) as error:
            return type(error).__name__

    assert parsed(fb) == parsed(pytorch())


@scenario
def casts_of_modules(torch):
    """A subclass that overrides `to` is not asked by the other casts, and complex parameters stay."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.real = torch.nn.Parameter(torch.ones(2))
            self.spectrum = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
            self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

        def to(self, *args, **kwargs):
            raise RuntimeError("to was called")

    found = []
    for cast in ("double", "half", "bfloat16", "float", "cpu"):
        net = getattr(Net(), cast)()
        found.append([str(p.dtype).rpartition(".")[2] for p in (net.real, net.spectrum, net.count)])
    return found


@scenario
def names_in_other_places(torch):
    def module(name):
        return importlib.import_module(f"{torch.__name__}.{name}")

    shown = module("_tensor_str")
    with shown.printoptions(precision=2, sci_mode=False):
        short = str(torch.tensor([1.23456]))
    net = torch.nn.BatchNorm1d(2)
    wait = module("distributed.constants").default_pg_timeout
    with torch.backends.cuda.sdp_kernel(enable_math=False):
        inside = torch.backends.cuda.math_sdp_enabled()
    return [
        [short, str(torch.tensor([1.23456]))],
        [torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX, len(net.state_dict()), wait.total_seconds()],
        [torch.is_autocast_enabled(device) for device in ("cpu", "cuda", "mps", "xpu", "hpu", "mtia")],
        raised("", torch.is_autocast_enabled, "nonsense")[0],
        [inside, torch.backends.cuda.math_sdp_enabled()],
        [
            module("_subclasses.fake_tensor").is_fake(torch.ones(1)),
            False,
        ],
        module("_prims_common").is_contiguous_or_false(torch.ones(2, 2).t()),
        [e.name for e in module("numa.binding").AffinityMode],
    ]


@scenario
def transforms_that_run(torch):
    active = torch._C._are_functorch_transforms_active
    seen = [active()]

    def look(x):
        seen.append(active())
        return x.sum()

    torch.func.grad(look)(torch.ones(2))
    torch.func.vmap(look)(torch.ones(2, 2))
    return [*seen, active()]


test_names = scenario.test()


# PyTorch compiles these functions, which takes a compiler: what they compute is tested alone.


def test_cond():
    x = fb.ones(2, requires_grad=True)
    for pred in (True, fb.tensor(True), fb.tensor([1])):
        assert cond(pred, lambda a: a * 2, lambda a: a * 3, (x,)).tolist() == [2, 2]
    cond(fb.tensor(False), lambda a: a * 2, lambda a: a * 3, [x]).sum().backward()
    assert x.grad.tolist() == [3, 3] and cond(0, lambda: 1, lambda: 2) == 2
    wrong = [(fb.ones(2), abs, abs, (x,)), ("yes", abs, abs, (x,)), (True, 1, abs, (x,)), (True, abs, abs, x)]
    for arguments in wrong:
        with pytest.raises(RuntimeError, match="cond: expected"):
            cond(*arguments)


def test_while_loop():
    x = fb.ones(2, requires_grad=True)
    i, y = while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (fb.tensor(0), x))
    y.sum().backward()
    assert i.item() == 3 and y.tolist() == [8, 8] and x.grad.tolist() == [8, 8]
    assert while_loop(lambda a: a < 0, lambda a: a, (fb.tensor(1),)) == (fb.tensor(1),)
    assert fb.while_loop is while_loop and fb.cond is cond
    for body, given in ((lambda a: (a, a), (fb.tensor(1),)), (abs, fb.tensor(1))):
        with pytest.raises(RuntimeError, match="while_loop: expected"):
            while_loop(lambda a: a > 0, body, given)


@pytest.mark.parametrize("mode", ["pointwise", "generic"])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(mode, reverse):
    x = fb.arange(1.0, 7).reshape(2, 3).requires_grad_()
    found = associative_scan(lambda a, b: a * b, x, -1, reverse, mode)
    expected = x.flip(1).cumprod(1).flip(1) if reverse else x.cumprod(1)
    fb.testing.assert_close(found, expected)
    (mine,) = fb.autograd.grad(found.sum(), x, retain_graph=True)
    (theirs,) = fb.autograd.grad(expected.sum(), x)
    fb.testing.assert_close(mine, theirs)

    def step(left, right):  # h -> a h + b
        return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

    tree = associative_scan(step, {"a": fb.full((4, 2), 0.5), "b": fb.ones(4, 2)}, 0, combine_mode=mode)
    assert tree["b"][:, 0].tolist() == [1, 1.5, 1.75, 1.875]


def test_scans_that_are_refused():
    x = fb.ones(2, 3)
    calls = [
        (abs, fb.ones(0), 0),
        (abs, [x, fb.ones(3)], 0),
        (1, x, 0),
        (abs, 3, 0),
        (abs, x, 0, False, "fast"),
    ]
    for arguments in calls:
        with pytest.raises(ValueError, match="associative_scan"):
            associative_scan(*arguments)
    where = importlib.import_module("flambeau._higher_order_ops.associative_scan")
    assert where.associative_scan is associative_scan
    assert list(inspect.signature(associative_scan).parameters)[:3] == ["combine_fn", "xs", "dim"]
