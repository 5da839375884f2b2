"""The memory order of results against PyTorch's: strides, over operators and orders of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flambeau as fb
import pytest
from memory_layouts import inputs, per_channel, strides
from oracle import pytorch

torch = pytorch()
Case = tuple[str, Callable[[Any, Any], Any]]


def pointwise() -> Iterator[Case]:
    for name in "exp neg abs relu sigmoid tanh sqrt square isnan logical_not sign round clone angle".split():
        yield name, lambda m, x, name=name: getattr(m, name)(x)
    yield "number", lambda m, x: x + 1
    yield "same", lambda m, x: x + x
    yield "row-major", lambda m, x: x + m.ones(x.shape)
    yield "row-major first", lambda m, x: m.ones(x.shape) + x
    yield "channel", lambda m, x: x + per_channel(m, x)
    yield "channel first", lambda m, x: per_channel(m, x) * x
    yield "row", lambda m, x: x + m.ones(x.shape[-1])
    yield "scalar tensor", lambda m, x: x * m.tensor(1.0)
    yield "integers", lambda m, x: x * m.ones(x.shape, dtype=m.int64)
    yield "compare", lambda m, x: x > 1
    yield "where", lambda m, x: m.where(x > 1, x, 0.0)
    yield "clamp", lambda m, x: x.clamp(0, 1)
    yield "lerp", lambda m, x: m.lerp(x, x, 0.5)
    yield "power", lambda m, x: x**2


def made_like() -> Iterator[Case]:
    for name in "empty_like zeros_like ones_like rand_like".split():
        yield name, lambda m, x, name=name: getattr(m, name)(x)
        for form in ("contiguous_format", "preserve_format"):
            yield (
                f"{name} {form}",
                lambda m, x, name=name, form=form: getattr(m, name)(x, memory_format=getattr(m, form)),
            )
    yield "full_like", lambda m, x: m.full_like(x, 2)
    for form in ("contiguous_format", "preserve_format"):
        yield f"clone {form}", lambda m, x, form=form: x.clone(memory_format=getattr(m, form))
        yield f"to {form}", lambda m, x, form=form: x.to(m.float64, memory_format=getattr(m, form))
    yield "contiguous", lambda m, x: x.contiguous()
    yield "double", lambda m, x: x.double()
    yield "copy", lambda m, x: x.to(x.dtype, copy=True)


def joined_and_reduced() -> Iterator[Case]:
    yield "cat 0", lambda m, x: m.cat([x, x], 0)
    yield "cat 1", lambda m, x: m.cat([x, x], 1)
    yield "cat mixed", lambda m, x: m.cat([x, m.ones(x.shape)], 1)
    yield "sum", lambda m, x: x.sum(1)
    yield "sum kept", lambda m, x: x.sum(1, keepdim=True)
    yield "amax", lambda m, x: x.amax(-1)
    yield "argmax", lambda m, x: x.argmax(1)
    yield "variance", lambda m, x: x.var(1)
    yield "logsumexp", lambda m, x: x.logsumexp(1)
    yield "softmax", lambda m, x: x.softmax(1)
    yield "log_softmax", lambda m, x: x.log_softmax(-1)
    yield "cumsum", lambda m, x: x.cumsum(1)
    yield "sort", lambda m, x: x.sort(1)[0]
    for name in "gelu silu leaky_relu elu hardswish softplus dropout".split():
        yield name, lambda m, x, name=name: getattr(m.nn.functional, name)(x)
    yield "prelu", lambda m, x: m.nn.functional.prelu(x, m.ones(x.shape[1]))
    yield "mse", lambda m, x: m.nn.functional.mse_loss(x, x, reduction="none")
    yield "in place", lambda m, x: x.clone().add_(1)
    yield "out", lambda m, x: m.add(x, x, out=m.empty(0))
    yield "out of its own", lambda m, x: m.exp(x, out=m.empty(x.shape))


@pytest.mark.parametrize(
    ("name", "call"),
    [*pointwise(), *made_like(), *joined_and_reduced()],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_results_keep_the_order_that_pytorch_keeps(name: str, call: Callable[[Any, Any], Any]) -> None:
    ours, theirs = inputs(fb), inputs(torch)
    for order in ours:
        assert strides(call(fb, ours[order]), order) == strides(call(torch, theirs[order]), order), order
