"""Generated kernels of fused groups: the results of the operators called one by one."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flambeau as fb
import pytest
from flambeau.compiler.emit import background, compilation
from flambeau.compiler.emit.kernels import has_kernel
from flambeau.compiler.ir.loops import parsed

ROOT = Path(__file__).parents[2]
FLOATS = (fb.float32, fb.float64, fb.bfloat16, fb.float16)
INTEGERS = (fb.int8, fb.uint8, fb.int16, fb.int32, fb.int64)
TIME = 240
_LEVELS = fb._C._cpu_capabilities()
LOWER = _LEVELS[: _LEVELS.index(fb._C._cpu_capability())]

pytestmark = pytest.mark.skipif(compilation.compiler() is None, reason="needs a C++ compiler")


@pytest.fixture(autouse=True)
def kernels_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels run without a measurement, and none comes from an earlier test."""
    monkeypatch.setattr(background, "is_measured", False)
    monkeypatch.setenv("FLAMBEAU_TIER", "1")
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "cache"))


def recorded(function: Callable[..., list[Any]], inputs: list[Any]) -> Any:
    recorder = fb._C._FusedRecorder(inputs)
    with recorder:
        outputs = function(*inputs)
    return recorder.group(outputs)


def check_kernels(cases: list[tuple[Callable[..., list[Any]], list[Any]]], **tolerance: float) -> None:
    """All cases run in kernels of one translation unit, and give what single calls give."""
    groups = [recorded(function, inputs) for function, inputs in cases]
    texts = [group.texts(*inputs) for group, (_, inputs) in zip(groups, cases, strict=True)]
    assert all(own and all(has_kernel(parsed(text)) for text in own) for own in texts)
    background.compile_later(zip(groups, texts, strict=True))
    assert background.finish(TIME)
    for group, (function, inputs) in zip(groups, cases, strict=True):
        got = group(*inputs)
        assert set(group.choices()) == {"kernel"}
        for one, two in zip(got, function(*inputs), strict=True):
            assert one.dtype == two.dtype and one.shape == two.shape and one.stride() == two.stride()
            check_equal(one, two, **tolerance)


def check_equal(got: Any, want: Any, **tolerance: float) -> None:
    if tolerance:
        assert fb.allclose(got, want, equal_nan=True, **tolerance)
        return
    if got.is_floating_point():
        assert fb.equal(got.isnan(), want.isnan())
        got, want = got.nan_to_num(7.0), want.nan_to_num(7.0)
        assert fb.equal(got.signbit(), want.signbit())
    assert fb.equal(got, want)


SPECIAL = (
    0.0,
    -0.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e-40,
    -3e-42,
    6e-8,
    3.3e38,
    65504.0,
    1.5,
    -2.5,
)


def values(dtype: Any, count: int, chance: random.Random) -> Any:
    if dtype == fb.bool:
        return fb.tensor([chance.random() < 0.5 for _ in range(count)])
    if dtype in INTEGERS:
        low, high = (fb.iinfo(dtype).min, fb.iinfo(dtype).max)
        edges = [low, high, 0, 1, low + 1]
        picked = [
            chance.choice(edges) if chance.random() < 0.2 else chance.randint(low, high) for _ in range(count)
        ]
        return fb.tensor(picked, dtype=dtype)

    def one() -> float:
        return chance.choice(SPECIAL) if chance.random() < 0.2 else chance.gauss(0, 3)

    return fb.tensor([one() for _ in range(count)], dtype=fb.float64).to(dtype)


def strided(dtype: Any, shape: tuple[int, int], how: str, chance: random.Random) -> Any:
    """A tensor that broadcasts to `shape`; "sliding" has elements that share memory."""
    rows, columns = shape
    if how == "row":
        return values(dtype, columns, chance)
    if how == "column":
        return values(dtype, rows, chance).view(rows, 1)
    if how == "one":
        return values(dtype, 1, chance).view(())
    if how == "transposed":
        return values(dtype, rows * columns, chance).view(columns, rows).t()
    if how == "steps":
        return values(dtype, 2 * rows * columns, chance).view(rows, 2 * columns)[:, ::2]
    if how == "sliding":
        return values(dtype, rows + columns, chance).as_strided((rows, columns), (1, 1))
    return values(dtype, rows * columns, chance).view(rows, columns)


