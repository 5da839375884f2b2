"""Compiled programs that serve sizes which they were not compiled for, against plain programs and float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flambeau as fb
import pytest
from flambeau._dynamo.utils import counters
from flambeau.compiler.emit import background, compilation
from flambeau.compiler.emit import row_kernels as emitted
from flambeau.compiler.ir.open_numbers import OpenFloat, OpenInt, has_open, mapped, opened
from flambeau.compiler.passes import row_loops
from flambeau.compiler.symbolic import templates

F, nn = fb.nn.functional, fb.nn
WIDTH = 48
runs: list[int] = []

pytestmark = pytest.mark.skipif(compilation.compiler() is None, reason="needs a C++ compiler")


@pytest.fixture(autouse=True)
def kernels_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Groups of any size have kernels, which run without a measurement; `runs` gets the columns of runs."""
    monkeypatch.setattr(background, "is_measured", False)
    monkeypatch.setattr(row_loops, "LEAST_ELEMENTS", 1)
    monkeypatch.setenv("FLAMBEAU_TIER", "1")
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(Path(tmp_path_factory.getbasetemp()) / "cache"))
    counters["fusion"].clear()
    runs.clear()
    run = emitted.RowKernel.run

    def counted(self: Any, geometry: Any, *given: Any) -> Any:
        runs.append(geometry.columns)
        return run(self, geometry, *given)

    monkeypatch.setattr(emitted.RowKernel, "run", counted)


def softmax(x: Any, w: Any) -> Any:
    return fb.softmax(x * 0.125 + 1, -1) * w.sum()


def log_softmax(x: Any, w: Any) -> Any:
    return F.log_softmax(x * 2, -1) * w.sum()


def layer_norm(x: Any, w: Any) -> Any:
    return F.gelu(F.layer_norm(x, (WIDTH,), w, w * 2))


def rms_norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, (WIDTH,), w) * x.sigmoid()


def variance(x: Any, w: Any) -> Any:
    v, mean = fb.var_mean(x, -1, keepdim=True)
    return ((x - mean) * (v + 1e-5).rsqrt()).relu() * w.sum()


def normalised_by_length(x: Any, w: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],)) * (1 / x.shape[-1]) + w.sum()


def mean_of_all(x: Any, w: Any) -> Any:
    return ((fb.softmax(x, -1) * x).mean() * w).exp()


def picked(x: Any, w: Any) -> Any:
    target = fb.arange(x.shape[0]).remainder(x.shape[-1])
    return F.cross_entropy(x * w.sum(), target) + w


def padded(x: Any, w: Any) -> Any:
    return fb.softmax(F.pad(x, (1, x.shape[0])) * 2, -1).narrow(1, 1, x.shape[1]) * w.sum()


def transposed(x: Any, w: Any) -> Any:
    return fb.softmax(x.t() * 2, -1).t() + fb.softmax(x, -1) * w.sum()


LONG: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (softmax, log_softmax, variance, normalised_by_length, mean_of_all, picked, padded, transposed)
}
WIDE: dict[str, Callable[..., Any]] = {f.__name__: f for f in (layer_norm, rms_norm)}
SHAPES = (
    *(
        (37, 41),
        (29, 53),
        (31, 47),
        (64, 64),
        (200, 33),
        (2, 17),
        (16, 128),
        (1, 40),
        (40, 1),
        (0, 40),
        (0, 0),
    ),
    *((31, 47), (5, 4097), (3000, 16)),
)


def step(f: Callable[..., Any], x: Any, w: Any) -> list[Any]:
    """Return the result and gradients of a program, which must not change its inputs."""
    given = [t.detach().clone().requires_grad_() for t in (x, w)]
    result = f(*given)
    gradients = fb.autograd.grad(
        (result * fb.arange(1, 1 + result.numel()).view(result.shape).cos()).sum(), given
    )
    assert fb.equal(given[0], x) and fb.equal(given[1], w)
    return [result, *gradients]


def strides(x: Any) -> list[int]:
    """Return the strides that matter."""
    return [s for n, s in zip(x.size(), x.stride(), strict=True) if n > 1 and x.numel()]


def close(found: list[Any], exact: list[Any], plain: list[Any]) -> None:
    """Assert that errors against float64 are at most few times those of the plain program."""
    for a, b, c in zip(found, exact, plain, strict=True):
        assert a.shape == c.shape and a.dtype == c.dtype
        assert strides(a) == strides(c)
        assert fb.equal(a.isnan(), c.isnan())
        a, b, c = (fb.where(c.isnan(), 0.0, t.double()) for t in (a, b, c))
        if a.numel():
            error, other = ((t - b).abs().amax().item() for t in (a, c))
            assert error <= 8 * other + 4e-6 * b.abs().amax().item() + 1e-30, (error, other)


