"""One operator inside autocast to bfloat16 against PyTorch's, wherever PyTorch takes the sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flambeau
import torch

from .checks import Verdict, copies, judged, oracle, run_ours, samples, unspecified, widened
from .compare import Different, same, same_choice
from .twin import to_flambeau, to_torch, twin

DTYPES = ("float32", "bfloat16")


def autocast(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """The function form inside a region of autocast: result dtypes are equal, values within bfloat16."""
    for sample in samples(op, dtype, False):
        yield from judged("autocast", _autocast, op, sample)


def _autocast(op: Any, sample: Any) -> None:
    args, kwargs = (sample.input, *sample.args), sample.kwargs
    theirs = oracle(_inside(torch, op.op), *copies(args), **copies(kwargs))
    ours = to_torch(run_ours(_inside(flambeau, twin(op.op)), *to_flambeau(args), **to_flambeau(kwargs)))
    same(ours, theirs, values=False)
    if _agree(ours, theirs):
        return
    exact = oracle(op.op, *widened(copies(args)), **widened(copies(kwargs)))
    if _agree(ours, exact) or same_choice(ours, theirs, args[0]) or unspecified(op, args, kwargs):
        return
    process = _inside(torch, sample.output_process_fn_grad)  # a product of the parts, say
    same(_rounded(process(ours)), _rounded(process(theirs)))


def _agree(ours: Any, theirs: Any) -> bool:
    try:
        same(_rounded(ours), _rounded(theirs))
    except Different:
        return False
    return True


def _rounded(value: Any) -> Any:
    """Floating-point tensors in bfloat16, whose tolerance applies: the steps before them may be in it."""
    if isinstance(value, torch.Tensor):
        return value.to(torch.bfloat16) if value.is_floating_point() else value
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        return [_rounded(v) for v in value]
    return value


def _inside(framework: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with framework.autocast("cpu", framework.bfloat16):
            return function(*args, **kwargs)

    return call
