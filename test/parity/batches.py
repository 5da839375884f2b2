"""vmap of one operator against a loop over the entries of the batch, wherever PyTorch's vmap works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flambeau
import torch

from .checks import NotApplicable, Verdict, copies, judged, oracle, run_ours, samples, unspecified
from .compare import Different, same
from .twin import to_flambeau, to_torch, twin

DTYPES = ("float32",)
SAMPLES = 8
SCALES = (1.0, 0.75)  # entries differ, and stay positive, definite or triangular where they were


def batched(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """Each tensor argument batched alone in front, and all of them at once at the end."""
    for sample in samples(op, dtype, False)[:SAMPLES]:
        values = (sample.input, *sample.args), sample.kwargs
        tensors = _tensors(values)
        plans = [[at] for at in range(len(tensors))]
        if len(tensors) > 1:
            plans.append(list(range(len(tensors))))
        for chosen in plans:
            yield from judged("vmap", _vmap, op, values, tensors, chosen)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, tuple | list):
        return []
    return [t for v in value for t in _tensors(v)]


def _filled(value: Any, tensors: Iterator[Any]) -> Any:
    """The same arguments with other tensors in the places of theirs."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, dict):
        return {k: _filled(v, tensors) for k, v in value.items()}
    if isinstance(value, tuple | list) and _tensors(value):
        return type(value)(_filled(v, tensors) for v in value)
    return value


def _entries(t: torch.Tensor) -> list[torch.Tensor]:
    return [t * s if t.is_floating_point() or t.is_complex() else t.clone() for s in SCALES]


def _caller(op: Callable[..., Any], values: Any, convert: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(*tensors: Any) -> Any:
        args, kwargs = _filled(values, iter(tensors))
        return results_of(op(*convert(args), **convert(kwargs)))

    return call


def results_of(value: Any) -> tuple[Any, ...]:
    """All tensors that came back."""
    if isinstance(value, torch.Tensor | flambeau.Tensor):
        return (value,)
    if isinstance(value, tuple | list):
        return tuple(t for v in value for t in results_of(v))
    if value is None:
        return ()
    raise Different(f"a result of type {type(value).__name__}")


def _vmap(op: Any, values: Any, tensors: list[torch.Tensor], chosen: list[int]) -> None:
    if any(t.layout != torch.strided for t in tensors):
        raise NotApplicable
    at = 0 if len(chosen) == 1 else -1
    dims = tuple(at if i in chosen else None for i in range(len(tensors)))
    given = [torch.stack(_entries(t), at) if i in chosen else copies(t) for i, t in enumerate(tensors)]
    oracle(torch.func.vmap(_caller(op.op, values, lambda v: v), in_dims=dims), *map(copies, given))
    ours = _caller(twin(op.op), values, _plain_to_flambeau)
    entries = [
        [to_flambeau(_entries(t)[b]) if i in chosen else to_flambeau(t) for i, t in enumerate(tensors)]
        for b in range(len(SCALES))
    ]
    rows = [run_ours(ours, *entry) for entry in entries]
    expected = [flambeau.stack(column) for column in zip(*rows, strict=True)]
    found = run_ours(flambeau.func.vmap(ours, in_dims=dims), *map(to_flambeau, given))
    try:
        same(to_torch(list(found)), to_torch(expected), "vmap")
    except Different:
        args, kwargs = values
        same(to_torch(list(found)), to_torch(expected), "vmap", values=not unspecified(op, args, kwargs))


def _plain_to_flambeau(value: Any) -> Any:
    """What is not a tensor as flambeau has it; tensors are flambeau's already."""
    if isinstance(value, flambeau.Tensor):
        return value
    if isinstance(value, dict):
        return {k: _plain_to_flambeau(v) for k, v in value.items()}
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(map(_plain_to_flambeau, value))
    return to_flambeau(value)