def check(f: Callable[..., Any], shapes: Any, least_served: int, dynamic: Any = None) -> None:
    quick = fb.compile(f, dynamic=dynamic)
    for shape in shapes:
        x, w = fb.randn(shape), fb.randn(WIDTH)
        if 0 in shape and f in (picked, normalised_by_length):  # they raise an error
            continue
        plain, exact = step(f, x, w), step(f, x.double(), w.double())
        for _ in range(3):
            close(step(quick, x, w), exact, plain)
            assert background.finish(120)
    assert counters["fusion"]["programs of other sizes"] >= least_served


@pytest.mark.parametrize("name", LONG)
def test_rows_and_columns_of_any_size(name: str) -> None:
    check(LONG[name], SHAPES, 5)
    assert len(set(runs)) > 4


@pytest.mark.parametrize("name", WIDE)
def test_any_number_of_rows(name: str) -> None:
    shapes = [(rows, WIDTH) for rows in (37, 29, 31, 64, 200, 2, 1, 0, 31, 20000, 48)]
    check(WIDE[name], shapes, 5)
    assert set(runs) == {WIDTH}


def test_the_first_sizes_may_be_left_open() -> None:
    check(softmax, ((64, 32), (32, 64), (128, 32), (64, 64), (64, 128)), 3, dynamic=True)


def test_one_kernel_serves_all_lengths() -> None:
    quick = fb.compile(softmax)
    for length in (40, 50, 60, 70, 80, 90):
        for _ in range(3):
            step(quick, fb.randn(30, length), fb.randn(WIDTH))
            assert background.finish(120)
    assert counters["fusion"]["kernels compiled"] + counters["fusion"]["kernels from the cache"] <= 9
    assert counters["fusion"]["programs of other sizes"] == 4
    assert {70, 80, 90} <= set(runs)


def test_an_index_that_is_out_of_range_at_another_size_is_an_error() -> None:
    quick = fb.compile(lambda x, y: F.cross_entropy(x * 2, y))
    for classes in (20, 24, 28, 32):
        for _ in range(3):
            quick(fb.randn(50, classes), fb.randint(0, classes, (50,)))
            assert background.finish(120)
    assert counters["fusion"]["programs of other sizes"] >= 2 and 32 in runs
    for index in (32, -1, 10**12):
        target = fb.zeros(50, dtype=fb.int64)
        target[49] = index
        with pytest.raises((IndexError, RuntimeError), match="out of bounds|out of range"):
            quick(fb.randn(50, 32), target)


def test_other_memory_orders_are_other_programs() -> None:
    quick = fb.compile(softmax)
    w = fb.randn(WIDTH)
    for length in (40, 50, 60, 70):
        for x in (
            fb.randn(30, length),
            fb.randn(length, 30).t(),
            fb.randn(30, 2 * length)[:, ::2],
            fb.randn(31, length)[1:],
            fb.randn(1, length).expand(30, length),
        ):
            plain, exact = step(softmax, x, w), step(softmax, x.double(), w.double())
            for _ in range(3):
                given = x.detach()
                assert fb.allclose(quick(given, w), plain[0], atol=1e-6)
            assert fb.allclose(plain[0].double(), exact[0], atol=1e-5)


def test_random_numbers_and_modes_are_those_of_the_program() -> None:
    def f(x: Any) -> Any:
        return F.dropout(fb.softmax(x, -1), 0.5) * x

    quick = fb.compile(f)
    for length in (40, 50, 60, 70, 80):
        x = fb.randn(30, length)
        for _ in range(3):
            fb.manual_seed(length)
            expected = f(x)
            fb.manual_seed(length)
            assert fb.allclose(quick(x), expected, atol=1e-6)


def test_half_types_and_rows_that_are_not_finite() -> None:
    quick = fb.compile(lambda x: fb.softmax(x * 2, -1) + x)
    for length in (40, 50, 60, 70, 80):
        x = fb.randn(30, length).bfloat16()
        x[3, 5], x[4, 6], x[5] = float("nan"), float("inf"), -float("inf")
        for _ in range(3):
            found, expected = quick(x), fb.softmax(x * 2, -1) + x
            assert background.finish(120)
            assert fb.allclose(found.float(), expected.float(), rtol=2e-2, atol=2e-2, equal_nan=True)


