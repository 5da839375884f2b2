"""Graphs of execution, pauses of a profile, and operators of programs in it, beside PyTorch's."""

import json
import os
from pathlib import Path

import flambeau as fb
import pytest
from sides import Scenarios, raised

scenario = Scenarios()
PUBLIC = {"aten::cat", "aten::max", "aten::full", "aten::neg", "aten::clamp", "step"}


def traced(torch, path, work):
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    work()
    observer.stop()
    observer.unregister_callback()
    return json.loads(path.read_text())


def program(torch):
    x = torch.full((2, 3), 1.5)
    with torch.profiler.record_function("step"):
        y = torch.cat([x, x], 1)
        kept = [torch.neg(y[:, 1:3]), torch.clamp(x, min=0.5), torch.max(x, 0)]  # addresses do not return
    del kept


def facts(torch, tmp_path):
    """Inputs and outputs of public operators, their nesting, and which tensors and storages are the same."""
    nodes = traced(torch, tmp_path / f"{torch.__name__}.json", lambda: program(torch))["nodes"]
    by_id = {n["id"]: n for n in nodes}
    assert len(by_id) == len(nodes)
    shown, numbers, sequences = [], {}, {}  # numbers of tensors and nodes go on from what ran before

    def renumbered(value):
        if isinstance(value, list) and len(value) == 6 and value[-1] == "cpu":
            return [None, numbers.setdefault(value[1], len(numbers)), *value[2:]]
        return [renumbered(v) for v in value] if isinstance(value, list) else value

    for n in sorted(nodes, key=lambda n: n["id"]):
        if n["name"] not in PUBLIC:
            continue
        attrs = {a["name"]: (a["type"], a["value"]) for a in n["attrs"]}
        tensors = [
            (renumbered(n[way]["values"][i]), n[way]["shapes"][i], n[way]["strides"][i], kind)
            for way in ("inputs", "outputs")
            for i, kind in enumerate(n[way]["types"])
            if "Tensor" in kind
        ]
        parent = by_id[n["ctrl_deps"]]["name"]
        kind, sequence = attrs["seq_id"]
        if sequence >= 0:
            sequence = sequences.setdefault(sequence, len(sequences))
        more = attrs["scope"], (kind, sequence), sorted(attrs), sorted(n)
        shown.append((n["name"], parent, tensors, *more))
    return shown


def test_graphs_tell_which_tensor_is_which_as_in_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    ours, theirs = facts(fb, tmp_path), facts(torch, tmp_path)
    assert len(ours) == len(PUBLIC)
    assert ours == theirs


def test_traces_have_the_fields_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    ours, theirs = (
        traced(t, tmp_path / t.__name__, lambda t=t: t.ones(3, requires_grad=True).sum().backward())
        for t in (fb, torch)
    )
    assert list(ours) == list(theirs) and ours["schema"] == theirs["schema"]
    assert ours["pid"] == os.getpid()
    for end in (0, -1):
        assert ours["nodes"][end] == theirs["nodes"][end]
    names = {n["name"] for n in ours["nodes"]}
    assert {"SumBackward0", "autograd::engine::evaluate_function: SumBackward0", "aten::sum"} <= names
    one = next(n for n in ours["nodes"] if n["name"] == "aten::ones")
    assert {a["name"]: a["value"] for a in one["attrs"]}["op_schema"].startswith("aten::ones(")


@scenario
def states_of_an_observer(torch):
    observer = torch.profiler.ExecutionTraceObserver()
    seen = [observer.is_registered, observer.get_output_file_path()]
    observer.start()
    observer.stop()
    observer.unregister_callback()
    path = "/tmp/graph_states.json"
    seen += [observer.register_callback(path) is observer, observer.is_registered]
    observer.register_callback("/tmp/graph_other.json")
    seen += [observer.get_output_file_path() == path, observer.is_running()]
    observer.start()
    observer.start()
    seen.append(observer.is_running())
    observer.stop()
    observer.stop()
    seen += [observer.is_running(), observer.is_registered]
    observer.cleanup()
    return [*seen, observer.is_registered, observer.get_output_file_path() == path]


def test_a_profile_writes_the_graph_of_its_observer(tmp_path):
    path = tmp_path / "graph.json"
    observer = fb.profiler.ExecutionTraceObserver().register_callback(str(path))
    with fb.profiler.profile(execution_trace_observer=observer, with_stack=True) as p:
        assert observer.is_running()
        fb.ones(2) + 1
    assert not observer.is_running()
    names = [n["name"] for n in json.loads(path.read_text())["nodes"][1:-1]]
    recorded = [e.name for e in p.events() if not e.is_python_function]
    assert names == recorded and "aten::add" in names


def test_observers_go_on_in_one_file(tmp_path):
    path = tmp_path / "graph.json"
    observer = fb.profiler.ExecutionTraceObserver().register_callback(str(path))
    for work in (fb.ones, fb.zeros):
        observer.start()
        work(1)
        observer.stop()
    nodes = json.loads(path.read_text())["nodes"]
    assert [n["name"] for n in nodes[1:-1]] == ["aten::ones", "aten::zeros"]
    assert len({n["id"] for n in nodes}) == len(nodes)


