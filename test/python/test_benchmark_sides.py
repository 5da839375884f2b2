"""Timers, measurements, tables and fuzzers beside PyTorch's: equal numbers, texts, cases and errors."""

import importlib
import re
import shutil
from unittest import mock

import flambeau as fb
import numpy
import pytest
from sides import Scenarios, raised

scenario = Scenarios()


def benchmark(torch):
    return importlib.import_module(f"{torch.__name__}.utils.benchmark")


def measured(torch, times, runs=1, stmt="f(x)", setup="pass", **labels):
    b = benchmark(torch)
    return b.Measurement(runs, times, b.TaskSpec(stmt, setup, **labels))


SETS = (
    [1e-3], [1e-3, 2e-3], [1, 1.2, 1.1, 5.0], [0.01, 0.02, 0.011], [3e-6] * 5, [1e-9], [100.0, 101, 102.3],
    [1, 1.3, 1, 1, 1], [1, 1.2] * 5, [1, 3.0] * 50, [1e-9, 2e-9] * 5,
)  # fmt: skip


@scenario
def statistics_of_measurements(torch):
    made = [measured(torch, times, 10) for times in SETS]
    return [
        (m.mean, m.median, m.iqr, m.significant_figures, m.has_warnings, m.meets_confidence(0.05))
        for m in made
    ]


@scenario
def reports_of_measurements(torch):
    made = [measured(torch, times, 1 if times[0] < 1e-8 else 7) for times in SETS]
    made.append(measured(torch, [1e-3, 2e-3], 10, label="L", sub_label="S", description="D", num_threads=4))
    made.append(measured(torch, [0.5], stmt="a\nb", setup="import a\nb = 1"))
    made.append(measured(torch, [0.5], setup="x = 1", sub_label="S"))
    # The first line has an address, the lines of a warning are in each framework's own words.
    return [
        [line for line in re.sub(r"WARNING.*", "WARNING", repr(m), flags=re.S).splitlines()[1:]] for m in made
    ]


@scenario
def texts_of_tasks(torch):
    T = benchmark(torch).TaskSpec
    tasks = (
        T("a\nb", "x\ny"), T("a\nb", "x", label="L"), T("a", "x", sub_label="S", description="D"),
        T("a\nb", "pass", sub_label="S", label="L", description="D\nE"), T("a", "x\ny"), T("a", ""),
    )  # fmt: skip
    return [(one.title, one.setup_str(), one.summarize()) for one in tasks]


@scenario
def merged_measurements(torch):
    merge = benchmark(torch).Measurement.merge
    made = [
        measured(torch, [1, 2], 10), measured(torch, [3], 20), measured(torch, [3], 20, label="z"),
    ]  # fmt: skip
    return [(m.number_per_run, m.raw_times) for m in merge(made)]


def tables(torch, measurements):
    Compare = benchmark(torch).Compare
    out = []
    for change in ("", "trim", "colorize", "rowwise", "highlight", "all"):
        table = Compare(measurements)
        if change in ("trim", "all"):
            table.trim_significant_figures()
        if change in ("colorize", "rowwise", "all"):
            table.colorize(rowwise=change == "rowwise")
        if change in ("highlight", "all"):
            table.highlight_warnings()
        out += [line for line in str(table).splitlines() if not line.startswith("(! XX%)")]
    return out


@scenario
def tables_with_gaps_threads_and_labels(torch):
    return tables(
        torch,
        [
            measured(torch, [1e-3, 1.1e-3], label="A", sub_label="s1", description="d1"),
            measured(torch, [2e-3, 2.9e-3], label="A", sub_label="s1", description="d2"),
            measured(torch, [3e-6, 3.1e-6], label="A", sub_label="s2", description="d1"),
            measured(torch, [5e-4], label="A", sub_label="s2", description="d2", num_threads=4),
            measured(torch, [1.5], label="B", stmt="g()", description="d"),
            measured(torch, [2.5], stmt="h()\nk()", description=""),
            measured(torch, [0.5], label="a label wider than its table", description="q"),
        ],
    )


