"""functionalize of one operator against the operator, wherever PyTorch takes the sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flambeau
import torch

from .batches import SAMPLES, results_of
from .checks import Verdict, copies, judged, oracle, run_ours, samples, unspecified
from .compare import Different, same
from .twin import to_flambeau, to_torch, twin

DTYPES = ("float32",)


def functionalised(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """The function form, functionalised and plain, on equal arguments."""
    for sample in samples(op, dtype, False)[:SAMPLES]:
        values = (sample.input, *sample.args), sample.kwargs
        yield from judged("functionalised", _functionalised, op, *values)


def _functionalised(op: Any, args: Any, kwargs: Any) -> None:
    oracle(op.op, *copies(args), **copies(kwargs))
    ours = twin(op.op)
    plain = run_ours(ours, *to_flambeau(args), **to_flambeau(kwargs))
    found = run_ours(flambeau.func.functionalize(ours), *to_flambeau(args), **to_flambeau(kwargs))
    if isinstance(plain, bool | int | float | flambeau.Size):
        if (type(found), found) != (type(plain), plain):
            raise Different(f"{found} for {plain}")
        return
    found, plain = to_torch(list(results_of(found))), to_torch(list(results_of(plain)))
    try:
        same(found, plain)
    except Different:
        same(found, plain, values=not unspecified(op, args, kwargs))