def test_observers_refuse_threads_that_are_profiled(tmp_path):
    observer = fb.profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "graph.json"))
    with fb.profiler.profile(), pytest.raises(RuntimeError, match="expected a thread that is not profiled"):
        observer.start()
    observer.start()
    with fb.profiler.profile() as p:
        fb.ones(1)
    observer.stop()  # the profile has taken its place
    assert [e.name for e in p.events()] == ["aten::ones"] and not observer.is_running()
    with pytest.raises(FileNotFoundError, match="expected a file in an existing folder"):
        fb.profiler.ExecutionTraceObserver().register_callback("/nonexistent/graph.json")


def test_the_environment_asks_for_an_observer(monkeypatch):
    build = fb.profiler.ExecutionTraceObserver.build_execution_trace_obs_from_env
    assert build() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    path = build().get_output_file_path()
    with fb.profiler.profile():
        fb.ones(1)
    Path(path).unlink()


def paused(torch, body):
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as p:
        body(lambda on: p.toggle_collection_dynamic(on, activities))
    return [e.name for e in p.events() if e.cpu_parent is None or e.cpu_parent.name == "outer"]


@scenario
def pauses(torch):
    def body(toggle):
        torch.neg(torch.zeros(1))
        toggle(False)
        torch.relu(torch.zeros(1))
        toggle(False)
        with torch.profiler.record_function("hidden"):
            torch.relu(torch.zeros(1))
        toggle(True)
        toggle(True)
        torch.abs(torch.zeros(1))

    return paused(torch, body)


@scenario
def pauses_within_a_range(torch):
    def body(toggle):
        with torch.profiler.record_function("outer"):
            torch.neg(torch.zeros(1))
            toggle(False)
            torch.relu(torch.zeros(1))
            toggle(True)
            torch.abs(torch.zeros(1))
        toggle(False)

    return [name for name in paused(torch, body) if name != "aten::abs"]


@scenario
def pauses_of_no_profile(torch):
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu) as p:
        errors = [
            raised("", p.toggle_collection_dynamic, False, None),
            raised("", p.toggle_collection_dynamic, False, ["x"])[0],
        ]
        p.toggle_collection_dynamic(False, [])
        torch.zeros(1)
    p.toggle_collection_dynamic(False, cpu)
    return errors, [e.name for e in p.events() if e.cpu_parent is None]


def test_a_range_that_ends_in_a_pause_keeps_its_times():
    with fb.profiler.profile() as p:
        with fb.profiler.record_function("short"):
            p.toggle_collection_dynamic(False, [fb.profiler.ProfilerActivity.CPU])
        for _ in range(200):
            fb.ones(100)
        p.toggle_collection_dynamic(True, [fb.profiler.ProfilerActivity.CPU])
        fb.zeros(1)
    short, zeros = p.events()
    assert short.name == "short" and zeros.cpu_parent is None
    assert short.time_range.end < zeros.time_range.start


@scenario
def operators_of_programs(torch):
    space = f"profiled_{torch.__name__}"

    @torch.library.custom_op(f"{space}::scaled", mutates_args=())
    def scaled(x: torch.Tensor, others: list[torch.Tensor], by: float = 2.0) -> torch.Tensor:
        if by == 0:
            raise ValueError("zero")
        return x * by

    library = torch.library.Library(space, "FRAGMENT")
    library.define("negated.one(Tensor x) -> Tensor")
    library.impl("negated.one", lambda x: x.neg(), "CPU")
    x = torch.ones(2, 3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as p:
        scaled(x, [x, x[0]])
        getattr(torch.ops, space).negated.one(x)
        error = raised("zero", scaled, x, [], 0.0)
    events = [e for e in p.events() if e.name.startswith("profiled")]
    neg = [e for e in p.events() if e.name == "aten::neg"]
    return (
        error,
        [(e.name.partition("::")[2], e.input_shapes, e.cpu_parent is None) for e in events],
        neg[0].cpu_parent.name.partition("::")[2],
    )


def test_operators_of_programs_have_overloads_and_results(tmp_path):
    library = fb.library.Library("profiled_results", "DEF")
    library.define("halves.both(Tensor x, int n) -> (Tensor, Tensor)")
    library.impl("halves.both", lambda x, n: (x[:n], x[n:] + 0), "CPU")
    call = fb.ops.profiled_results.halves.both
    with fb.profiler.profile() as p:
        call(fb.ones(4), 2)
    (event,) = [e for e in p.events() if e.name == "profiled_results::halves"]
    assert event.overload_name == "both" and event.cpu_children
    nodes = traced(fb, tmp_path / "graph.json", lambda: call(fb.ones(4), 2))["nodes"]
    (node,) = [n for n in nodes if n["name"] == "profiled_results::halves"]
    assert node["inputs"]["types"] == ["Tensor(float)", "Int"]
    assert node["outputs"]["shapes"] == [[2], [2]]
    first, whole = node["outputs"]["values"][0], node["inputs"]["values"][0]
    assert first[1] == whole[1] and first[0] != whole[0]  # a view


test_scenarios = scenario.test()
