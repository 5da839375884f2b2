"""Generated kernels of row groups: errors against float64, unusual rows, memory orders, writes, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau._dynamo.utils import counters
from flambeau.compiler.emit import background, compilation
from flambeau.compiler.emit import row_kernels as emitted
from flambeau.compiler.passes import row_loops

TIME = 240
ROWS, COLUMNS = 24, 70

pytestmark = pytest.mark.skipif(compilation.compiler() is None, reason="needs a C++ compiler")
made: list[Any] = []


@pytest.fixture(autouse=True)
def kernels_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Groups of any size have kernels, which run without a measurement."""
    monkeypatch.setattr(background, "is_measured", False)
    monkeypatch.setattr(row_loops, "LEAST_ELEMENTS", 1)
    monkeypatch.setenv("FLAMBEAU_TIER", "1")
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(Path(tmp_path_factory.getbasetemp()) / "cache"))
    counters["fusion"].clear()
    made.clear()
    init, run = emitted.RowKernel.__init__, emitted.RowKernel.run

    def note(self: Any, *given: Any) -> None:
        init(self, *given)
        self.runs = 0
        made.append(self)

    def counted(self: Any, *inputs: Any) -> Any:
        self.runs += 1
        return run(self, *inputs)

    monkeypatch.setattr(emitted.RowKernel, "__init__", note)
    monkeypatch.setattr(emitted.RowKernel, "run", counted)


def variance(x: Any) -> Any:
    v, mean = fb.var_mean(x, -1, keepdim=True)
    return ((x - mean) * (v + 1e-5).rsqrt()).relu()


def attention_mask(x: Any, m: Any) -> Any:
    return fb.softmax(x * 0.125 + m, -1)


def several(x: Any, w: Any) -> Any:
    top, bottom = x.amax(-1, keepdim=True), x.amin(-1, keepdim=True)
    return (x - bottom) / (top - bottom + 1) * w, (x * w).sum(-1), top.squeeze(-1) * 2


def without_keepdim(x: Any) -> Any:
    centred = x - x.mean(-1).unsqueeze(-1)
    return centred * (centred.square().mean(-1) + 1e-5).rsqrt().unsqueeze(-1) * 2


def sample(*sizes: int, grad: bool = True) -> Any:
    return fb.randn(sizes, dtype=fb.float64).requires_grad_(grad)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, w: attention_mask(x, w),
    "log_softmax": lambda x, w: F.log_softmax(x * 2, -1) * w,
    "layer_norm": lambda x, w: F.gelu(F.layer_norm(x, (COLUMNS,), w, w * 2)),
    "layer_norm alone": lambda x, w: F.layer_norm(x * 3, (COLUMNS,)) + w,
    "layer_norm of a weight": lambda x, w: F.layer_norm(x, (COLUMNS,), w, None).tanh(),
    "rms_norm": lambda x, w: F.rms_norm(x, (COLUMNS,), w) * x.sigmoid(),
    "variance": lambda x, w: variance(x) * w,
    "several": lambda x, w: several(x, w)[0] + several(x, w)[1].unsqueeze(-1),
    "several results": several,
    "without keepdim": lambda x, w: without_keepdim(x) + w,
    "bias": lambda x, w: (x * 2 + w).relu(),
    "logsumexp in words": lambda x, w: (x * w - x.amax(-1, keepdim=True)).exp().sum(-1).log() + x.amax(-1),
}
BOUNDS = {fb.float64: 1e-12, fb.float32: 4e-6, fb.bfloat16: 3e-2, fb.float16: 4e-3}


