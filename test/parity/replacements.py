"""Valid calls with one argument replaced by a value that is of another kind, rank, size, dtype or device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

Call = tuple[tuple[Any, ...], dict[str, Any]]
DTYPES = (
    torch.float64, torch.int64, torch.bool, torch.complex64, torch.int32, torch.float16,
    torch.float32, torch.bfloat16, torch.uint8,
)  # fmt: skip


def variations(call: Call) -> Iterator[tuple[str, Call]]:
    """The call with one argument replaced, or with an argument too many."""
    args, kwargs = call
    for i, value in enumerate(args):
        for label, other in replacements(value):
            yield f"{i} {label}", ((*args[:i], other, *args[i + 1 :]), kwargs)
    for name, value in kwargs.items():
        for label, other in replacements(value):
            yield f"{name} {label}", (args, kwargs | {name: other})
    yield "unknown keyword", (args, kwargs | {"no_such_argument": 1})


def destinations(result: Any) -> Iterator[tuple[str, Any]]:
    """Values for `out=` of a call with this result: tensors that do not fit it, and what is not a tensor."""
    if isinstance(result, torch.Tensor):
        yield from _destinations(result)
    elif isinstance(result, tuple | list) and result and all(isinstance(r, torch.Tensor) for r in result):
        places = [torch.empty_like(r) for r in result]
        yield "fewer tensors", tuple(places[:-1])
        yield "more tensors", (*places, places[0])
        for label, other in _destinations(result[0]):
            yield f"first {label}", (other, *places[1:])
        for label, other in _destinations(result[-1]):
            yield f"last {label}", (*places[:-1], other)
    else:
        return
    yield "text", "x"
    yield "number", 1


def _destinations(result: torch.Tensor) -> Iterator[tuple[str, Any]]:
    if result.layout != torch.strided:
        return
    for dtype in DTYPES:
        if dtype is not result.dtype:
            yield str(dtype), torch.zeros(result.shape, dtype=dtype, device=result.device)
    yield "meta", torch.empty_like(result, device="meta")
    yield "one element", torch.zeros(1, dtype=result.dtype)
    yield "no elements", torch.zeros(0, dtype=result.dtype)
    yield "one dimension more", torch.zeros((2, *result.shape), dtype=result.dtype)
    yield "expanded", torch.zeros((), dtype=result.dtype).expand(result.shape)
    yield (
        "requires grad",
        torch.zeros(result.shape, dtype=result.dtype, requires_grad=result.is_floating_point()),
    )


def replacements(value: Any) -> Iterator[tuple[str, Any]]:
    """Values that stand for no sensible argument in this place, or for one of another kind."""
    if isinstance(value, torch.Tensor):
        yield from _tensors(value)
    elif isinstance(value, bool):
        yield from (("text", "x"), ("None", None), ("fraction", 0.5), ("list", [1]), ("number", 1))
    elif isinstance(value, int):
        for other in (-1000, 1000, -1, 0, 1, 2, True, 1.5, None, "x", [1, 2], [], 2**70):
            yield f"int->{other!r}", other
    elif isinstance(value, float | complex):
        for other in (None, "x", [1.0], -1.0, 0, True, float("nan"), float("inf"), 2j):
            yield f"number->{other!r}", other
    elif isinstance(value, str):
        yield from (("another text", "no_such_value"), ("number", 3), ("None", None))
    elif isinstance(value, torch.dtype):
        yield from (("text", "float32"), ("number", 3))
        for dtype in DTYPES:
            if dtype is not value:
                yield f"dtype->{dtype}", dtype
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields") and len(value) < 10:
        yield from _lists(value)


def _tensors(value: torch.Tensor) -> Iterator[tuple[str, Any]]:
    plain = value.detach()
    if plain.layout != torch.strided:
        return
    yield "tensor->None", None
    yield "tensor->text", "x"
    yield "tensor->number", 2
    yield "tensor->list", [1.0]
    yield "tensor->meta", plain.to("meta")
    yield "one dimension more", plain.unsqueeze(0)
    yield "two dimensions more", plain.unsqueeze(0).unsqueeze(0)
    if plain.dim():
        yield from _other_sizes(plain)
    for dtype in DTYPES:
        if dtype is not plain.dtype:
            yield f"tensor->{dtype}", (plain.real if plain.is_complex() else plain).to(dtype)
    if plain.dtype is torch.int64 and plain.numel():
        yield "index too large", plain + 1000
        yield "index too small", plain - 1000
    elif plain.is_floating_point() and plain.numel():
        yield "negative", -plain.abs() - 1


def _other_sizes(plain: torch.Tensor) -> Iterator[tuple[str, Any]]:
    if plain.shape[0]:
        yield "one dimension less", plain[0]
    if plain.numel():
        yield "no dimensions", plain.flatten()[0]
        yield "one element", plain.flatten()[:1]
    for d in sorted({0, plain.dim() - 1}):
        yield f"longer in dim {d}", torch.cat([plain, plain.narrow(d, 0, min(1, plain.shape[d]))], d)
        yield f"empty in dim {d}", plain.narrow(d, 0, 0)


def _lists(value: Any) -> Iterator[tuple[str, Any]]:
    kind = type(value) if type(value) in (list, tuple) else tuple
    items = list(value)
    yield "list->None", None
    yield "list->text", "x"
    yield "list->number", 1
    yield "empty list", kind()
    if not items:
        return
    yield "longer list", kind([*items, items[-1]])
    yield "shorter list", kind(items[:-1])
    for label, other in (("text", "x"), ("None", None), ("number", 1.5), ("list", [1])):
        yield f"{label} in list", kind([*items[:-1], other])
    if all(isinstance(i, int) and not isinstance(i, bool) for i in items):
        yield "repeated in list", kind([items[0]] * max(2, len(items)))
        yield "negative in list", kind([*items[:-1], -1000])
        yield "zero in list", kind([*items[:-1], 0])
        yield "large in list", kind([*items[:-1], 1000])
        yield "list->tensor", torch.tensor(items)
    elif all(isinstance(i, torch.Tensor) for i in items):
        for label, other in _tensors(items[-1]):
            yield f"last {label}", kind([*items[:-1], other])
