"""The memory order of what moves elements, and of its gradients, against PyTorch: strides and values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flambeau as fb
import pytest
from memory_layouts import Call, Case, calls, compare, inputs, named
from oracle import pytorch

torch = pytorch()


def three(m: Any) -> Any:
    return m.tensor([0, 0, 0])


def moves() -> Iterator[Case]:
    yield "flip 1", lambda m, x, _: x.flip(1)
    yield "flip 0, -1", lambda m, x, _: x.flip(0, -1)
    yield "roll 1", lambda m, x, _: x.roll(1, 1)
    yield "roll all", lambda m, x, _: x.roll(1)
    yield "stack 0", lambda m, x, _: m.stack([x, x], 0)
    yield "stack 1", lambda m, x, _: m.stack([x, x], 1)
    yield "stack -1", lambda m, x, _: m.stack([x, x], -1)
    yield "cat 0", lambda m, x, _: m.cat([x, x + 1], 0)
    yield "cat 1", lambda m, x, _: m.cat([x, x + 1], 1)
    yield "repeat", lambda m, x, _: x.repeat([2] + [1] * (x.dim() - 1))
    yield "tril", lambda m, x, _: x.tril()
    yield "unfold", lambda m, x, _: m.nn.functional.unfold(x, 2)
    yield "flatten", lambda m, x, _: x.flatten(1)
    yield "dropout off", lambda m, x, _: m.nn.functional.dropout(x, 0.5, False)


def shuffles() -> Iterator[Case]:
    yield "pixel_shuffle", lambda m, x, _: m.nn.functional.pixel_shuffle(x, 2)
    yield "pixel_unshuffle", lambda m, x, _: m.nn.functional.pixel_unshuffle(x[..., :4, :4], 2)
    yield "roll 0, 1", lambda m, x, _: x.roll((1, 2), (0, 1))
    yield "channel_shuffle", lambda m, x, _: m.nn.functional.channel_shuffle(x, 2)


def indexing() -> Iterator[Case]:
    yield "index_select 0", lambda m, x, _: x.index_select(0, three(m))
    yield "index_select 1", lambda m, x, _: x.index_select(1, three(m))
    yield "index 0", lambda m, x, _: x[three(m)]
    yield "index 1", lambda m, x, _: x[:, three(m)]
    yield "index -1", lambda m, x, _: x[..., three(m)]
    yield "index 0 and 1", lambda m, x, _: x[three(m), three(m)]
    yield "index 0 and -1", lambda m, x, _: x[three(m), ..., three(m)]
    yield "index by a matrix", lambda m, x, _: x[:, three(m).reshape(3, 1)]
    yield "mask", lambda m, x, _: x[x > 1]
    yield "mask of rows", lambda m, x, _: x[m.ones(x.shape[0], dtype=m.bool)]
    yield "gather", lambda m, x, _: x.gather(1, m.zeros_like(x, dtype=m.int64))
    yield "scatter", lambda m, x, _: x.scatter(1, m.zeros_like(x[:, :1], dtype=m.int64), 0.5)
    yield "scatter_add", lambda m, x, _: x.scatter_add(1, m.zeros_like(x, dtype=m.int64), x.detach())
    yield "index_add", lambda m, x, _: x.index_add(0, three(m)[:1], x.detach()[:1])
    yield "index_copy", lambda m, x, _: x.index_copy(0, three(m)[:1], x.detach()[:1])
    yield "index_fill", lambda m, x, _: x.index_fill(1, three(m)[:1], 1.0)


def complex_parts() -> Iterator[Case]:
    yield "complex", lambda m, x, _: m.complex(x, x + 1)
    yield "complex of a row", lambda m, x, _: m.complex(x, m.ones(x.shape[-1]))
    yield "polar", lambda m, x, _: m.polar(x, x)
    yield "real", lambda m, x, _: m.complex(x, x).real
    yield "conj_physical", lambda m, x, _: m.conj_physical(m.complex(x, x))
    yield "abs", lambda m, x, _: m.complex(x, x).abs()
    yield "cast", lambda m, x, _: x.to(m.complex64)


def conversions() -> Iterator[Case]:
    for form in ("contiguous_format", "preserve_format"):
        yield f"to {form}", lambda m, x, _, form=form: x.to(memory_format=getattr(m, form))
        yield f"to double {form}", lambda m, x, _, form=form: x.to(m.float64, memory_format=getattr(m, form))
    for form in ("channels_last", "channels_last_3d"):
        yield f"to {form}", lambda m, x, _, form=form: x.to(memory_format=getattr(m, form))
        yield f"contiguous {form}", lambda m, x, _, form=form: x.contiguous(memory_format=getattr(m, form))
        yield f"clone {form}", lambda m, x, _, form=form: x.clone(memory_format=getattr(m, form))
    yield "positive", lambda m, x, _: m.positive(x)


def random_draws() -> Iterator[tuple[str, Any]]:
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        yield name, lambda m, x, name=name: getattr(m.nn.functional, name)(x, 0.5, True)
    yield "native_dropout", lambda m, x: m.native_dropout(x, 0.5, True)[0]
    yield "bernoulli", lambda m, x: m.bernoulli(x.clamp(0, 1))
    yield "poisson", lambda m, x: m.poisson(x.clamp(0, 1))
    yield "randn_like", lambda m, x: m.randn_like(x)
    yield "randint_like", lambda m, x: m.randint_like(x, 5)


@named(calls(moves()))
def test_moves(name: str, call: Call) -> None:
    compare(call)


@named(calls(shuffles()))
def test_shuffles_keep_the_format_where_pytorch_may_not(name: str, call: Call) -> None:
    compare(call, keeps=True)


@named(calls(indexing()))
def test_indexing(name: str, call: Call) -> None:
    compare(call)


@named(complex_parts())
def test_complex_numbers_keep_the_order(name: str, call: Call) -> None:
    compare(call)


@named(conversions())
def test_conversions(name: str, call: Call) -> None:
    compare(call)


@pytest.mark.parametrize(
    ("name", "call"), list(random_draws()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_random_numbers_keep_the_order(name: str, call: Any) -> None:
    ours, theirs = inputs(fb), inputs(torch)
    for order, x in theirs.items():
        try:
            wanted = call(torch, x)
        except RuntimeError:
            continue
        assert call(fb, ours[order]).stride() == wanted.stride(), order


def test_what_changes_nothing_is_the_tensor_itself() -> None:
    x = fb.arange(240.0).reshape(2, 4, 6, 5).contiguous(memory_format=fb.channels_last)
    assert fb.positive(x) is x
    assert +x is x
    assert x.to(memory_format=fb.channels_last) is x
    assert x.to(memory_format=fb.contiguous_format) is not x
    with pytest.raises(RuntimeError, match="positive: expected numbers, got dtype bool"):
        fb.positive(x > 1)
