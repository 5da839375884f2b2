"""Attributes of profiled events and of their sums, beside those of PyTorch's profiler."""

import os
import threading
import warnings

import flambeau as fb
import pytest
from oracle import pytorch
from sides import Scenarios

scenario = Scenarios()
# Times differ, and the numbers of an operator's parts depend on how it is composed.
VARYING = {"time_range", "cpu_children", "cpu_parent", "id", "external_id", "kernels"}
# PyTorch has the name of an overload only where it sums them apart.
OVERLOAD = {"overload_name"}
# Called by both frameworks alike.
SHARED = ("blk", "aten::mul", "aten::add", "aten::relu", "aten::sum", "MulBackward0", "ReluBackward0")


def profiled(torch, **options):
    """A profile of a forward and a backward pass."""
    x = torch.arange(-2.0, 4.0).reshape(2, 3).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as p:
            with torch.profiler.record_function("blk"):
                torch.add(x * x, x).relu().sum().backward()
    return p


def attributes(event, left_out=()):
    """The plain attributes that are not about time."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for name in dir(event):
            if name.startswith("_") or "time" in name or name in VARYING or name in left_out:
                continue
            value = getattr(event, name)
            if not callable(value):
                found[name] = value
    return found


def relative(found, numbers=()):
    """Sequence numbers become ranks: flambeau numbers the nodes of leaves too. The CPU is the own thread."""
    if found.get("sequence_nr", -1) >= 0:
        found["sequence_nr"] = sorted(numbers).index(found["sequence_nr"])
    for name, value in (("device_index", os.getpid()), ("device_resource_id", threading.get_native_id())):
        if name in found:
            found[name] = found[name] == value
    found["device_type"] = int(found["device_type"])
    return found


@scenario
def attributes_of_events(torch):
    events = profiled(torch, record_shapes=True, with_flops=True).events()
    wanted = [e for e in events if e.name in SHARED and (e.name == "blk" or e.cpu_parent.name == "blk")]
    backward = [e for e in events if e.name in SHARED and e.scope == 1]
    numbers = {e.sequence_nr for e in wanted if e.sequence_nr >= 0}
    assert len(numbers) == 4
    return [relative(attributes(e, OVERLOAD), numbers) for e in (*wanted, *backward)]


@scenario
def attributes_of_sums(torch):
    sums = profiled(torch, record_shapes=True, with_flops=True).key_averages(group_by_input_shape=True)
    wanted = [a for a in sums if a.key in ("blk", "aten::add", "aten::relu")]
    return [relative(attributes(a)) for a in wanted]


@scenario
def names_of_attributes(torch):
    p = profiled(torch)
    known = {name for name in dir(p.events()[0]) if not name.startswith("_")}
    sums = {name for name in dir(p.key_averages()[0]) if not name.startswith("_")}
    lists = {name for name in dir(p.events()) if not name.startswith("_")}
    return [sorted(known), sorted(sums), sorted(lists)]


@scenario
def pairs_of_operators_and_nodes(torch):
    events = [e for e in profiled(torch).events() if e.flow_type == 1]
    pairs = {}
    for e in sorted(events, key=lambda e: not e.flow_start):
        pairs.setdefault(e.flow_id, []).append(e.name)
    return [pairs[number] for number in sorted(pairs)]


@scenario
def categories(torch):
    events = profiled(torch, profile_memory=True).events()
    kinds = {(e.activity_type, e.name) for e in events if e.name in (*SHARED, "[memory]")}
    return sorted(kinds)


@scenario
def new_events(torch):
    make = torch.autograd.profiler_util.FunctionEvent
    plain = attributes(make(0, "f", 1, 0, 10, stack=[], trace_name="f"))
    facts = {"metadata_json": "{}", "flow_id": 3, "python_id": 4, "activity_type": "kernel"}
    full = attributes(make(0, "f", 1, 0, 10, stack=["g"], trace_name="f", **facts))
    for found in (plain, full):
        found["device_type"] = int(found["device_type"])
    return [plain, full]


@scenario
def earlier_names_warn(torch):
    event, told = torch.autograd.profiler_util.FunctionEvent(0, "f", 1, 0, 10), []
    for name in (
        "cuda_time",
        "cuda_time_total",
        "self_cuda_time_total",
        "self_cuda_memory_usage",
        "metadata_json",
    ):
        with pytest.warns(FutureWarning, match="deprecated") as caught:
            told.append(getattr(event, name))
        assert caught[0].filename == __file__
    return told


class Doubling:
    def make(self, torch):
        class Double(torch.nn.Module):
            def forward(self, x):
                return x * 2

        return torch.nn.Sequential(Double(), Double())


@scenario
def calls_of_python_code(torch):
    model, x = Doubling().make(torch), torch.ones(2)
    with torch.profiler.profile(with_stack=True, with_modules=True) as p:
        model(x)
    calls = [e for e in p.events() if e.is_python_function]
    names = {e.python_id: e.name for e in calls}
    modules = [e for e in calls if e.name.startswith("nn.Module: ")]
    assert len(names) == len(calls) and all(e.id == 0 and e.external_id == 0 for e in calls)
    known = all(e.python_parent_id in names for e in modules)
    return [known, *((e.name, e.python_module_id, e.activity_type, e.concrete_inputs) for e in modules)]


def test_no_attribute_is_left_out():
    ours, theirs = profiled(fb), profiled(pytorch())
    assert set(attributes(theirs.events()[0])) == set(attributes(ours.events()[0]))
    assert {type(e).__name__ for e in ours.events()} == {"FunctionEvent"}


test_scenarios = scenario.test()
