"""The profiler beside PyTorch's: names, counts, shapes, memory, nesting, schedules, traces, errors."""

import json
import threading
import warnings

import flambeau as fb
import pytest
from sides import Scenarios, raised

scenario = Scenarios()


def profiled(torch, work, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as p:
            work()
    return p


def training_step(torch):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x = torch.ones(3, 4)
    return lambda: model(x).sum().backward()


def outermost(p):
    return [e for e in p.events() if e.cpu_parent is None]


@scenario
def names_of_outermost(torch):
    x = torch.ones(3)
    p = profiled(torch, lambda: (x * 2 + x).sum())
    return [(e.name, e.count, e.is_async, e.scope, e.is_user_annotation) for e in outermost(p)]


@scenario
def counts_of_public_operators(torch):
    p = profiled(torch, training_step(torch))
    return sorted((a.key, a.count) for a in p.key_averages() if a.key in {"aten::linear", "aten::relu"})


@scenario
def nodes_and_their_numbers(torch):
    x = torch.ones(3, requires_grad=True)
    first = (x * 1).grad_fn
    p = profiled(torch, lambda: ((x * 2) + x).sum().backward())
    events = [e for e in p.events() if "aten::" not in e.name and e.name != "detach"]
    lowest = min(e.sequence_nr for e in events if e.sequence_nr >= 0)
    assert first is not None
    return [
        (e.name, e.sequence_nr - lowest if e.sequence_nr >= 0 else -1, e.scope, e.thread == e.fwd_thread)
        for e in events
    ]


@scenario
def forward_has_the_number_of_its_node(torch):
    x = torch.ones(3, requires_grad=True)
    p = profiled(torch, lambda: (x * 2).sum().backward())
    numbers = {e.name: e.sequence_nr for e in p.events() if e.cpu_parent is None}
    return [
        numbers["aten::mul"] == numbers["autograd::engine::evaluate_function: MulBackward0"],
        numbers["aten::sum"] == numbers["autograd::engine::evaluate_function: SumBackward0"],
        numbers["aten::ones_like"] if "aten::ones_like" in numbers else -1,
    ]


@scenario
def shapes_of_arguments(torch):
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    p = profiled(torch, lambda: (a @ b, torch.cat([a, a], 1), torch.add(a, a, alpha=2)), record_shapes=True)
    wanted = {"aten::matmul", "aten::mm", "aten::cat", "aten::add"}
    return [
        (e.name, e.input_shapes, e.structured_input_shapes, e.concrete_inputs, e.input_dtypes)
        for e in p.events()
        if e.name in wanted
    ]


@scenario
def memory_of_operators(torch):
    before = torch.ones(1000)

    def work():
        nonlocal before
        before = None  # was allocated before: its release is not counted
        x = torch.ones(256)
        y = x + x
        del y
        return x

    p = profiled(torch, work, profile_memory=True)
    outer = [(e.name, e.cpu_memory_usage) for e in outermost(p)]
    return outer, sum(e.self_cpu_memory_usage for e in p.events())


@scenario
def ranges(torch):
    @torch.profiler.record_function("decorated")
    def function():
        return torch.ones(1)

    def work():
        with torch.profiler.record_function("outer"):
            torch.ones(1)
            with torch.autograd.profiler.record_function("inner", "text"):
                function()

    p = profiled(torch, work)
    return [
        (e.name, e.scope, e.is_user_annotation, e.cpu_parent.name if e.cpu_parent else None)
        for e in p.events()
        if e.scope == 7
    ]


@pytest.mark.parametrize("record_shapes", [False, True])
def test_the_text_of_a_range_is_an_argument(record_shapes, tmp_path):
    torch = pytest.importorskip("torch")

    def seen(torch):
        def work():
            for name, *text in [("a", "text"), ("b", None), ("c",), ("a", ""), ("a", "other")]:
                with torch.profiler.record_function(name, *text):
                    torch.ones(1)

        p = profiled(torch, work, record_shapes=record_shapes)
        file = tmp_path / f"{torch.__name__}.json"
        p.export_chrome_trace(str(file))
        wanted = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")
        spans = [e for e in json.loads(file.read_text())["traceEvents"] if e.get("name") in ("a", "b", "c")]
        traced = [{k: v for k, v in e["args"].items() if k in wanted} for e in spans]
        events = [(e.name, e.input_shapes, e.concrete_inputs) for e in p.events() if e.scope == 7]
        averages = p.key_averages(group_by_input_shape=record_shapes)
        counts = [(a.key, a.count, a.input_shapes) for a in averages if a.key in ("a", "b", "c")]
        return (events, counts, traced), [e["args"].get("args") for e in spans]

    (ours, texts), (theirs, _) = seen(fb), seen(torch)
    assert ours == theirs
    assert texts == (["text", None, None, "", "other"] if record_shapes else [None] * 5)


def test_a_trace_that_cannot_be_written_raises(tmp_path):
    p = profiled(fb, lambda: fb.ones(1), with_stack=True)
    for name in ("none/trace.json", "none/trace.json.gz"):
        with pytest.raises(FileNotFoundError, match="none/trace"):
            p.export_chrome_trace(str(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        p.export_stacks(str(tmp_path / "none" / "stacks"))
    with pytest.raises(IsADirectoryError):
        p.export_chrome_trace(str(tmp_path))
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


@scenario
def odd_names(torch):
    names = ['"quoted"', "two\nlines", "tab\t\\", "", "ünï☃", "x" * 300]

    def work():
        for name in names:
            with torch.profiler.record_function(name):
                pass

    return [e.name for e in profiled(torch, work).events()] == names


@scenario
def self_times_are_totals_without_children(torch):
    p = profiled(torch, training_step(torch))
    events = p.events()
    exact = all(
        abs(e.self_cpu_time_total - (e.cpu_time_total - sum(c.cpu_time_total for c in e.cpu_children))) < 1e-6
        for e in events
    )
    inside = all(
        e.cpu_parent.time_range.start <= e.time_range.start
        and e.time_range.end <= e.cpu_parent.time_range.end
        for e in events
        if e.cpu_parent
    )
    total = sum(a.self_cpu_time_total for a in p.key_averages())
    return exact, inside, abs(total - events.self_cpu_time_total) < 1e-3


@scenario
def schedules(torch):
    schedule = torch.profiler.schedule
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [
            schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1),
            schedule(wait=2, warmup=0, active=1, skip_first=2, skip_first_wait=1),
            schedule(wait=0, warmup=0, active=1),
        ]
    return [[one(step).name for step in range(14)] for one in made]


def stepped(torch, steps, **schedule):
    seen = []

    def ready(p):
        seen.append((p.step_num, [e.name for e in p.events() if e.cpu_parent is None]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = torch.profiler.schedule(**schedule)
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready
        ) as p:
            for i in range(steps):
                torch.ones(i + 1)
                p.step()
    return [(step, [n for n in names if n.startswith("aten") or "Step" in n]) for step, names in seen]


@scenario
def steps_with_repeat(torch):
    return stepped(torch, 9, wait=1, warmup=1, active=2, repeat=2)


@scenario
def steps_that_end_early(torch):
    return stepped(torch, 3, wait=0, warmup=0, active=2), stepped(torch, 2, wait=5, warmup=1, active=1)


@scenario
def tables(torch):
    p = profiled(torch, lambda: torch.ones(2) + 1)
    averages = p.key_averages()
    plain = averages.table(sort_by="count", row_limit=1, header="HEAD", max_name_column_width=12)
    lines = plain.splitlines()
    return (
        lines[1],
        lines[3].split(),
        len(lines),
        {len(line) for line in lines[2:5]},
        averages.table(row_limit=0)[:0],
    )


@scenario
def columns_of_tables(torch):
    p = profiled(torch, lambda: torch.ones(2) + 1, profile_memory=True, record_shapes=True)
    table = p.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_memory_usage", row_limit=2)
    return table.splitlines()[1].split("  ")[-2].strip(), "CPU Mem" in table, "Self CPU Mem" in table


@scenario
def units(torch):
    util = torch.autograd.profiler_util
    sizes = [util._format_memory(n) for n in (0, -5, 1023, 1024, 1 << 20, -(3 << 30))]
    times = [util._format_time(t) for t in (0, 1.5, 1000, 1e6)]
    return sizes, times, util._format_time_share(1, 3), util._format_time_share(0, 0)


@scenario
def averages_by_overload_and_shape(torch):
    x = torch.ones(2)
    p = profiled(torch, lambda: (x.add(x), x.add(1), torch.ones(3).add(torch.ones(3))), record_shapes=True)
    by_shape = [a for a in p.key_averages(group_by_input_shape=True) if a.key == "aten::add"]
    by_name = [a for a in p.key_averages() if a.key == "aten::add"]
    return (
        [a.count for a in by_name],
        sum(a.count for a in by_shape),
        len(by_shape) > 1,
        by_name[0].input_shapes,
    )


@scenario
def errors(torch):
    profiler, legacy = torch.profiler, torch.autograd.profiler
    cpu = [profiler.ProfilerActivity.CPU]
    fresh = profiler.profile(activities=cpu)
    done = profiled(torch, lambda: torch.ones(1))
    with legacy.profile() as entered:
        torch.ones(1)
    return [
        raised("initialized before accessing events", fresh.events),
        raised("initialized before getting key averages", fresh.key_averages),
        raised("initialized before exporting chrome trace", fresh.export_chrome_trace, "nowhere"),
        raised("initialized before stopping trace", fresh.stop),
        raised("not reentrant", entered.__enter__),
        raised("bogus", done.key_averages().table, sort_by="bogus"),
        raised("requires with_stack", done.export_stacks, "nowhere"),
        raised("need >= 0", profiler.schedule, wait=-1, warmup=0, active=1),
        raised("need > 0", profiler.schedule, wait=0, warmup=1, active=0),
        raised("non-negative", profiler.schedule(wait=0, warmup=1, active=1), -1),
        raised("str", profiler.record_function(3).__enter__),
        raised("compiled with CUDA", legacy.emit_nvtx().__enter__),
        raised("no valid", profiler.profile, activities=[]),
        repr(legacy.profile()),
        legacy.profile(enabled=False).__enter__(),
    ]


@scenario
def other_threads_are_not_recorded(torch):
    def work():
        thread = threading.Thread(target=lambda: torch.zeros(3))
        thread.start()
        thread.join()
        torch.ones(1)

    return [e.name for e in outermost(profiled(torch, work))]


@scenario
def nested_profiles(torch):
    inner = []

    def work():
        torch.zeros(1)
        inner.append(profiled(torch, lambda: torch.ones(1)))
        torch.zeros(1)

    outer = profiled(torch, work)
    return len(outer.events()), [e.name for e in outermost(inner[0])]


@scenario
def exceptions_end_events(torch):
    def work():
        try:
            with torch.profiler.record_function("failing"):
                torch.ones(2) @ torch.ones(3)
        except RuntimeError:
            torch.zeros(1)

    p = profiled(torch, work)
    return [
        (e.name, e.cpu_parent and e.cpu_parent.name)
        for e in p.events()
        if e.name in ("failing", "aten::zeros")
    ]


@scenario
def steps_of_optimizers_and_batches(torch):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def work():
        for _ in torch.utils.data.DataLoader([1.0, 2.0]):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    return [e.name for e in profiled(torch, work).events() if "#" in e.name]


@scenario
def modules_in_the_stack(torch):
    p = profiled(torch, training_step(torch), with_stack=True)
    return [e.name for e in p.events() if e.name.startswith("nn.Module: ")]


@scenario
def flops(torch):
    def x(*sizes):
        return torch.ones(*sizes)

    a, b, image, weight = x(2, 3), x(3, 4), x(1, 4, 8, 9), x(4, 4, 3, 3)
    conv2d = torch.nn.functional.conv2d
    calls = [
        lambda: a @ b,
        lambda: torch.mm(a, b, out=x(2, 4)),
        lambda: torch.addmm(x(4), a, b),
        lambda: torch.addmm(x(4), a, b, beta=2, alpha=3),
        lambda: torch.addmm(x(4), a, b, out=x(2, 4)),
        lambda: x(2, 4).addmm_(a, b),
        lambda: torch.bmm(x(2, 3, 4), x(2, 4, 5)),
        lambda: torch.baddbmm(x(5), x(2, 3, 4), x(2, 4, 5), alpha=2),
        lambda: x(0, 3) @ b,
        lambda: torch.mv(a, x(3)),
        lambda: torch.dot(x(3), x(3)),
        lambda: a * a,
        lambda: x(3) * a,
        lambda: 2 * a,
        lambda: x(2, 3).mul_(2),
        lambda: torch.add(a, a, alpha=2, out=x(2, 3)),
        lambda: 1 + a,
        lambda: torch.tensor(1.0) + a,
        lambda: a - a,
        lambda: a.exp().sum(),
        lambda: conv2d(image, weight),
        lambda: conv2d(image, weight, None, 2, 1, 2),
        lambda: conv2d(image, weight, None, (2, 1), (1, 0), (1, 2)),
        lambda: conv2d(image, x(4, 1, 3, 3), groups=4),
        lambda: conv2d(image[0], weight),
        lambda: torch.nn.functional.conv3d(x(1, 1, 3, 3, 3), x(1, 1, 2, 2, 2)),
        lambda: (x(2, 3).requires_grad_() @ b).sum().backward(),
        lambda: conv2d(image.clone().requires_grad_(), weight).sum().backward(),
    ]
    profiles = [profiled(torch, call, with_flops=True).key_averages() for call in calls]
    return [sorted((a.key, a.flops) for a in averages if a.flops) for averages in profiles]


def test_flops_of_calls_that_failed():
    def fails():
        for call in (lambda: fb.mm(fb.ones(3), fb.ones(3)), lambda: fb.bmm(fb.ones(3), fb.ones(3))):
            with pytest.raises((RuntimeError, IndexError)):
                call()
        with pytest.raises(RuntimeError):
            fb.nn.functional.conv2d(fb.ones(1, 1, 4, 4), fb.ones(1, 1, 2, 2), stride=0)

    events = profiled(fb, fails, with_flops=True).events()
    failed = [event for event in events if event.name in ("aten::mm", "aten::bmm", "aten::conv2d")]
    assert len(failed) == 3 and all(event.flops == 0 for event in failed)


def test_flops_of_a_stride_for_both_dimensions():
    image, weight = fb.ones(1, 1, 4, 4), fb.ones(1, 1, 2, 2)
    averages = profiled(fb, lambda: fb.conv2d(image, weight, stride=[2]), with_flops=True).key_averages()
    assert {a.key: a.flops for a in averages if a.flops} == {"aten::conv2d": 2 * 4 * 4}


def trace_of(torch, path):
    x = torch.ones(2, 3, requires_grad=True)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True
    ) as p:
        (x * 2).sum().backward()
        p.add_metadata("key", "value")
    p.export_chrome_trace(str(path))
    return json.loads(path.read_text())


def facts_of_trace(trace):
    events = trace["traceEvents"]
    spans = {e["name"]: e for e in reversed(events) if e["ph"] == "X"}  # the first of each name
    starts = {e["id"] for e in events if e["ph"] == "s"}
    ends = {e["id"] for e in events if e["ph"] == "f"}
    mul = spans["aten::mul"]
    return {
        "metadata": trace["key"],
        "arguments": sorted(mul["args"]),
        "dims": mul["args"]["Input Dims"],
        "keys": sorted(mul),
        "memory": sorted(
            next(e for e in events if e["name"] == "[memory]")["args"].keys() - {"finished", "Ev Idx"}
        ),
        "flows": (starts == ends, len(starts) >= 2),
        "backward": spans["MulBackward0"]["args"]["Sequence number"] == mul["args"]["Sequence number"],
        "category": (mul["cat"], spans["MulBackward0"]["cat"]),
    }


def test_traces_have_the_same_parts(tmp_path):
    torch = pytest.importorskip("torch")
    import flambeau

    ours = facts_of_trace(trace_of(flambeau, tmp_path / "ours.json"))
    assert ours == facts_of_trace(trace_of(torch, tmp_path / "theirs.json"))


test_scenarios = scenario.test()
