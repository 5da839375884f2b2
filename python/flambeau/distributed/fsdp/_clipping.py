"""The norm of gradients that processes have in parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import AllreduceOptions, ReduceOp


def clipped(wrappers: Iterable[Any], parameters: Iterable[Any], max_norm: float, order: float) -> Tensor:
    """Scale gradients so that their norm is at most `max_norm`; return the norm before.

    Args:
        wrappers: those of the model.
        parameters: all parameters of the model.
        max_norm: the largest norm.
        order: of the norm.
    """
    owned: dict[ProcessGroup, list[Tensor]] = {}
    divided: set[Any] = set()
    for wrapper in wrappers:
        if wrapper._parts is not None and wrapper._layout.size > 1:
            divided.update(wrapper._parts.parts())
            grads = owned.setdefault(wrapper._layout.group, [])
            grads += [p.grad for p in wrapper._parts.parts() if p.grad is not None]
    rest = [p.grad for p in parameters if p.grad is not None and p not in divided]
    total = _power(rest, order)
    reduction = ReduceOp.MAX if math.isinf(order) else ReduceOp.SUM
    for group, grads in owned.items():
        part = _power(grads, order)
        group.allreduce([part], AllreduceOptions(reduction)).wait()
        total = flambeau.maximum(total, part) if math.isinf(order) else total + part
    norm = total[0] if math.isinf(order) else total[0] ** (1.0 / order)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for grad in [*rest, *(grad for grads in owned.values() for grad in grads)]:
        grad.mul_(scale.to(grad.dtype))
    dtypes = {grad.dtype for grad in [*rest, *(g for grads in owned.values() for g in grads)]}
    return norm.to(dtypes.pop()) if len(dtypes) == 1 else norm.to(flambeau.float32)


def _power(grads: list[Tensor], order: float) -> Tensor:
    """Return the sum of powers, or the largest magnitude, of all elements, in float64."""
    found = flambeau.zeros(1, dtype=flambeau.float64)
    for grad in grads:
        if grad.numel() == 0:
            continue
        # The norm is computed in float32 or wider, as the sum of squares of half types would overflow.
        wide = grad if grad.dtype is flambeau.float64 else grad.float()
        norm = flambeau.linalg.vector_norm(wide, order).double()
        found = flambeau.maximum(found, norm) if math.isinf(order) else found + norm**order
    return found