@scenario
def tables_with_environments(torch):
    return tables(
        torch,
        [
            measured(
                torch,
                [1e-3 * (i + 1)],
                sub_label="row" * (i + 1),
                label="lab",
                description=f"desc{j}",
                env=env,
                num_threads=threads,
            )
            for i in range(3)
            for j in range(2)
            for env in ("e", "third env", "env2")
            for threads in (1, 16)
        ],
    )


@scenario
def colours_by_ratio(torch):
    ratios = [1, 1.005, 1.02, 1.05, 1.09, 1.16, 1.5, 1.9, 2.1, 3, 4.9, 5.1, 400]
    made = [measured(torch, [1e-3 * r], label="x", sub_label=str(r), description="d") for r in ratios]
    return tables(torch, made)


@scenario
def rounded_numbers_and_units(torch):
    b = benchmark(torch)
    rounded = [
        round(b.trim_sigfig(v, n), 5) for v in (1, 123, 12345, 99.99, -1.26) for n in (1, 2, 3) if v > -9
    ]
    rounded = [float(f"{v:.4g}") for v in rounded]
    units = [b.select_unit(t)[0] for t in (1, 0.5, 1e-3, 1e-5, 1e-6, 1e-9, 100, 9.99e-4)]
    return rounded, units, [b.unit_to_english(u) for u in ("ns", "us", "ms", "s")]


@scenario
def errors_of_timers(torch):
    b = benchmark(torch)
    return [
        raised("language", b.Timer, "1", language="rust"),
        raised("global_setup", b.Timer, "1", global_setup="x"),
        raised("", b.Timer, "1 2"),
        raised("globals", b.Timer, "1", language="cpp", globals={"x": 1}),
        raised("blocked_autorange", b.Timer("1").repeat),
        raised("blocked_autorange", b.Timer("1").autorange),
        raised("Measurement", b.Compare, [1]),
        raised("", b.unit_to_english, "q"),
    ]


@scenario
def statements_may_name_the_framework(torch):
    timer = benchmark(torch).Timer("  y = torch.ones(2)\n  y + 1\n", "  q = 3\n")
    made = timer.timeit(3)
    return made.number_per_run, len(made.raw_times), made.stmt, made.setup


def parameters_of(torch, seed, **options):
    """A fuzzer of everything: aliases, limits, steps, permutations, rolled dimensions."""
    b = benchmark(torch)
    P, alias = b.FuzzedParameter, b.ParameterAlias
    return b.Fuzzer(
        [
            P("k0", 4, 64, "uniform"),
            [P("k1", 4, 64, "loguniform"), P("d", distribution={1: 0.25, 2: 0.75}, strict=True)],
            P("same", distribution={alias("k0"): 0.5, 3: 0.5}),
            P("step", distribution={1: 0.5, 2: 0.5}),
            P("ratio", 0.5, 2, "uniform"),
            P("roll", distribution={0: 0.3, 1: 0.3, 2: 0.4}),
        ],
        [
            b.FuzzedTensor("x", ("k0", "k1"), dim_parameter="d", min_elements=50, max_elements=2000),
            [b.FuzzedTensor("y", ("same", 3, "k1"), steps=("step", 1, 2), max_allocation_bytes=40000)],
            b.FuzzedTensor(
                "z", (2, 3, 4), roll_parameter="roll", dtype=torch.int32, probability_contiguous=0
            ),
            b.FuzzedTensor("w", (0, 3), dtype=torch.float64),
        ],
        seed=seed,
        **options,
    )


def seen(cases):
    """Sizes, strides, elements and facts of cases."""
    out = []
    for tensors, facts, parameters in cases:
        values = [
            (name, tuple(t.shape), () if t.is_sparse else t.stride(), t.to_dense().flatten()[:3].tolist())
            for name, t in tensors.items()
        ]
        named = [{key: str(value).rpartition(".")[2] for key, value in f.items()} for f in facts.values()]
        out.append((values, named, parameters))
    return out