WAYS = ("plain", "row", "column", "one", "transposed", "steps", "sliding")
BOTH = [fb.add, fb.sub, fb.mul, fb.maximum, fb.minimum, lambda a, b: fb.where(a > b, a, b)]
BOTH += [lambda a, b: (a == b) + a, lambda a, b: fb.add(a, b, alpha=2), lambda a, b: a * 3 - b]
OF_INTEGERS = [fb.bitwise_and, fb.bitwise_or, fb.bitwise_xor, lambda a, b: -a + b, lambda a, b: a.abs() - b]
OF_FLOATS = [
    lambda a, b: a / b,
    lambda a, b: a.relu() + b,
    lambda a, b: a.sqrt() * b,
    lambda a, b: a * 0.3 + b,
]
OF_FLOATS += [lambda a, b: a.clamp(-1.0, 2.0) - b, lambda a, b: a.floor() + b.sign(), fb.fmax]


def random_graph(
    dtypes: tuple[Any, ...], chance: random.Random
) -> tuple[Callable[..., list[Any]], list[Any]]:
    shape = chance.choice([(1, 1), (3, 70), (33, 31), (5, 1), (1, 257)])
    inputs = [strided(chance.choice(dtypes), shape, chance.choice(WAYS), chance) for _ in range(2)]
    inputs.insert(0, strided(chance.choice(dtypes), shape, "plain", chance))
    pool = BOTH + (OF_FLOATS if dtypes[0] in FLOATS else OF_INTEGERS if dtypes[0] in INTEGERS else [])
    plan = [(chance.choice(pool), chance.random(), chance.random()) for _ in range(chance.randint(2, 7))]

    def graph(*tensors: Any) -> list[Any]:
        made = list(tensors)
        for operator, one, two in plan:
            made.append(operator(made[int(one * len(made))], made[int(two * len(made))]))
        last = made[0] + made[-1]
        return [last, last * made[1]]

    return graph, inputs


KINDS = [(dtype,) for dtype in (*FLOATS, *INTEGERS)]
KINDS += [(fb.float32, fb.bfloat16, fb.float64), (fb.bfloat16, fb.float32), (fb.int32, fb.uint8, fb.int64)]
KINDS += [(fb.float32, fb.int32, fb.bool), (fb.float16, fb.bfloat16)]


@pytest.mark.parametrize("dtypes", KINDS, ids=lambda kind: "_".join(str(d)[9:] for d in kind))
def test_random_graphs_give_the_bits_of_single_operators(dtypes: tuple[Any, ...]) -> None:
    chance = random.Random(str(dtypes))
    check_kernels([random_graph(dtypes, chance) for _ in range(4)])


@pytest.mark.skipif(len(LOWER) == 0, reason="one instruction set")
@pytest.mark.parametrize("isa", LOWER)
def test_random_graphs_under_other_instruction_sets(isa: str) -> None:
    environment = {**os.environ, "FLAMBEAU_CPU_ISA": isa}
    name = "random_graphs_give and (float32 or bfloat16 or int32)"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", name],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def complex_values(dtype: Any, count: int, chance: random.Random) -> Any:
    parts = fb.float32 if dtype == fb.complex64 else fb.float64
    return fb.complex(values(parts, count, chance), values(parts, count, chance))


