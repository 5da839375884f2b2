"""What a profile meets in bad programs: open blocks, ended threads, forks, odd names, generators."""

import gc
import json
import os
import sys
import threading
import tracemalloc

import flambeau as fb
import pytest
from flambeau import _C
from flambeau.profiler import ProfilerActivity, profile, record_function


@pytest.fixture(autouse=True)
def nothing_is_left_recording():
    yield
    open_before = _C._profiler_enabled()
    _C._profiler_stop()
    assert not open_before


def names(p):
    return [event.name for event in p.events()]


def test_a_thread_may_end_while_it_is_recorded():
    def leave_open():
        profile(with_stack=True).start()
        record_function("open").__enter__()
        fb.ones(2) + 1

    thread = threading.Thread(target=leave_open)
    thread.start()
    thread.join()
    with profile() as p:
        fb.zeros(1)
    assert names(p)[0] == "aten::zeros" and "open" not in names(p)


def test_a_profile_that_ends_on_another_thread_warns():
    p = profile()
    p.start()
    with pytest.warns(UserWarning, match="not recorded"):
        thread = threading.Thread(target=p.stop)
        thread.start()
        thread.join()
    assert names(p) == []
    _C._profiler_stop()


def test_an_open_profile_does_not_disturb_the_end_of_the_process():
    code = "import flambeau as fb; fb.profiler.profile(with_stack=True).start(); fb.ones(2) @ fb.ones(2)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0


def test_ranges_that_end_in_another_profile_or_twice_are_ignored():
    outer = record_function("outer")
    with profile():
        outer.__enter__()
    with profile() as p:
        fb.ones(1)
        outer.__exit__(None, None, None)
        outer.__exit__(None, None, None)
        fb.zeros(1)
    tops = [e.name for e in p.events() if e.cpu_parent is None]
    assert tops == ["aten::ones", "aten::zeros"]


def test_ranges_that_overlap_end_in_any_order():
    first, second = record_function("first"), record_function("second")
    with profile() as p:
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        fb.ones(1)
        second.__exit__(None, None, None)
    parents = {e.name: e.cpu_parent.name if e.cpu_parent else None for e in p.events()}
    assert parents["first"] is None and parents["second"] == "first" and parents["aten::ones"] is None
    assert all(e.time_range.end >= e.time_range.start for e in p.events())


def test_generators_are_recorded_piece_by_piece():
    @record_function("piece")
    def values():
        for i in range(3):
            yield fb.ones(i)

    with profile() as p:
        for _ in values():
            fb.zeros(1)
    assert names(p).count("piece") == 4
    assert all(e.cpu_parent is None for e in p.events() if e.name == "aten::zeros")


def test_generators_with_a_stack_keep_it_balanced():
    def values():
        yield fb.ones(1)
        yield fb.ones(2)

    with profile(with_stack=True) as p:
        for _ in values():
            fb.zeros(1)
    for event in p.events():
        if event.name == "aten::zeros":
            assert not any("values" in line for line in event.stack)