@scenario
def constraints_receive_the_parameters_as_a_dict(torch):
    b, calls = benchmark(torch), []

    def wide(*args, **options):
        calls.append((args, options))
        return args[0]["n"] < args[0]["m"]

    sizes = [b.FuzzedParameter(name, 1, 64, "loguniform") for name in ("n", "m")]
    fuzzer = b.Fuzzer(sizes, [b.FuzzedTensor("x", ("n", "m"))], constraints=[wide], seed=3)
    drawn = [parameters for _, _, parameters in fuzzer.take(4)]
    return drawn, calls


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_seeds_give_the_cases_of_pytorch(seed):
    torch = pytest.importorskip("torch")
    fuzzed = importlib.import_module("torch.utils.benchmark.utils.fuzzer")
    # The constructor of PyTorch 2.13 refuses dicts that sum to 1, against its documentation.
    with mock.patch.object(fuzzed.FuzzedParameter, "_check_distribution", lambda self, given: given):
        theirs = parameters_of(torch, seed)
        expected = seen(theirs.take(8))
        rate = theirs.rejection_rate
    mine = parameters_of(fb, seed)
    assert seen(mine.take(8)) == expected
    assert mine.rejection_rate == rate > 0
    assert seen(mine.take(2)) == expected[:2]  # each `take` begins anew


OPERATORS = (
    ("unary", "UnaryOpFuzzer"), ("binary", "BinaryOpFuzzer"), ("spectral", "SpectralOpFuzzer"),
    ("sparse_unary", "UnaryOpSparseFuzzer"), ("sparse_binary", "BinaryOpSparseFuzzer"),
)  # fmt: skip


@pytest.mark.parametrize(("module", "name"), OPERATORS)
def test_fuzzers_of_operators_draw_the_parameters_of_pytorch(module, name):
    pytest.importorskip("torch")
    fuzzed = importlib.import_module("torch.utils.benchmark.utils.fuzzer")
    with mock.patch.object(fuzzed.FuzzedParameter, "_check_distribution", lambda self, given: given):
        theirs, mine = (
            getattr(importlib.import_module(f"{framework}.utils.benchmark.op_fuzzers.{module}"), name)(seed=5)
            for framework in ("torch", "flambeau")
        )
        state = numpy.random.RandomState(7)
        expected = [theirs._generate(state) for _ in range(20)]
    state = numpy.random.RandomState(7)
    assert [mine._generate(state) for _ in range(20)] == expected


@pytest.mark.parametrize(("module", "name"), OPERATORS)
def test_fuzzers_of_operators_make_tensors_with_their_facts(module, name):
    made = getattr(importlib.import_module(f"flambeau.utils.benchmark.op_fuzzers.{module}"), name)(seed=3)
    for tensors, facts, _ in made.take(2):
        for key, x in tensors.items():
            assert x.numel() == facts[key]["numel"]
            if x.is_sparse:
                assert x.is_coalesced() == facts[key]["is_coalesced"] or x._nnz() < 2
                assert x.sparse_dim() == facts[key]["sparse_dim"]
                x.coalesce()  # indices outside the sizes would raise
            else:
                assert x.is_contiguous() == facts[key]["is_contiguous"]


def fuzzed(name, *limits, **options):
    return fb.utils.benchmark.FuzzedParameter(name, *limits, **options)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"minval": 1}, {"minval": 1, "maxval": 2}, {"minval": 1, "maxval": 2, "distribution": "normal"},
        {"distribution": "uniform"}, {"minval": 3, "maxval": 2, "distribution": "uniform"},
        {"minval": 0, "maxval": 2, "distribution": "loguniform"}, {"distribution": {}},
        {"minval": float("nan"), "maxval": 2, "distribution": "uniform"}, {"distribution": {1: 0.5}},
        {"distribution": {1: -0.5, 2: 1.5}}, {"distribution": {1: float("nan")}}, {"distribution": 5},
    ],
)  # fmt: skip
def test_parameters_refuse_what_they_cannot_draw(options):
    with pytest.raises(ValueError, match="FuzzedParameter: expected"):
        fuzzed("a", **options)