def parts_of(case: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The real and imaginary parts of complex results, which are compared bit for bit."""
    return lambda *inputs: [
        part for r in case(*inputs) for part in (fb.view_as_real(r).unbind(-1) if r.is_complex() else (r,))
    ]


@pytest.mark.parametrize("dtype", [fb.complex64, fb.complex128])
def test_loops_over_complex_numbers_give_the_bits_of_single_operators(dtype: Any) -> None:
    chance = random.Random(str(dtype))
    x, y = (complex_values(dtype, 3000, chance) for _ in range(2))
    real = values(fb.float32, 3000, chance)
    programs: list[tuple[Callable[..., list[Any]], list[Any]]] = [
        (lambda a, b: [a * b, (a - b) * (1 + 2j)], [x[::3], y[::3]]),
        (lambda a, b: [(a == b) & (a != 1), fb.where(a == b, a, b * 2)], [x, y.clone()]),
        (lambda a, r: [a * r + r, a - r * 2], [x, real]),
        (lambda a, b: [-(a + b), (a + b) * b], [x.view(30, 100), y[:100]]),
    ]
    groups = [recorded(function, inputs) for function, inputs in programs]
    texts = [group.texts(*inputs) for group, (_, inputs) in zip(groups, programs, strict=True)]
    assert all(own and all(has_kernel(parsed(text)) for text in own) for own in texts)
    background.compile_later(zip(groups, texts, strict=True))
    assert background.finish(TIME)
    for group, (function, inputs) in zip(groups, programs, strict=True):
        got, want = parts_of(lambda *i, g=group: g(*i))(*inputs), parts_of(function)(*inputs)
        assert set(group.choices()) == {"kernel"}
        for one, two in zip(got, want, strict=True):
            check_equal(one, two)


def test_functions_of_complex_numbers_are_within_their_error_bounds() -> None:
    x = fb.randn(2000, dtype=fb.complex64)
    names = ("exp", "sqrt", "tanh", "sigmoid", "reciprocal", "square")
    cases = [((lambda t, n=name: [getattr(t * 0.5, n)() * 1.25 + t]), [x]) for name in names]
    # GCC 12 makes one rounded operation of some products and sums, in eager loops too.
    cases.append((lambda t: [(t * t + t) * 2 - t], [x]))
    check_kernels(cases, rtol=2e-6, atol=1e-6)


def test_every_float16_is_read_rounded_and_written_as_by_single_operators() -> None:
    everything = fb.arange(-(2**15), 2**15, dtype=fb.int16).view(fb.float16)
    chance = random.Random(16)
    shuffled = [everything[fb.tensor(chance.sample(range(2**16), 2**16))] for _ in range(3)]
    check_kernels(
        [
            (lambda t: [t * 1 + 0, -t, t * 3 - t], [everything]),
            (
                lambda t, u: [fb.where(u == 0, t, t * 2), fb.maximum(t, u) * u],
                [everything, everything.flip(0)],
            ),
            *((lambda t, u: [(t * u) * 0.5, t + u * 2, t / u - t], [everything, u]) for u in shuffled),
        ]
    )


def test_loops_over_float8() -> None:
    bits = fb.arange(0, 256, dtype=fb.uint8)
    for dtype in (fb.float8_e4m3fn, fb.float8_e5m2, fb.float8_e4m3fnuz, fb.float8_e5m2fnuz):
        x, y = bits.view(dtype), bits.flip(0).contiguous().view(dtype)
        mask = bits % 3 == 0
        group = recorded(lambda m, a, b: [fb.where(m, a, b), fb.where(m & True, b, a)], [mask, x, y])
        texts = group.texts(mask, x, y)
        assert texts and all(has_kernel(parsed(text)) for text in texts)
        background.compile_later([(group, texts)])
        assert background.finish(TIME)
        got, want = group(mask, x, y), [fb.where(mask, x, y), fb.where(mask, y, x)]
        assert set(group.choices()) == {"kernel"}
        for one, two in zip(got, want, strict=True):
            assert one.dtype == dtype and fb.equal(one.float().isnan(), two.float().isnan())
            assert fb.equal(one.float().nan_to_num(7.0), two.float().nan_to_num(7.0))


FUNCTIONS = ("exp", "log", "tanh", "sigmoid", "sin", "erf", "expm1", "log1p", "rsqrt", "atan", "sinh")


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
def test_functions_are_within_their_error_bounds(dtype: Any) -> None:
    chance = random.Random(3)
    x = values(dtype, 1000, chance)

    def case(name: str) -> Callable[..., list[Any]]:
        return lambda t: [getattr(t * 0.5, name)() * 1.25]

    rtol = 2e-6 if dtype == fb.float32 else 1e-14
    check_kernels([(case(name), [x]) for name in FUNCTIONS], rtol=rtol, atol=1e-44)


def test_a_division_of_integers_by_zero_is_an_error() -> None:
    x = fb.arange(5000, dtype=fb.int32)
    group = recorded(lambda a, b: [fb.floor_divide(a, b) + 1], [x, x + 1])
    background.compile_later([(group, group.texts(x, x + 1))])
    assert background.finish(TIME)
    assert fb.equal(group(x, x + 1)[0], fb.floor_divide(x, x + 1) + 1)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        group(x, x)
    assert group.choices() == ["kernel"]


def test_a_kernel_serves_other_sizes_and_numbers() -> None:
    def function(a: Any, b: Any) -> list[Any]:
        return [(a * 2 + b).relu() * b]

    small = [fb.randn(7, 9), fb.randn(7, 9)]
    group = recorded(function, small)
    background.compile_later([(group, group.texts(*small))])
    assert background.finish(TIME)
    for shape in ((100, 333), (20000,), (2, 3, 4)):
        inputs = [fb.randn(shape), fb.randn(shape)]
        assert fb.equal(group(*inputs)[0], function(*inputs)[0])
        assert group.choices() == ["kernel"]
    turned = [fb.randn(40, 30).t(), fb.randn(30, 40)]  # other steps: through the loops of the operators
    assert fb.equal(group(*turned)[0], function(*turned)[0])
    empty = [fb.empty(0, 4), fb.empty(0, 4)]
    assert group(*empty)[0].shape == (0, 4)
    given = fb.full((100, 333), 5.0)
    inputs = [fb.randn(100, 333), fb.randn(100, 333)]
    group.into([given], *inputs)
    assert fb.equal(given, function(*inputs)[0])
    want = function(inputs[0], inputs[1])[0]
    group.into([inputs[0]], *inputs)  # the result overlaps an input
    assert fb.equal(inputs[0], want)


def test_compiled_functions_use_kernels() -> None:
    counts = fb._dynamo.utils.counters["fusion"]
    before = counts["kernels compiled"]

    def function(x: Any, y: Any) -> Any:
        return ((x * 2 + y).relu() * x - y) * 0.5 + x

    x = fb.randn(100, 200, requires_grad=True)
    y = fb.randn(100, 200)
    compiled = fb.compile(function)
    compiled(x, y)
    assert background.finish(TIME)
    assert counts["kernels compiled"] > before
    got, want = compiled(x, y), function(x, y)
    assert fb.equal(got, want)
    (one,), (two,) = fb.autograd.grad(got.sum(), x), fb.autograd.grad(want.sum(), x)
    assert fb.equal(one, two)


def test_the_option_of_a_function_comes_before_the_environment() -> None:
    counts = fb._dynamo.utils.counters["fusion"]
    before = dict(counts)
    x = fb.randn(5000)
    fb.compile(lambda t: (t * 3 + 1).relu() - t, options={"tier": 0})(x)
    assert background.finish(TIME)
    assert counts["kernels compiled"] == before.get("kernels compiled", 0)
    with pytest.raises(RuntimeError, match='options\\["tier"\\]: expected 0 or 1, got 2'):
        fb.compile(lambda t: (t * 3 + 1).relu() + t, options={"tier": 2})(x)
    os.environ["FLAMBEAU_TIER"] = "fast"  # monkeypatch restores it
    with pytest.raises(RuntimeError, match="FLAMBEAU_TIER: expected 0 or 1, got 'fast'"):
        background.tier()


def choices_with_kernel(body: str) -> list[str]:
    """Measure a kernel with this body in a group of one part; return what stays."""
    source = (
        "#include <time.h>\n#include <cstdint>\n"
        'extern "C" __attribute__((visibility("default"))) uint32_t kernel(int64_t, int64_t, char* const*, '
        f"const int64_t*, const void*) {{ {body} return 0; }}\n"
    )
    library = background._loaded(compilation.Run().library(source))
    address = ctypes.cast(library.kernel, ctypes.c_void_p).value
    x = fb.randn(1 << 20)
    group = recorded(lambda t: [(t * 2 + 1).tanh() * t], [x])
    for text in group.texts(x):
        group.install(text, address, True)
    threads = fb.get_num_threads()
    fb.set_num_threads(1)  # other work of the machine would decide how long threads wait
    for _ in range(20):
        group(x)
    fb.set_num_threads(threads)
    return group.choices()


def test_the_quicker_way_stays() -> None:
    assert choices_with_kernel("timespec t{0, 20000000}; nanosleep(&t, nullptr);") == ["codes"]
    assert choices_with_kernel("") == ["kernel"]