def test_a_child_of_fork_continues_and_ends_its_profile():
    with profile() as p:
        fb.ones(1)
        child = os.fork()
        if child == 0:
            fb.zeros(1)
            p.stop()
            os._exit(0 if names(p)[0] == "aten::ones" and "aten::zeros" in names(p) else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert names(p)[0] == "aten::ones"


@pytest.mark.parametrize("name", ["\udcff", "\x00", "a\x00b", '"\\', "\U0001f600", "</script>"])
def test_odd_names_reach_the_trace(name, tmp_path):
    with profile() as p, record_function(name):
        pass
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    shown = name.encode("utf-8", "backslashreplace").decode()
    assert [e["name"] for e in events if e["ph"] == "X"] == [shown] == names(p)


@pytest.mark.parametrize("name", [3, None, b"bytes"])
def test_a_name_must_be_a_string(name):
    with profile(), pytest.raises(RuntimeError, match="str"):
        record_function(name).__enter__()


def test_many_events_are_kept_in_order():
    x = fb.ones(1)
    with profile() as p:
        for _ in range(100_000):
            x.neg()
    events = p.events()
    assert (
        len(events) == 100_000
        and events[-1].time_range.end <= (p.profiler._recording.end - p.profiler._recording.start) / 1e3
    )
    assert p.key_averages()[0].count == 100_000


def test_deep_nesting_has_no_limit():
    open_ranges = [record_function(str(i)) for i in range(20_000)]
    with profile() as p:
        for one in open_ranges:
            one.__enter__()
        for one in reversed(open_ranges):
            one.__exit__(None, None, None)
    assert p.events()[-1].cpu_parent.name == "19998"
    p.key_averages().table()


def test_profiles_do_not_leak():
    def once():
        with profile(with_stack=True, record_shapes=True, profile_memory=True) as p:
            (fb.ones(4, requires_grad=True) * 2).sum().backward()
        p.events()

    once()
    gc.collect()
    tracemalloc.start()
    for _ in range(20):
        once()
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 200_000


def test_a_profile_function_of_others_comes_back():
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(event))
    try:
        with profile(with_stack=True):
            fb.ones(1)
        seen.clear()
        len([])
        assert "c_call" in seen
    finally:
        sys.setprofile(None)


def test_errors_of_operators_leave_the_profile_whole():
    with profile(with_stack=True) as p:
        with pytest.raises(RuntimeError):
            fb.ones(2, 3) @ fb.ones(2, 3)
        fb.zeros(1)
    zeros = next(e for e in p.events() if e.name == "aten::zeros")
    assert not any(e.name == "aten::matmul" for e in [zeros.cpu_parent] if e)


def test_transforms_and_subclasses_are_recorded():
    from flambeau.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with profile() as p:
        fb.func.vmap(fb.func.grad(lambda x: (x * x).sum()))(fb.ones(2, 3))
        with Mode():
            fb.ones(2).exp()
        with fb.autocast("cpu"):
            fb.ones(2, 2) @ fb.ones(2, 2)
    assert {"aten::mul", "aten::exp", "aten::mm"} <= set(names(p))


def test_reentrant_backward_on_a_new_stack_is_recorded():
    class Deep(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            if ctx.depth:
                with fb.enable_grad():
                    inner = fb.ones(1, requires_grad=True)
                    Deep.apply(inner, ctx.depth - 1).backward()
            return grad, None

    with profile() as p:
        Deep.apply(fb.ones(1, requires_grad=True), 70).backward()
    ran = [e for e in p.events() if e.name == "DeepBackward"]
    assert len(ran) == 71 and len({e.thread for e in ran}) > 1


def test_frees_before_and_after_are_not_counted():
    early = fb.ones(1 << 20)
    with profile(profile_memory=True) as p:
        del early
        late = fb.ones(4)
    del late
    assert sum(e.self_cpu_memory_usage for e in p.events()) == 16


def test_devices_that_are_absent_are_ignored_beside_the_cpu():
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        fb.ones(1)
    assert names(p)[0] == "aten::ones"


def test_a_page_holds_all_events_and_nothing_from_elsewhere(tmp_path):
    from xml.etree import ElementTree

    with profile(profile_memory=True, with_stack=True) as p, record_function("</svg><script>\"&'"):
        (fb.ones(8, requires_grad=True) * 2).sum().backward()
    p.export_html(str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page and "src=" not in page and "href=" not in page
    picture = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    shapes = [node.tag.rpartition("}")[2] for node in picture.iter()]
    assert shapes.count("rect") == len(p.profiler._recording.events) and shapes.count("polyline") == 1


def test_a_page_without_events(tmp_path):
    with profile() as p:
        pass
    p.export_html(str(tmp_path / "page.html"))
    assert "0 events" in (tmp_path / "page.html").read_text()
