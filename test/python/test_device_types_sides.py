"""Devices that the CPU build of PyTorch names without having them: values like any, and no tensors there."""

import copy
import pickle
import warnings

import pytest
from sides import Scenarios

scenario = Scenarios()
NAMES = (
    "cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga "
    "maia xla lazy vulkan mps meta hpu mtia privateuseone"
).split()
ABSENT = [name for name in NAMES if name not in ("cpu", "meta")]


def kind_of_error(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "nothing"


def device(torch, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that mkldnn is not a device any more
        return torch.device(*args)


@scenario
def devices_are_values(torch):
    found = []
    for name in NAMES:
        d, second = device(torch, name), device(torch, name, 1)
        found.append([repr(d), str(d), d.type, d.index, repr(second), str(second), second.type, second.index])
        same = [d == device(torch, name), second == device(torch, name + ":1"), d == second, d != second]
        same += [hash(d) == hash(device(torch, name)), len({d, device(torch, name), second})]
        same += [pickle.loads(pickle.dumps(second)) == second, copy.deepcopy(second) == second]
        found.append(same)
    return found


@scenario
def all_devices_differ(torch):
    return len({device(torch, name) for name in NAMES}) == len(NAMES)


@scenario
def names_that_are_none(torch):
    wrong = (
        "ort msnpu MPS privateuse1 privateuse2 privateuse3 privateuse mps: mps:-1 mps:x mps:01 xla1".split()
    )
    return [[name, kind_of_error(device, torch, name)] for name in [*wrong, "", ":1", "mps:1:2"]]


@scenario
def tensors_there_are_refused(torch):
    found = []
    for name in ABSENT:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calls = [torch.empty, torch.zeros, torch.ones, torch.rand, torch.arange]
            found.append([name, *(kind_of_error(call, 2, device=name) for call in calls)])
            found.append(kind_of_error(torch.full, (2,), 1.0, device=name))
            found.append(kind_of_error(torch.nn.Linear, 2, 2, device=name))
            found.append(kind_of_error(torch.empty_strided, (2,), (1,), device=name))
    return found


@scenario
def tensors_are_not_moved_there(torch):
    found = []
    for name in ABSENT:
        if name == "lazy":  # PyTorch starts a backend for it
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calls = [lambda: torch.ones(2).to(name), lambda: torch.tensor([1.0], device=name)]  # noqa: B023
            calls += [lambda: torch.nn.Linear(2, 2).to(name)]  # noqa: B023
            found.append([name, *map(kind_of_error, calls)])
    return found


@scenario
def devices_as_context(torch):
    found = []
    for name in ("mps", "xla", "vulkan"):
        with device(torch, name):
            found.append(kind_of_error(torch.ones, 2))
        found.append(torch.ones(2).device.type)
    return found


def test_messages_name_the_device():
    import flambeau as fb

    for name in ABSENT:
        with pytest.raises((RuntimeError, AssertionError, ImportError), match=rf"(?i){name}"):
            fb.empty(2, device=name)


test_as_in_pytorch = scenario.test()
