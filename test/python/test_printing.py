"""How tensors print, against PyTorch, over values, dtypes, shapes and options."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import flambeau as fb
import pytest
from oracle import pytorch

torch = pytorch()
INF, NAN = float("inf"), float("nan")

VALUES = [
    1.0, [1.0, 2.5, -3.25], [1.0, 2.0, -3.0], [1e9, 1.0, 2.0], [1e-5, 1.0], [1e4, 1.0, 0.1],
    [1.0, INF, -INF, NAN], [INF, NAN], [0.0, 0.0], [-0.0, 1.0], [1e5, 2e7], [1e8, 1.0], [1e-38, 1e-40],
    [[1.0, 2.0], [0.5, 3e-3]],
]  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {}, {"precision": 2}, {"sci_mode": True}, {"sci_mode": False}, {"threshold": 10},
    {"edgeitems": 1, "threshold": 5}, {"linewidth": 40}, {"profile": "short"}, {"precision": 0},
    {"precision": 8}, {"linewidth": 20, "edgeitems": 5, "threshold": 20}, {"edgeitems": 0, "threshold": 3},
]  # fmt: skip
SHAPES = [(2, 3), (3, 20), (2, 3, 4), (40, 40), (5, 300), (300, 5), (7, 7, 7, 7), (1001, 1), (6, 6, 1000)]
COMPLEX = [[1 + 2j, -3.5j, 1e-5 + 1j], [1 + 2j, -3j], [complex(INF, NAN), 1j], [1e10 + 2j, -3e-5j], 1 + 2j]


def tensors(m: Any) -> Iterator[Any]:
    for values in VALUES:
        for dtype in (m.float32, m.float64, m.float16, m.bfloat16):
            yield m.tensor(values, dtype=dtype)
    yield from (m.tensor(values) for values in COMPLEX)
    for dtype in (m.int8, m.uint8, m.int64, m.bool):
        yield m.tensor([[0, 1, 100], [3, 4, 5]], dtype=dtype)
    for shape in ((0,), (0, 3), (2, 0, 3), (1,), (), (1, 1, 1, 1)):
        for dtype in (m.float32, m.int64, m.bool, m.float64, m.complex64, m.int32):
            yield m.zeros(shape, dtype=dtype)
    for shape in SHAPES:
        count = m.arange(math.prod(shape)).reshape(shape)
        yield from (count, count * 0.5, count % 2 == 0, count * (0.5 + 1j))
    yield from (m.arange(n) * 0.37 for n in (5, 30, 999, 1001))
    yield m.ones(3, requires_grad=True)
    yield m.ones(3, requires_grad=True) * 2
    yield m.ones(30, 40, requires_grad=True).exp()
    yield m.empty(2, 3, device="meta", dtype=m.int64)
    yield m.nn.Parameter(m.ones(2, 2))


def shown(m: Any, name: str) -> list[str]:
    """The texts, with the module's name of torch's length and suffixes on the last line."""
    texts = [repr(t).replace(f"{name}.", "torch.") for t in tensors(m)]
    return [re.sub(r",\s+(dtype|grad_fn|size|device|requires_grad)=", r", \1=", text) for text in texts]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tensors_print_as_in_pytorch(options: dict[str, Any]) -> None:
    try:
        for m in (fb, torch):
            m.set_printoptions(profile="default")
            m.set_printoptions(**options)
        for ours, theirs in zip(shown(fb, "flambeau"), shown(torch, "torch"), strict=True):
            assert ours == theirs
    finally:
        for m in (fb, torch):
            m.set_printoptions(profile="default")


@pytest.mark.parametrize("text", ["{:.3f}", "{}", "{:5d}"])
def test_formats(text: str) -> None:
    value = 3 if "d" in text else 1.5
    assert text.format(fb.tensor(value)) == text.format(torch.tensor(value))
