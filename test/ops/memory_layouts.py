"""Inputs of many memory orders, and how results of both frameworks are compared over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()
# call(module, x, leaf): `leaf` marks a further tensor whose gradient is looked at.
Call = Callable[[Any, Any, Callable[[Any], Any]], Any]
Case = tuple[str, Call]


def inputs(m: Any) -> dict[str, Any]:
    """Tensors of 2 to 5 dimensions, dense and not, in several orders."""
    four = m.arange(240.0).reshape(2, 4, 6, 5) / 50
    five = m.arange(720.0).reshape(2, 4, 3, 6, 5) / 50
    last = four.contiguous(memory_format=m.channels_last)
    last_3d = five.contiguous(memory_format=m.channels_last_3d)
    return {
        "row-major": four,
        "channels last": last,
        "permuted": m.arange(240.0).reshape(6, 2, 5, 4).permute(1, 3, 0, 2) / 50,
        "gaps": four[:, ::2],
        "channels last with gaps": last[:, :, ::2],
        "some channels": last[:, 1:3],
        "expanded": four[:, :1].expand(2, 4, 6, 5),
        "one sample": four[:1].contiguous(memory_format=m.channels_last),
        "one channel": four[:, :1].contiguous(),
        "one channel last": four[:, :1].contiguous().contiguous(memory_format=m.channels_last),
        "one pixel": four[:, :, :1, :1].contiguous(memory_format=m.channels_last),
        "channels last 3d": last_3d,
        "channels last 3d with gaps": last_3d[:, :, :, ::2],
        "row-major 3d": five,
        "matrix": four[0, 0].t(),
        "three": four[0].permute(2, 0, 1),
    }


def per_channel(m: Any, x: Any) -> Any:
    return m.ones(x.shape[1], *[1] * (x.dim() - 2)) if x.dim() > 2 else m.ones(x.shape[-1])


def with_gradients(call: Call, row_major: bool) -> Call:
    """The result and the gradients of all inputs, for a gradient in the result's order or row-major."""

    def both(m: Any, x: Any, _: Any) -> Any:
        leaves = [x.detach().requires_grad_(True)]

        def leaf(t: Any) -> Any:
            leaves.append(t.detach().requires_grad_(True))
            return leaves[-1]

        out = call(m, leaves[0], leaf)
        first = out[0] if isinstance(out, tuple) else out
        ramp = m.arange(float(first.numel())).reshape(first.shape) / first.numel()
        grad = ramp if row_major else m.empty_like(first).copy_(ramp)
        return (first, *m.autograd.grad(first, leaves, grad, allow_unused=True))

    return both


def calls(cases: Iterator[Case]) -> Iterator[Case]:
    """Each case as it is, and with gradients of two orders."""
    for name, call in cases:
        yield name, call
        yield f"{name}, gradient", with_gradients(call, False)
        yield f"{name}, row-major gradient", with_gradients(call, True)


def named(cases: Iterator[Case]) -> Any:
    """A parametrisation over cases."""
    return pytest.mark.parametrize(
        ("name", "call"), list(cases), ids=lambda v: v if isinstance(v, str) else ""
    )


def strides(t: Any, order: str) -> tuple[int, ...]:
    """Along dimensions that were of size 1 from the start, PyTorch's strides differ by operator."""
    told = [
        (s, n) for s, n in zip(t.stride(), t.shape, strict=True) if n != 1 or not order.startswith("one ")
    ]
    return tuple(s for s, _ in told) if t.numel() else ()


def _parts(result: Any) -> list[Any]:
    return [p for p in (result if isinstance(result, (list, tuple)) else [result]) if p is not None]


def compare(call: Call, keeps: bool = False, exactness: float = 1e-4) -> None:
    """Strides and values are PyTorch's, over all inputs that PyTorch takes.

    With `keeps`, the format of an input may be kept where PyTorch's result is row-major. Values may
    differ by `exactness` of the largest.
    """
    ours, theirs = inputs(fb), inputs(torch)
    compared = 0
    for order, x in theirs.items():
        try:
            wanted = _parts(call(torch, x, lambda t: t))
        except (RuntimeError, ValueError, NotImplementedError, IndexError, KeyError, AttributeError):
            continue
        got = _parts(call(fb, ours[order], lambda t: t))
        assert len(got) == len(wanted), order
        for a, b in zip(got, wanted, strict=True):
            kept = keeps and b.is_contiguous() and a.stride() != b.stride()
            assert kept or strides(a, order) == strides(b, order), order
            values = b.detach().numpy()
            scale = exactness * max(1.0, float(np.abs(values).max(initial=0)))
            np.testing.assert_allclose(a.detach().numpy(), values, rtol=exactness, atol=scale, err_msg=order)
        compared += 1
    assert compared