def test_a_program_that_depends_on_a_size_is_not_shared() -> None:
    def f(x: Any) -> Any:
        y = fb.softmax(x, -1)
        return y * 2 if x.shape[1] % 3 == 0 else y.square()

    quick = fb.compile(f)
    for length in (40, 41, 42, 43, 44, 45, 46, 48, 51):
        x = fb.randn(30, length)
        for _ in range(3):
            assert fb.allclose(quick(x), f(x), atol=1e-6)


def test_a_transformer_of_any_length() -> None:
    # Numbers near 0 have another gradient of relu after another rounding. Squares of normalized rows have a
    # constant sum, so their gradients would be rounding errors alone.
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, activation="gelu")
    quick = fb.compile(layer)
    for batch, length in (
        (3, 20),
        (3, 24),
        (3, 36),
        (3, 64),
        (3, 17),
        (5, 32),
        (2, 100),
        (1, 30),
        (3, 1),
        (3, 32),
    ):
        x = fb.randn(batch, length, 32)
        for _ in range(3):
            results = []
            for f in (quick, layer):
                layer.zero_grad()
                out = f(x)
                out.sin().sum().backward()
                results.append([out, *(p.grad.clone() for p in layer.parameters())])
            for a, b in zip(*results, strict=True):
                assert fb.allclose(a, b, rtol=1e-3, atol=1e-3 * b.abs().amax().item() + 1e-5)
    assert counters["fusion"]["programs of other sizes"] >= 3


def record(shared: Any, *numbers: Any) -> templates.Record:
    return templates.Record(shared, list(numbers))


@pytest.mark.parametrize(
    ("one", "two", "places"),
    [
        ((3, 4, 12), (5, 4, 20), {0: "n_0", 2: "n_1"}),
        ((3, 4, 3), (5, 4, 5), {0: "n_0", 2: "n_0"}),
        ((3, 4, 12), (4, 4, 16), None),  # equal to a fixed number
        ((3, 7), (5, 5), None),  # two numbers are equal by chance
        ((1, 4), (5, 4), None),
        ((5, 4), (0, 4), None),
        ((3, 4), (3, 4), None),
        ((3, 0.5), (5, 0.25), {0: "n_0", 1: "n_1"}),
        ((3, 4), (3.0, 4), None),
    ],
)
def test_numbers_that_differ(one: Any, two: Any, places: Any) -> None:
    made = templates.compared(record("s", *one), record("s", *two))
    assert (made.places if made else None) == places
    assert templates.compared(record("other", *one), record("s", *two)) is None


def test_numbers_of_another_record() -> None:
    made = templates.compared(record("s", 3, 4, 12, 3, 0.5), record("s", 5, 4, 20, 5, 0.25))
    assert made is not None
    assert made.numbers_of(record("s", 7, 4, 28, 7, 1.5)) == {"n_0": 7, "n_1": 28, "n_2": 1.5}
    for other in ((7, 5, 28, 7, 1.5), (7, 4, 28, 8, 1.5), (1, 4, 4, 1, 1.5), (7, 4.0, 28, 7, 1.5)):
        assert made.numbers_of(record("s", *other)) is None
    assert made.numbers_of(record("t", 7, 4, 28, 7, 1.5)) is None


def test_open_numbers_stay_open_in_copies_of_nodes() -> None:
    graph = fb.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(fb.ops.aten.mul.Scalar, (x, opened(3, "n_0")), {})
    other = fb.fx.Graph()
    copy = other.node_copy(node, lambda n: other.placeholder("y"))
    assert has_open(copy) and isinstance(copy.args[1], OpenInt) and copy.args[1].name == "n_0"
    assert isinstance(opened(0.5, "n_1"), OpenFloat)
    assert mapped((1, [2, {"k": 3}]), lambda leaf: leaf + 1) == (2, [3, {"k": 4}])


def test_stand_ins_keep_the_order_of_memory() -> None:
    x = fb.empty(6, 4, 5).permute(2, 0, 1)
    made = templates.stand_ins([x], [0], [(8, 9, 4)])
    assert made is not None
    sizes, strides = made[0].size(), made[0].stride()
    assert sizes[2] == 4 and sizes[0] != sizes[1] and strides == (1, 4 * sizes[0], sizes[0])
    assert templates.stand_ins([fb.empty(6, 8)[:, ::2]], [0], [(7, 4)]) is None
    assert templates.stand_ins([fb.empty(1, 8)], [0], [(7, 8)]) is None
    leaf = fb.empty(6, 4, requires_grad=True)
    for given in (leaf, leaf * 2, leaf.detach(), fb.empty(8, 4)[2:]):
        (like,) = templates.stand_ins([given], [0], [(9, 4)]) or [None]
        assert like.is_leaf == given.is_leaf and like.requires_grad == given.requires_grad
        assert like._is_view() == given._is_view() or not given.is_leaf
