"""Tensors over foreign memory, compared with PyTorch: what is taken, and what is refused how."""

import array

import flambeau as fb
import numpy as np
import pytest
from sides import Scenarios

scenario = Scenarios()


def outcome(call, *args, **kwargs):
    """The values and dtype, or the type of the exception."""
    try:
        t = call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return [t, str(t.dtype).rpartition(".")[2], t.requires_grad]


@scenario
def ranges_of_a_buffer(torch):
    buffer = bytearray(range(32))
    kwargs = [
        *({"count": n} for n in (-1, -2, 0, 3, 8, 9, 2**61 - 1, 2**63)),
        *({"offset": n} for n in (0, 4, -1, 28, 30, 31, 32, 33, 3, 2**62)),
        *({"count": c, "offset": o} for c, o in ((1, 28), (2, 28), (-1, 28), (1, 29), (7, 3))),
    ]
    return [[str(k), outcome(torch.frombuffer, buffer, dtype=torch.int32, **k)] for k in kwargs]


@scenario
def objects_with_and_without_a_buffer(torch):
    sources = [
        bytearray(),
        [1, 2],
        "ab",
        np.arange(3, dtype=np.int32),
        np.arange(8, dtype=np.int32)[::2],
        array.array("i", [1, 2]),
        memoryview(bytearray(8)),
    ]
    found = [outcome(torch.frombuffer, source, dtype=torch.int32) for source in sources]
    return [
        *found,
        outcome(torch.frombuffer, bytearray(4)),
        outcome(torch.frombuffer, bytearray(4), dtype="int32"),
        outcome(torch.frombuffer, bytearray(4), dtype=torch.int32, count=1.5),
        outcome(torch.frombuffer, bytearray(4), dtype=torch.int32, requires_grad=True),
        outcome(torch.frombuffer, bytearray(4), dtype=torch.float32, requires_grad=True),
    ]


@scenario
def arrays(torch):
    sources = [
        [1],
        np.arange(3)[::-1],
        np.array(["a"]),
        np.array([None]),
        np.arange(3, dtype=">i4"),
        np.float32(1),
        np.array(1.0),
        np.zeros(3, dtype=[("a", "i2"), ("b", "f4")]),
        np.zeros(3, dtype=[("a", "i2"), ("b", "f4")])["b"],
        np.zeros(3, dtype=np.uint16),
        np.zeros(3, dtype=np.longdouble),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
    ]
    return [[outcome(call, source) for source in sources] for call in (torch.from_numpy, torch.asarray)]


@scenario
def data_of_all_kinds(torch):
    sources = [[1, 2], 3, range(3), None, object(), "ab", [torch.tensor(1), torch.tensor(2)]]
    buffers = [bytearray([1, 2, 3, 4]), memoryview(bytearray([1, 2, 3])), array.array("i", [1, 2]), b"abc"]
    found = [outcome(torch.asarray, s) for s in sources]
    for source in buffers:
        found += [outcome(torch.asarray, source, dtype=d) for d in (torch.uint8, torch.int16, torch.int32)]
    capsule = np.arange(3).__dlpack__()
    return [*found, outcome(torch.asarray, capsule), outcome(torch.asarray, np.float32(2))]


@scenario
def copies_that_may_not_be_made(torch):
    a = np.arange(3)
    found = [outcome(torch.asarray, s, copy=False) for s in (a, torch.arange(3), [1], 2, bytearray(4))]
    found += [outcome(torch.asarray, s, dtype=torch.float32, copy=False) for s in (a, torch.arange(3))]
    shared, copied = torch.asarray(a), torch.asarray(a, copy=True)
    a[0] = 7
    return [*found, shared, copied]


@scenario
def gradients(torch):
    a, ones = torch.asarray, lambda: torch.ones(2, requires_grad=True)
    t = ones()
    return [
        a(t) is t,
        a(t, requires_grad=True) is t,
        a(ones(), requires_grad=False).requires_grad,
        a(ones() * 2, requires_grad=True).is_leaf,
        a(ones(), copy=True).requires_grad,
        a([1.0], requires_grad=True).requires_grad,
        outcome(a, [1], requires_grad=True),
    ]


def test_a_count_whose_bytes_overflow_is_refused():
    for count in (2**61, 2**62, 2**63 - 1):
        with pytest.raises(ValueError, match="at most"):
            fb.frombuffer(bytearray(32), dtype=fb.int64, count=count)


def test_memory_is_shared_and_kept():
    source = bytearray(8)
    tensors = [fb.frombuffer(source, dtype=fb.int32), fb.asarray(source, dtype=fb.int32)]
    tensors[0][1] = 5
    assert source[4] == 5 and tensors[1].tolist() == [0, 5]
    capsule = np.arange(3).__dlpack__()
    assert fb.asarray(capsule).tolist() == [0, 1, 2]


test_as_in_pytorch = scenario.test()