def test_fuzzers_refuse_what_gives_no_case():
    b = fb.utils.benchmark
    n = fuzzed("n", 1, 2, "uniform")
    with pytest.raises(ValueError, match=r"different names .* got \['n'\]"):
        b.Fuzzer([n], [b.FuzzedTensor("n", (1,))])
    with pytest.raises(TypeError):
        b.Fuzzer([5], [])
    with pytest.raises(TypeError, match="got str"):
        b.Fuzzer([["n"]], [])
    with pytest.raises(RuntimeError, match="none in 1000 draws"):
        next(b.Fuzzer([n], [], constraints=[lambda _: False], seed=0).take(1))
    with pytest.raises(ValueError, match="expected a parameter as size of 'x', got 'm'"):
        next(b.Fuzzer([n], [b.FuzzedTensor("x", ("m",))], seed=0).take(1))
    with pytest.raises(ValueError, match="as many steps as sizes"):
        b.FuzzedTensor("x", ("n",), steps=(1, 2))
    to = {name: fuzzed(name, distribution={b.ParameterAlias(other): 1}) for name, other in ("ab", "ba", "cq")}
    with pytest.raises(ValueError, match="without a cycle, got a -> b -> a"):
        next(b.Fuzzer([to["a"], to["b"]], [], seed=0).take(1))
    with pytest.raises(ValueError, match="alias of a parameter, got 'q'"):
        next(b.Fuzzer([to["c"]], [], seed=0).take(1))
    for seed in (-1, 2**32):
        with pytest.raises(ValueError, match="seed from 0"):
            b.Fuzzer([n], [], seed=seed)


def test_bools_are_drawn_from_both_values():
    b = fb.utils.benchmark
    (case,) = b.Fuzzer([], [b.FuzzedTensor("x", (100,), dtype=fb.bool)], seed=0).take(1)
    assert 0 < case[0]["x"].sum() < 100


def test_constructors_of_the_program_are_called_with_all_parameters():
    b = fb.utils.benchmark
    calls = []

    def make(size, dtype, **parameters):
        calls.append((size, dtype, parameters))
        return fb.zeros(size, dtype=dtype)

    x = b.FuzzedTensor("x", ("n", 3), steps=(2, 1), tensor_constructor=make)
    (case,) = b.Fuzzer([fuzzed("n", 4, 4, "uniform")], [x], seed=0).take(1)
    assert calls == [((8, 3), fb.float32, {"n": 4})] and tuple(case[0]["x"].shape) == (4, 3)


def counts(b, pairs, inclusive=False):
    return b.FunctionCounts(tuple(b.FunctionCount(*pair) for pair in pairs), inclusive)


FUNCTIONS = (
    (100, "a.cpp:foo(int) [x.so]"), (50, "b.cpp:bar [/usr/lib/py.so]"), (7, "???:0x123"), (-4, "z:neg"),
    (20, "/tmp/build/Objects/dictobject.c:lookdict_unicode_nodummy"), (1, "x:y"),
)  # fmt: skip


@scenario
def lists_of_counts(torch):
    b = benchmark(torch)
    some, long = counts(b, FUNCTIONS), counts(b, [(i * 37, f"f{i}.c:g" + "x" * i) for i in range(99, 0, -1)])
    inner = counts(b, FUNCTIONS, inclusive=True)
    made = [
        some, inner, long, some + some, some - some, some[1:3], some.denoise(), counts(b, ()),
        some.filter(lambda name: "f" in name), some.transform(lambda name: name.split(":")[0]),
    ]  # fmt: skip
    texts = [repr(one).splitlines()[1:] for one in made]
    return (
        texts,
        [one.sum() for one in made],
        len(some),
        raised("inclusive", lambda: some + inner)[0],
    )