def results_and_gradients(function: Callable[..., Any], inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    leaves = [v.detach().clone().requires_grad_(v.requires_grad) for v in inputs]
    result = function(*leaves)
    results = [result] if isinstance(result, fb.Tensor) else list(result)
    weights = [fb.arange(r.numel()).view(r.size()).cos() for r in results]
    total = sum((r.double() * w).sum() for r, w in zip(results, weights, strict=True) if r.requires_grad)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    found = fb.autograd.grad(total, wanted) if wanted else ()
    return [r.detach() for r in results], list(found)


def compiled(function: Callable[..., Any], inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Run a function until its kernels are installed, and once more."""
    quick = fb.compile(function)
    for _ in range(2):
        results_and_gradients(quick, inputs)
        assert background.finish(TIME)
    return results_and_gradients(quick, inputs)


def error(got: Any, want: Any) -> float:
    scale = want.double().abs().amax().clamp(min=1e-3)
    return float(((got.double() - want.double()).abs() / scale).amax())


CASES = [(name, fb.float32) for name in PROGRAMS]
CASES += [(name, dtype) for name in ("softmax", "layer_norm", "several") for dtype in BOUNDS]


@pytest.mark.parametrize("name, dtype", dict.fromkeys(CASES))
def test_errors_against_float64(name: str, dtype: Any) -> None:
    fb.manual_seed(3)
    function = PROGRAMS[name]
    exact = [sample(ROWS, COLUMNS).to(dtype).double(), sample(COLUMNS).to(dtype).double()]
    exact = [x.detach().requires_grad_() for x in exact]
    inputs = [x.detach().to(dtype, copy=True).requires_grad_() for x in exact]
    got, by = compiled(function, inputs)
    assert made and all(kernel.runs for kernel in made)
    plain, by_plain = results_and_gradients(function, inputs)
    want, by_want = results_and_gradients(function, exact)
    for one, two, three in zip(got + by, plain + by_plain, want + by_want, strict=True):
        assert one.dtype == two.dtype and one.size() == two.size() and one.stride() == two.stride()
        assert error(one, three) <= max(BOUNDS[dtype], 2 * error(two, three))


SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, 3e38, 1e-40]


@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "layer_norm", "rms_norm", "variance", "several results"]
)
def test_rows_that_are_not_finite_stay_apart(name: str) -> None:
    function = PROGRAMS[name]
    x, w = sample(ROWS, COLUMNS, grad=False).float(), sample(COLUMNS, grad=False).float()
    for i, value in enumerate(SPECIAL):
        x[i] = value
        x[i + 8, 3] = value
    got, _ = compiled(function, [x, w])
    want, _ = results_and_gradients(function, [x, w])
    assert made
    for one, two in zip(got, want, strict=True):
        assert fb.equal(one.isnan(), two.isnan())
        assert fb.allclose(one.nan_to_num(), two.nan_to_num(), rtol=1e-5, atol=1e-5)
        rest = slice(16, ROWS)
        assert one[rest].isfinite().all() and fb.allclose(one[rest], two[rest], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows, columns", [(1, 16), (3, 20000), (40, 17), (1, 70001)])
def test_sizes_of_rows(rows: int, columns: int) -> None:
    x, w = sample(rows, columns).float().detach().requires_grad_(), sample(columns, grad=False).float()
    for name in ("softmax", "variance"):
        got, by = compiled(PROGRAMS[name], [x, w])
        want, by_want = results_and_gradients(PROGRAMS[name], [x, w])
        for one, two in zip(got + by, want + by_want, strict=True):
            assert error(one, two) < 1e-5
    assert made


def test_long_rows_keep_small_errors() -> None:
    x = fb.rand(1, 1 << 20, dtype=fb.float32) + 100
    got, _ = compiled(lambda x: (x * 2).mean(-1) + 1, [x])
    want = (x.double() * 2).mean(-1) + 1
    assert made and abs(float(got[0] - want) / float(want)) < 1e-6


@pytest.mark.parametrize("columns", [0, 1, 2, 15])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_empty_and_short_rows_have_no_kernel(rows: int, columns: int) -> None:
    x, w = fb.randn(rows, columns), fb.randn(columns)
    got, _ = compiled(PROGRAMS["softmax"], [x, w])
    want, _ = results_and_gradients(PROGRAMS["softmax"], [x, w])
    assert not made and fb.equal(got[0], want[0])


LAYOUTS: dict[str, Callable[[], Any]] = {
    "transposed": lambda: fb.randn(COLUMNS, ROWS).t(),
    "stepped": lambda: fb.randn(2 * ROWS, 2 * COLUMNS)[::2, ::2],
    "expanded rows": lambda: fb.randn(1, COLUMNS).expand(ROWS, COLUMNS),
    "expanded columns": lambda: fb.randn(ROWS, 1).expand(ROWS, COLUMNS),
    "offset": lambda: fb.randn(ROWS + 1, COLUMNS + 1)[1:, 1:],
    "sliding": lambda: fb.randn(ROWS + COLUMNS).as_strided((ROWS, COLUMNS), (1, 1)),
    "three dimensions": lambda: fb.randn(4, 6, COLUMNS).transpose(0, 1),
    "four dimensions": lambda: fb.randn(2, 3, 4, COLUMNS)[:, 1:],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_orders(layout: str) -> None:
    x, w = LAYOUTS[layout](), fb.randn(COLUMNS)
    for name in ("softmax", "layer_norm", "without keepdim", "several results"):
        got, _ = compiled(PROGRAMS[name], [x, w])
        want, _ = results_and_gradients(PROGRAMS[name], [x, w])
        for one, two in zip(got, want, strict=True):
            assert one.stride() == two.stride() and fb.allclose(one, two, rtol=1e-4, atol=1e-5)
    assert made


def test_other_strides_run_the_operators() -> None:
    quick = fb.compile(PROGRAMS["softmax"], dynamic=False)
    x, w = fb.randn(COLUMNS, COLUMNS), fb.randn(COLUMNS)
    for _ in range(2):
        quick(x, w)
        assert background.finish(TIME)
    assert fb.allclose(quick(x.t(), w), PROGRAMS["softmax"](x.t(), w), atol=1e-6)


def test_masks_broadcast_over_heads() -> None:
    x, mask = fb.randn(2, 3, 20, 20), fb.randn(2, 1, 20, 20)
    for m in (mask, mask[0], mask[0, 0], mask[:, :, :1], mask[..., :1]):
        got, _ = compiled(attention_mask, [x, m])
        assert fb.allclose(got[0], attention_mask(x, m), atol=1e-6)
    assert made


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(reduction: str, smoothing: float) -> None:
    target = fb.randint(0, COLUMNS, (ROWS,))
    target[3] = -100

    def loss(x: Any) -> Any:
        return F.cross_entropy(x * 2, target, reduction=reduction, label_smoothing=smoothing)

    x = sample(ROWS, COLUMNS).float().detach().requires_grad_()
    got, by = compiled(loss, [x])
    want, by_want = results_and_gradients(loss, [x])
    assert made and all(kernel.runs for kernel in made)
    for one, two in zip(got + by, want + by_want, strict=True):
        assert fb.allclose(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("index", [COLUMNS, -1, 1 << 40])
def test_indices_out_of_range_are_errors(index: int) -> None:
    x, at = fb.randn(ROWS, COLUMNS), fb.zeros(ROWS, 1, dtype=fb.int64)

    def picked(x: Any, at: Any) -> Any:
        return F.log_softmax(x * 2, -1).gather(-1, at) * 2

    got, _ = compiled(picked, [x, at])
    assert made and made[0].runs and fb.allclose(got[0], picked(x, at), rtol=1e-5)
    quick = fb.compile(picked)
    for _ in range(2):
        quick(x, at)
        assert background.finish(TIME)
    at[5] = index
    with pytest.raises(RuntimeError) as plain:
        picked(x, at)
    with pytest.raises(RuntimeError) as by_kernel:
        quick(x, at)
    assert str(plain.value) == str(by_kernel.value)


def test_equal_sizes_of_rows_and_columns_broadcast_as_written() -> None:
    x = fb.randn(COLUMNS, COLUMNS)

    def wrong_side(x: Any) -> Any:  # the means are along columns, and are subtracted from rows
        return (x * 2 - x.mean(-1)) * 3 + x.sum(-1, keepdim=True)

    got, _ = compiled(wrong_side, [x])
    assert fb.allclose(got[0], wrong_side(x), rtol=1e-5, atol=1e-4)


def test_integers_are_summed_in_int64() -> None:
    x = fb.randint(-(2**31), 2**31 - 1, (ROWS, COLUMNS), dtype=fb.int32)
    got, _ = compiled(lambda x: (x.sum(-1) + 1, x.amax(-1) - x.amin(-1)), [x])
    assert fb.equal(got[0], x.sum(-1) + 1) and fb.equal(got[1], x.amax(-1) - x.amin(-1))


def test_sums_in_another_dtype() -> None:
    x = fb.randn(ROWS, COLUMNS, dtype=fb.bfloat16)
    got, _ = compiled(lambda x: ((x * 3).sum(-1, dtype=fb.float32) * 2, (x * 3).mean(-1)), [x])
    assert made and got[0].dtype == fb.float32
    assert fb.allclose(got[0], (x * 3).sum(-1, dtype=fb.float32) * 2, rtol=1e-5, atol=1e-5)
    assert fb.allclose(got[1], (x * 3).mean(-1), rtol=1e-2)


def test_writes_keep_their_order() -> None:
    def f(x: Any, y: Any) -> Any:
        z = F.softmax(x * 2, -1)
        x.add_(1)
        y.copy_(z)
        return F.softmax(x * 2, -1) + y

    quick = fb.compile(f)
    x, y = fb.randn(ROWS, COLUMNS), fb.zeros(ROWS, COLUMNS)
    twin, other = x.clone(), y.clone()
    for _ in range(3):
        assert fb.allclose(quick(x, y), f(twin, other), atol=1e-6)
        assert fb.equal(x, twin) and fb.allclose(y, other, atol=1e-6)
        assert background.finish(TIME)


def test_threads_share_one_kernel_and_give_the_same_sums() -> None:
    x, w = sample(400, COLUMNS).float().detach(), fb.randn(COLUMNS, requires_grad=True)
    quick = fb.compile(PROGRAMS["layer_norm"])

    def step() -> Any:
        return fb.autograd.grad(quick(x, w).sum(), w)[0]

    for _ in range(2):
        step()
        assert background.finish(TIME)
    first, failures = step(), []

    def run() -> None:
        failures.extend(i for i in range(30) if not fb.equal(step(), first))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made and not failures


def test_deterministic_programs_run_the_operators() -> None:
    x, w = fb.randn(ROWS, COLUMNS), fb.randn(COLUMNS)
    compiled(PROGRAMS["softmax"], [x, w])
    quick = fb.compile(PROGRAMS["softmax"])
    quick(x, w)
    background.finish(TIME)
    runs = [kernel.runs for kernel in made]
    fb.use_deterministic_algorithms(True)
    try:
        quick(x, w)
    finally:
        fb.use_deterministic_algorithms(False)
    assert [kernel.runs for kernel in made] == runs + [0] * (len(made) - len(runs))


def test_the_quicker_way_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "is_measured", True)
    clock = iter(range(10**6))
    monkeypatch.setattr(emitted.time, "perf_counter", lambda: float(next(clock)))
    quick = fb.compile(PROGRAMS["softmax"])
    x, w = fb.randn(ROWS, COLUMNS), fb.randn(COLUMNS)
    assert made == []
    quick(x, w)
    assert background.finish(TIME)
    for _ in range(60):
        quick(x, w)
    assert [kernel.choice for kernel in made] == ["operators"]  # equal times are no gain
    times = {True: 1.0, False: 2.0}
    kernel = made[0]
    kernel.trial = emitted.Trial()
    now = [0.0]
    run, operators = kernel.run, kernel._operators

    def timed(function: Callable[..., Any], is_kernel: bool) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            now[0] += times[is_kernel]
            return function(*given)

        return call

    monkeypatch.setattr(emitted.time, "perf_counter", lambda: now[0])
    kernel.run, kernel._operators = timed(run, True), timed(operators, False)
    for _ in range(60):
        quick(x, w)
    assert kernel.choice == "kernel"


def test_no_kernels_at_tier_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_TIER", "0")
    compiled(PROGRAMS["layer_norm"], [fb.randn(ROWS, COLUMNS), fb.randn(COLUMNS)])
    assert not made and "groups of row kernels" not in counters["fusion"]


LARGE = 1 << 62
OUTSIDE = {
    "columns": (17, (8,), (4, 64)),
    "rows": (16, (9,), (4, 64)),
    "before": (16, (8,), (-4, 64)),
    "step": (16, (8,), (8, 64)),
    "huge": (LARGE, (8,), (4, 64)),
    "product": (16, (LARGE,), (4, LARGE)),
    "negative": (16, (-8,), (4, 64)),
    "few strides": (16, (8,), (4,)),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_arrays_outside_of_their_memory_are_refused(name: str) -> None:
    columns, rows, strides = OUTSIDE[name]
    with pytest.raises(RuntimeError, match="_run_row_kernel: expected"):
        fb._C._run_row_kernel(0, columns, rows, strides, 0, 1, b"", (fb.zeros(8, 16),), None)


def test_offsets_count_when_memory_is_checked() -> None:
    whole, empty = fb.zeros(9, 16), fb.zeros(0, 16)
    with pytest.raises(RuntimeError, match="within the memory"):
        fb._C._run_row_kernel(0, 16, (9,), (4, 64), 0, 1, b"", (whole[1:],), None)
    with pytest.raises(RuntimeError, match="expected sums"):
        fb._C._run_row_kernel(0, 16, (0,), (4, 64), 0, 1, b"", (empty,), fb.zeros(17, dtype=fb.float64))
    assert fb._C._run_row_kernel(0, 16, (0,), (4, 64), 0, 1, b"", (empty,), None) == 0


def test_facts_of_reductions_and_casts_come_from_the_specification() -> None:
    sums = {name for name in ("sum.dim_IntList", "nansum", "mean.dim", "prod.dim_int", "any.dim", "amax")
            if fb._C._fold_of(name)[2]}  # fmt: skip
    truths = {name for name in ("sum.dim_IntList", "any.dim", "all.dim", "amax") if fb._C._fold_of(name)[3]}
    assert sums == {"sum.dim_IntList"} and truths == {"any.dim", "all.dim"}
    assert [fb._C._is_cast(name) for name in ("_to_copy", "clone", "add.Tensor", "no such")] == [
        True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("reduce", [fb.nansum, fb.mean, fb.sum])
def test_only_plain_sums_run_over_rows(reduce: Callable[..., fb.Tensor]) -> None:
    def function(x: fb.Tensor) -> tuple[fb.Tensor, fb.Tensor]:
        y = fb.softmax(x * 2, -1)
        return y, reduce(fb.where(y > 0.01, y, float("nan")) if reduce is fb.nansum else y, (0,))

    x = fb.randn(64, 128)
    compiled = fb.compile(function)
    for _ in range(3):
        results = compiled(x)
    for one, other in zip(results, function(x), strict=True):
        assert fb.allclose(one, other, rtol=1e-5, atol=1e-6)
