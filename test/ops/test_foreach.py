"""Every overload of PyTorch's operators over lists, by its schema, against PyTorch's result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()


def schemas() -> Iterator[Any]:
    for name in dir(torch):
        if name.startswith("_foreach_"):
            packet = getattr(torch.ops.aten, name)
            yield from (getattr(packet, o)._schema for o in packet.overloads() if not o.endswith("out"))


def value(argument: Any, rng: np.random.Generator) -> Any:
    """What to pass, with arrays in the place of tensors; None: leave it out."""
    kind = str(argument.type)
    if kind == "List[Tensor]":
        return [abs(rng.standard_normal((2, 2))) * 0.4 + 0.1 for _ in range(3)]
    if kind == "Tensor":
        return np.array([0.1, 0.2, 0.3]) if argument.name == "scalars" else np.array(0.7)
    if kind == "List[number]":
        return [0.5, 1.5, 2]
    return 2.5 if kind == "number" and argument.default_value is None else None


def call(m: Any, name: str, values: list[Any]) -> list[np.ndarray]:
    def made(item: Any) -> Any:
        return m.tensor(item) if isinstance(item, np.ndarray) else item

    given = [[made(i) for i in v] if isinstance(v, list) else made(v) for v in values]
    results = getattr(m, name)(*given)
    if name.endswith("_"):
        assert results is given[0]
    lists = [results, *(g for g in given if isinstance(g, list) and hasattr(g[0], "numpy"))]
    return [t.numpy() for some in lists for t in some]


@pytest.mark.parametrize("schema", list(schemas()), ids=lambda s: f"{s.name}.{s.overload_name}")
def test_overload(schema: Any) -> None:
    rng = np.random.default_rng(0)
    values = [v for v in (value(a, rng) for a in schema.arguments) if v is not None]
    name = schema.name.removeprefix("aten::")
    for ours, theirs in zip(call(fb, name, values), call(torch, name, values), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_gradients_flow_through_lists() -> None:
    x = fb.tensor([1.0, 2.0], dtype=fb.float64).requires_grad_()
    a, b = fb._foreach_mul([x, x], [x, x * 3])
    (a + b).sum().backward()
    assert x.grad.tolist() == [8.0, 16.0]
    with pytest.raises(RuntimeError, match="leaf"):
        fb._foreach_add_([x], 1.0)