@scenario
def reports_of_counts(torch):
    b = benchmark(torch)
    empty, some = counts(b, ((4, "a.c:b"), (1, "q:r"))), counts(b, FUNCTIONS)
    spec = b.TaskSpec("x + 1", "y = 1", label="L", num_threads=2)
    made = b.CallgrindStats(spec, 10, True, empty, empty, some, some, None)
    other = b.CallgrindStats(spec, 10, True, empty, empty, empty, empty, None)
    return (
        repr(made).splitlines()[1:],
        made.counts(),
        made.counts(denoise=True),
        [tuple(one) for one in made.delta(other)],
        [tuple(one) for one in made.stats(inclusive=True)],
    )


@scenario
def globals_of_callgrind(torch):
    b = benchmark(torch)
    copied = b.CopyIfCallgrind(5, setup="import math")
    return [
        (copied.value, copied.setup, b.CopyIfCallgrind.unwrap_all({"a": copied, "b": 6})),
        raised("Unsupported type", b.CopyIfCallgrind, torch.ones(1)),
        raised("Unsupported type", b.CopyIfCallgrind, None),
        raised("", b.Timer("x", globals={"x": object()}).collect_callgrind)[0],
    ]


needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")


@needs_valgrind
def test_callgrind_counts_the_statement_and_not_its_setup():
    timer = fb.utils.benchmark.Timer(
        "sum(values)", "values = list(range(1000)); [sum(values) for _ in range(200)]"
    )
    found = timer.collect_callgrind(20, collect_baseline=False, retain_out_file=True)
    # The sum of 1000 small integers takes about 56 instructions for each; those of the setup are not in it.
    assert 20 * 1000 * 5 < found.counts() < 20 * 1000 * 200
    assert any("sum" in name for _, name in found.stats())
    assert found.stmt_callgrind_out.startswith("# callgrind format")
    assert found.baseline_exclusive_stats.sum() == 0 and found.number_per_run == 20


def test_callgrind_is_named_where_it_is_not_installed(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="Valgrind in PATH, got no valgrind"):
        fb.utils.benchmark.Timer("1").collect_callgrind()
    with pytest.raises(ValueError, match="from 1 on, got 0"):
        fb.utils.benchmark.Timer("1").collect_callgrind(0)


def test_statements_in_cpp_are_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    timer = fb.utils.benchmark.Timer(
        "calls += torch::ones({2}).numel()",
        "#include <cstdio>\nint64_t calls = limit - limit;",
        global_setup="constexpr int64_t limit = 3;",
        language="c++",
    )
    made = timer.timeit(5)
    assert made.number_per_run == 5 and 0 < made.median < 1
    assert len(timer.blocked_autorange(min_run_time=0.01).raw_times) >= 1


def test_adaptive_autorange_ends_when_the_times_are_steady():
    now = [0.0, 0.05, 0.01, 0.03]

    def work():  # unsteady at first, then 0.02 s
        now[0] += now.pop() if len(now) > 1 else 0.02

    timer = fb.utils.benchmark.Timer("work()", globals={"work": work}, timer=lambda: now[0])
    made = timer.adaptive_autorange(threshold=0.1, min_run_time=0.1)
    assert made.number_per_run == 1 and made.iqr < 0.1 * made.median and 5 <= len(made.raw_times) < 12
    assert sum(made.raw_times) >= 0.1
    endless = timer.adaptive_autorange(threshold=-1.0, max_run_time=0.5)
    assert 0.5 <= sum(endless.raw_times) < 0.53


def test_clocks_that_stand_still_end_the_search_for_a_block():
    assert fb.utils.benchmark.Timer("pass", timer=lambda: 0.0)._block_size(0.05) == 10**7


test_scenarios = scenario.test()
