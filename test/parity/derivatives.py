"""Derivatives of one operator against PyTorch's, along random directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flambeau
import torch
from torch.autograd import forward_ad

from .checks import SEED, NotApplicable, Verdict, copies, judged, oracle, run_ours, samples
from .compare import Different, same
from .twin import to_flambeau, to_torch, twin

GRADIENT_DTYPES = ("float64", "complex128")


def _tensors(value: Any, wanted: Callable[[Any], bool]) -> list[Any]:
    if isinstance(value, torch.Tensor | flambeau.Tensor):
        return [value] if wanted(value) else []
    if isinstance(value, tuple | list):
        return [t for v in value for t in _tensors(v, wanted)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v, wanted)]
    return []


def _requires_grad(tensor: Any) -> bool:
    return tensor.requires_grad


def _zero_if_none(gradients: Any, inputs: list[Any], framework: Any) -> tuple[Any, ...]:
    return tuple(framework.zeros_like(x) if g is None else g for g, x in zip(gradients, inputs, strict=True))


def _directions(like: list[torch.Tensor]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    return [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in like]


def _results(op: Callable[..., Any], process: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return _tensors(process(op(*args, **kwargs)), lambda t: t.requires_grad)


def backward(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """First- and second-order gradients along random directions."""
    if not op.supports_autograd or dtype not in op.supported_backward_dtypes("cpu"):
        return
    for sample in samples(op, dtype, True):
        yield from judged("backward", _backward, op, sample, 1)
        if op.supports_gradgrad:
            yield from judged("second", _backward, op, sample, 2)


def _backward(op: Any, sample: Any, order: int) -> None:
    args = copies((sample.input, *sample.args))
    kwargs = copies(sample.kwargs)
    ours_args, ours_kwargs = to_flambeau(args), to_flambeau(kwargs)
    process = sample.output_process_fn_grad
    inputs = _tensors((args, kwargs), _requires_grad)
    if not inputs:
        raise NotApplicable
    outputs = oracle(_results, op.op, process, args, kwargs)
    if not outputs:
        raise NotApplicable
    directions = (_directions(outputs), _directions(inputs))
    theirs = oracle(_gradients, torch, outputs, inputs, order, directions)
    mine = run_ours(_results, twin(op.op), twin(process), ours_args, ours_kwargs)
    if len(mine) != len(outputs):
        raise Different(f"{len(mine)} outputs require grad in place of {len(outputs)}")
    ours_inputs = _tensors((ours_args, ours_kwargs), _requires_grad)
    ours = run_ours(_gradients, flambeau, mine, ours_inputs, order, to_flambeau(directions))
    same(to_torch(ours), theirs, f"gradient of order {order}")


def _gradients(framework: Any, outputs: Any, inputs: Any, order: int, directions: Any) -> Any:
    again = order > 1
    gradients = framework.autograd.grad(outputs, inputs, directions[0], create_graph=again, allow_unused=True)
    if not again:
        return _zero_if_none(gradients, inputs, framework)
    pairs = [
        (g, d) for g, d in zip(gradients, directions[1], strict=True) if g is not None and g.requires_grad
    ]
    if not pairs:
        return _zero_if_none([None] * len(inputs), inputs, framework)
    second = framework.autograd.grad([g for g, _ in pairs], inputs, [d for _, d in pairs], allow_unused=True)
    return _zero_if_none(second, inputs, framework)


def tangent(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """Forward-mode derivatives along random directions."""
    if not op.supports_forward_ad or dtype not in op.supported_backward_dtypes("cpu"):
        return
    for sample in samples(op, dtype, True):
        yield from judged("tangent", _tangent, op, sample)


def _tangent(op: Any, sample: Any) -> None:
    args, kwargs = copies((sample.input, *sample.args)), copies(sample.kwargs)
    inputs = _tensors((args, kwargs), _requires_grad)
    if not inputs:
        raise NotApplicable
    directions = _directions(inputs)
    ours_args, ours_kwargs, ours_directions = map(to_flambeau, (args, kwargs, directions))
    process = sample.output_process_fn_grad
    theirs = oracle(_pushed, torch, forward_ad, op.op, process, args, kwargs, directions)
    ours_ad = flambeau.autograd.forward_ad
    ours = run_ours(
        _pushed, flambeau, ours_ad, twin(op.op), twin(process), ours_args, ours_kwargs, ours_directions
    )
    try:
        same(to_torch(ours), theirs, "tangent")
    except Different:
        same(to_torch(ours), theirs, "tangent", values=False)
        if not _as_gradients_say(op.op, process, sample, to_torch(ours), directions):
            raise


def _as_gradients_say(op: Any, process: Any, sample: Any, ours: Any, directions: list[torch.Tensor]) -> bool:
    """Whether the tangents are those that PyTorch's gradients imply, where its own tangents are not:
    the gradient of v -> <J^T v, d> is J d.
    """
    args, kwargs = copies((sample.input, *sample.args)), copies(sample.kwargs)
    inputs = _tensors((args, kwargs), _requires_grad)
    try:
        outputs = oracle(_results, op, process, args, kwargs)
        along = [torch.zeros_like(t, requires_grad=True) for t in outputs]
        pulled = torch.autograd.grad(outputs, inputs, along, create_graph=True, allow_unused=True)
        pairs = [(g, d) for g, d in zip(pulled, directions, strict=True) if g is not None]
        pushed = torch.autograd.grad([g for g, _ in pairs], along, [d for _, d in pairs], allow_unused=True)
        same(ours, _zero_if_none(pushed, along, torch), "tangent")
    except (Different, NotApplicable, RuntimeError):
        return False
    return True


def _pushed(
    framework: Any, ad: Any, op: Any, process: Any, args: Any, kwargs: Any, directions: list[Any]
) -> Any:
    remaining = iter(directions)

    def dual(value: Any) -> Any:
        if isinstance(value, torch.Tensor | flambeau.Tensor):
            return ad.make_dual(value.detach(), next(remaining)) if value.requires_grad else value
        if isinstance(value, tuple | list):
            return type(value)(map(dual, value)) if not hasattr(value, "_fields") else value
        if isinstance(value, dict):
            return {k: dual(v) for k, v in value.items()}
        return value

    with ad.dual_level():
        outputs = process(op(*dual(args), **dual(kwargs)))
        found = []
        for output in _tensors(outputs, lambda t: t.is_floating_point() or t.is_complex()):
            primal, along = ad.unpack_dual(output)
            found.append(framework.zeros_like(primal) if along is None else along)
        return tuple(found)
