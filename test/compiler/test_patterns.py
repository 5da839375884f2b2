"""Calls that are replaced by cheaper ones: results and gradients, and calls that must stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
import pytest
from flambeau._dynamo.utils import counters

F, nn = fb.nn.functional, fb.nn
BIASES, SCALES = "biases added in loops", "scales folded into convolutions"


@pytest.fixture(autouse=True)
def fresh_counters() -> None:
    counters["fusion"].clear()


def replaced(name: str) -> int:
    return counters["fusion"][name]


def check(f: Callable[..., Any], inputs: list[Any], *, bound: float = 8.0) -> None:
    """Compare a compiled program with the plain one; the error against float64 may be few times as large."""
    quick = fb.compile(f)
    exact = f(*[x.double() if x.is_floating_point() else x for x in inputs])
    plain = f(*inputs)
    for _ in range(2):
        found = quick(*inputs)
        assert found.shape == plain.shape and found.stride() == plain.stride() and found.dtype == plain.dtype
        finite = plain.isfinite()
        assert fb.equal(found.isnan(), plain.isnan()) and fb.equal(finite, found.isfinite())
        assert fb.equal(found[~finite & ~plain.isnan()], plain[~finite & ~plain.isnan()])
        error, other = ((x.double() - exact)[finite].abs().amax().item() for x in (found, plain))
        relative = 1e-12 if plain.dtype == fb.float64 else 1e-6
        assert error <= bound * other + relative * exact[finite].abs().amax().item(), (error, other)


def doubles(*sizes: tuple[int, ...]) -> list[Any]:
    return [fb.randn(own, dtype=fb.float64) for own in sizes]


READERS: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda y, r: F.relu(y),
    "gelu": lambda y, r: F.gelu(y),
    "silu": lambda y, r: F.silu(y),
    "tanh": lambda y, r: y.tanh(),
    "sigmoid": lambda y, r: y.sigmoid(),
    "residual": lambda y, r: r + y,
    "two readers": lambda y, r: y.sigmoid() * r + y.relu(),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("sizes", [(96, 64), (4, 24, 64), (2, 3, 16, 64), (4097, 1)])
@pytest.mark.parametrize("dtype", [fb.float64, fb.float32], ids=str)
def test_products_with_bias(name: str, sizes: tuple[int, ...], dtype: fb.dtype) -> None:
    every = (sizes, (48, sizes[-1]), (48,), (*sizes[:-1], 48))
    inputs = [fb.randn(own, dtype=dtype) for own in every]
    check(lambda x, w, b, r: READERS[name](F.linear(x, w, b), r), inputs)
    assert replaced(BIASES) == (dtype == fb.float64)


@pytest.mark.parametrize("long", [1, 1023, 3000])
def test_sums_of_any_length(long: int) -> None:
    check(lambda x, w, b: F.linear(x, w, b).relu(), doubles((100, long), (50, long), (50,)))
    assert replaced(BIASES) == 1


def test_numbers_that_are_not_finite() -> None:
    x, w, b = doubles((100, 64), (50, 64), (50,))
    x[3, 4], x[5, 6], b[7], b[8], b[9] = float("nan"), float("inf"), float("inf"), -float("inf"), float("nan")
    check(lambda x, w, b: F.linear(x, w, b).sigmoid(), [x, w, b])
    check(lambda x, w, b: F.linear(x, w, b) * 2, [x, w, b])
    assert replaced(BIASES) == 2


def test_strided_operands() -> None:
    x, w, b = doubles((64, 100), (50, 128), (100,))
    x, w, b = x.t(), w[:, ::2], b[::2]
    check(lambda x, w, b: F.linear(x, w, b).tanh(), [x, w, b])
    assert replaced(BIASES) == 1


STAYING: dict[str, Callable[[Any, Any, Any], Any]] = {
    "no reader": lambda x, w, b: F.linear(x, w, b),
    "a result": lambda x, w, b: (lambda y: fb.stack([y, y.relu()]))(F.linear(x, w, b)),
    "a reduction": lambda x, w, b: F.linear(x, w, b).sum(-1),
    "few elements": lambda x, w, b: F.linear(x[:10], w, b).relu(),
    "half": lambda x, w, b: F.linear(x.bfloat16(), w.bfloat16(), b.bfloat16()).relu().to(b.dtype),
    "a matrix": lambda x, w, b: fb.addmm(x @ w.t(), x, w.t()).relu(),
    "one number": lambda x, w, b: fb.addmm(b[:1], x, w.t()).relu(),
    "another size": lambda x, w, b: F.linear(x, w, b) + fb.ones(3, 1, 1, dtype=x.dtype),
    "scaled": lambda x, w, b: fb.addmm(b, x, w.t(), beta=2, alpha=3).relu(),
}


@pytest.mark.parametrize("name", STAYING)
def test_products_that_stay(name: str) -> None:
    check(STAYING[name], doubles((100, 64), (50, 64), (50,)))
    assert replaced(BIASES) == 0


def test_writes_keep_all_calls() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        y = F.linear(x, w, b)
        b.mul_(2)
        return y.relu() + 1

    x, w, b = fb.randn(100, 64), fb.randn(50, 64), fb.randn(50)
    quick, twin = fb.compile(f), b.clone()
    for _ in range(3):
        assert fb.allclose(quick(x, w, b), f(x, w, twin), atol=1e-5)
        assert fb.equal(b, twin)
    assert replaced(BIASES) == 0


def test_training_steps() -> None:
    model = nn.Sequential(
        nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 8), nn.Tanh()
    ).double()
    x, y = doubles((600, 64), (600, 8))

    def loss(x: Any, y: Any) -> Any:
        return ((model(x) + y).sigmoid() + model[4](x) + y).square().sum()

    quick = fb.compile(loss)
    for _ in range(3):
        gradients = []
        for f in (quick, loss):
            model.zero_grad()
            f(x, y).backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        for a, b in zip(*gradients, strict=True):
            assert fb.allclose(a, b, rtol=1e-10, atol=1e-11 * b.abs().amax().item())
    assert replaced(BIASES) > 0


def norm(dims: int, channels: int) -> Any:
    made = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[dims - 1](channels)
    with fb.no_grad():
        made.running_mean.normal_()
        made.running_var.uniform_(0.5, 2)
        made.weight.normal_()
        made.bias.normal_()
    return made.eval()


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_convolutions_with_running_statistics(dims: int, bias: bool, groups: int) -> None:
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1](8, 16, 3, 2, 1, groups=groups, bias=bias)
    own = norm(dims, 16)
    names = ["weight", "bias"] if bias else ["weight"]
    given = [getattr(conv, n).detach() for n in names] + [own.weight.detach(), own.bias.detach()]

    def f(x: Any, *parts: Any) -> Any:
        kind = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
        y = kind(x, parts[0], parts[1] if bias else None, 2, 1, 1, groups)
        statistics = own.running_mean.to(x.dtype), own.running_var.to(x.dtype)
        return F.batch_norm(y, *statistics, parts[-2], parts[-1])

    x = fb.randn(4, 8, *[24] * dims)
    with fb.no_grad():
        check(f, [x, *given])
    assert replaced(SCALES) == 1


def test_new_parameters_and_statistics_are_read_at_each_call() -> None:
    model = nn.Sequential(nn.Conv2d(4, 8, 3), norm(2, 8)).eval().requires_grad_(False)
    quick, x = fb.compile(model), fb.randn(2, 4, 20, 20)
    for _ in range(4):
        assert fb.allclose(quick(x), model(x), atol=1e-4)
        model[0].weight.mul_(1.5)
        model[1].running_mean.add_(1)
        model[1].running_var.mul_(0.5)
        model[1].weight.sub_(0.25)
    assert replaced(SCALES) == 1


def test_convolutions_that_stay() -> None:
    x = fb.randn(2, 4, 20, 20)
    conv, own = nn.Conv2d(4, 8, 3), norm(2, 8)
    turned = nn.ConvTranspose2d(4, 8, 3)
    twice = fb.compile(lambda x: (lambda y: fb.cat([own(y), y]))(conv(x)))
    with fb.no_grad():
        for f in (lambda x: own(conv(x)).relu() + 1, lambda x: own(turned(x)), lambda x: own(conv(x).relu())):
            assert fb.allclose(fb.compile(f)(x), f(x), atol=1e-5)
        assert fb.allclose(twice(x), fb.cat([own(conv(x)), conv(x)]), atol=1e-5)
    step = fb.compile(lambda x: own(conv(x)))
    loss, plain = step(x).square().sum(), own(conv(x)).square().sum()
    found, expected = (fb.autograd.grad(y, list(conv.parameters())) for y in (loss, plain))
    for a, b in zip(found, expected, strict=True):
        assert fb.allclose(a, b, rtol=1e-4, atol=1e-3)
    assert replaced(SCALES) == 0


def test_layouts_of_results_stay() -> None:
    model = nn.Sequential(nn.Conv2d(4, 8, 3), norm(2, 8)).eval().requires_grad_(False)
    x = fb.randn(2, 4, 20, 20).contiguous(memory_format=fb.channels_last)
    quick = fb.compile(model)
    for given in (x, x.contiguous()):
        for _ in range(2):
            found, expected = quick(given), model(given)
            assert found.stride() == expected.stride() and fb.allclose(found, expected, atol=1e-4)
