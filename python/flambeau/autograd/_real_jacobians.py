"""Jacobians as gradcheck compares them: of real numbers, by differences, by rows and by columns.

Complex numbers count as pairs of reals: a function of n complex inputs has 2n real ones, and the
gradient's convention (that of PyTorch: dL = Re(conj(grad) dx)) makes the real and the imaginary
part of each gradient a row of the real Jacobian.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.autograd.forward_ad import dual_level, make_dual, unpack_dual

_Function = Callable[..., Any]


def is_differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def floating(result: Any) -> list[Tensor]:
    items = result if isinstance(result, tuple | list) else (result,)
    return [t for t in items if is_differentiable(t)]


def differentiable_positions(result: Any) -> tuple[list[Tensor], list[int]]:
    """Outputs that require a gradient, and their places among those of floating numbers."""
    tensors = floating(result)
    which = [i for i, t in enumerate(tensors) if t.requires_grad]
    return [tensors[i] for i in which], which


def real(t: Tensor) -> Tensor:
    """All numbers as one row of float64; a complex number as two."""
    t = t.detach()
    if t.is_complex():
        t = flambeau.view_as_real(t.resolve_conj())
    return t.reshape(-1).to(flambeau.float64)


def positions(t: Tensor) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in t.shape))


def steps(t: Tensor) -> tuple[complex | float, ...]:
    return (1.0, 1j) if t.is_complex() else (1.0,)


def units(t: Tensor) -> Iterator[Tensor]:
    """Tensors like t that are zero but for one real component."""
    for place in positions(t):
        for step in steps(t):
            unit = flambeau.zeros_like(t)
            unit[place] = step
            yield unit.detach()


# --- the real Jacobian of each output, with respect to one input -----------------------------------


def evaluate(function: _Function, inputs: Sequence[Any], which: Sequence[int]) -> list[Tensor]:
    tensors = floating(function(*inputs))
    return [real(tensors[i]).clone() for i in which]


def numerical(
    function: _Function, inputs: Sequence[Any], x: Tensor, which: Sequence[int], eps: float
) -> list[Tensor]:
    columns: list[list[Tensor]] = [[] for _ in which]
    data = x.data
    for place in positions(x):
        value = data[place].item()
        for step in steps(x):
            data[place] = value + eps * step
            above = evaluate(function, inputs, which)
            data[place] = value - eps * step
            below = evaluate(function, inputs, which)
            for column, a, b in zip(columns, above, below, strict=True):
                column.append((a - b) / (2 * eps))
        data[place] = value
    return [flambeau.stack(c, 1) if c else flambeau.zeros(0, 0, dtype=flambeau.float64) for c in columns]


def gradient_or_zeros(grad: Tensor | None, x: Tensor) -> Tensor:
    if grad is None:
        return real(flambeau.zeros_like(x))
    return real(grad.to_dense() if grad.is_sparse else grad)


def backward_rows(output: Tensor, xs: Sequence[Tensor]) -> list[Tensor]:
    rows: list[list[Tensor]] = [[] for _ in xs]
    for unit in units(output):
        grads = flambeau.autograd.grad(output, xs, unit, retain_graph=True, allow_unused=True)
        for row, grad, x in zip(rows, grads, xs, strict=True):
            row.append(gradient_or_zeros(grad, x))
    return [flambeau.stack(r, 0) if r else flambeau.zeros(0, 0, dtype=flambeau.float64) for r in rows]


def forward_columns(
    function: _Function, inputs: Sequence[Any], index: int, which: Sequence[int]
) -> list[Tensor]:
    columns: list[list[Tensor]] = [[] for _ in which]
    for unit in units(inputs[index]):
        with dual_level():
            duals = list(inputs)
            duals[index] = make_dual(inputs[index].detach(), unit)
            tensors = floating(function(*duals))
            for column, i in zip(columns, which, strict=True):
                primal, tangent = unpack_dual(tensors[i])
                column.append(gradient_or_zeros(tangent, primal).clone())
    return [flambeau.stack(c, 1) if c else flambeau.zeros(0, 0, dtype=flambeau.float64) for c in columns]
