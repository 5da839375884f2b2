"""Objects of dtype, layout, memory_format and device, and storages over others' memory, beside PyTorch."""

import numpy as np
from sides import Scenarios, raised

scenario = Scenarios()
CONSTANTS = ("dtype", "layout", "memory_format")


@scenario
def constants_are_never_made(torch):
    kinds = [getattr(torch, name) for name in CONSTANTS]
    calls = [raised("cannot create", kind) for kind in kinds]
    calls += [raised("cannot create", kind, "x") for kind in kinds]
    calls += [raised("is not safe", object.__new__, kind) for kind in kinds]
    calls += [raised("not an acceptable base", type, "Own", (kind,), {}) for kind in kinds]
    return calls, [type(value) is kind for value, kind in zip(values(torch), kinds, strict=True)]


def values(torch):
    return torch.float32, torch.strided, torch.channels_last


@scenario
def an_index_beside_a_name_with_one(torch):
    phrase = "must not include an index because index was passed explicitly"
    given = [("cpu:1", 0), ("cpu:1", None), ("cpu:1", -1), ("meta:0", 1), ("cuda:0", 0)]
    named = [{"type": "cpu:1"}, {"type": "cpu:1", "index": 0}, {"type": "cpu:0", "index": None}]
    return [raised(phrase, torch.device, *args) for args in given] + [
        raised(phrase, torch.device, **kwargs) for kwargs in named
    ]


@scenario
def types_of_device_arguments(torch):
    cpu = torch.device("cpu:1")
    given = [(cpu, 0), (cpu, None), (0, 0), ("cpu", "0"), ("cpu", 1.5), ("cpu", True), (None,), (1.5,), ()]
    named = [{"index": 0}, {"type": cpu}, {"type": 0}, {"device": "cpu", "index": 1}, {"idx": 0}]
    return [raised("device()", torch.device, *args)[0] for args in given] + [
        raised("", torch.device, **kwargs)[0] for kwargs in named
    ]


@scenario
def devices_that_are_made(torch):
    made = [
        torch.device("cpu", 0),
        torch.device("cpu", None),
        torch.device("cpu:1"),
        torch.device(torch.device("cpu:1")),
        torch.device("cpu", np.int64(3)),
        torch.device(device="cpu:1"),
        torch.device(device=torch.device("meta")),
        torch.device(index=2, type="cuda"),
    ]
    return [str(device) for device in made]


@scenario
def negative_indices(torch):
    return [raised("index", torch.device, "cpu", index) for index in (-1, -2, -(2**40))]


@scenario
def storages_that_cannot_grow(torch):
    array = np.arange(3, dtype=np.float32)
    others = [
        torch.from_numpy(array),
        torch.frombuffer(bytearray(8), dtype=torch.uint8),
        torch.from_dlpack(array),
    ]
    own = [torch.tensor(array), torch.zeros(3), torch.empty(0), torch.empty(3, device="meta")]
    asked = [t.untyped_storage().resizable() for t in others + own]
    views = [torch.from_numpy(array)[1:].untyped_storage().resizable(), torch.UntypedStorage(4).resizable()]
    # PyTorch's process dies when it resizes the others.
    refused = raised("not resizable", others[0].untyped_storage().resize_, 100)
    kept = [t.untyped_storage().nbytes() for t in others]
    return asked, views, refused, kept


test_as_in_pytorch = scenario.test()
