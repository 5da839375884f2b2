"""Derivatives against finite differences.

Complex numbers count as pairs of reals: a function of n complex inputs has 2n real ones, and the
gradient's convention (that of PyTorch: dL = Re(conj(grad) dx)) makes the rows of the real Jacobian the
real and imaginary parts of gradients.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.autograd.forward_ad import dual_level, make_dual, unpack_dual
from flambeau.autograd.function import Function

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """A derivative is not what finite differences say."""


class _NoGradient(Function):
    """Passes values on and lets no gradient back."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        return tuple(t.clone() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None,) * len(grads)


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _floating(result: Any) -> list[Tensor]:
    items = result if isinstance(result, tuple | list) else (result,)
    return [t for t in items if _is_differentiable(t)]


def _differentiable_positions(result: Any) -> tuple[list[Tensor], list[int]]:
    """Outputs that require a gradient, and their places among those of floating numbers."""
    tensors = _floating(result)
    which = [i for i, t in enumerate(tensors) if t.requires_grad]
    return [tensors[i] for i in which], which


def _real(t: Tensor) -> Tensor:
    """All numbers as one row of float64; a complex number as two."""
    t = t.detach()
    if t.is_complex():
        t = flambeau.view_as_real(t)
    return t.reshape(-1).to(flambeau.float64)


def _positions(t: Tensor) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in t.shape))


def _steps(t: Tensor) -> tuple[complex | float, ...]:
    return (1.0, 1j) if t.is_complex() else (1.0,)


def _units(t: Tensor) -> Iterator[Tensor]:
    """Tensors like t that are zero but for one real component."""
    for place in _positions(t):
        for step in _steps(t):
            unit = flambeau.zeros_like(t)
            unit[place] = step
            yield unit.detach()


# --- the real Jacobian of each output, with respect to one input --------------------------------


def _evaluate(function: _Function, inputs: Sequence[Any], which: Sequence[int]) -> list[Tensor]:
    tensors = _floating(function(*inputs))
    return [_real(tensors[i]).clone() for i in which]


def _numerical(
    function: _Function, inputs: Sequence[Any], x: Tensor, which: Sequence[int], eps: float
) -> list[Tensor]:
    columns: list[list[Tensor]] = [[] for _ in which]
    data = x.data
    for place in _positions(x):
        value = data[place].item()
        for step in _steps(x):
            data[place] = value + eps * step
            above = _evaluate(function, inputs, which)
            data[place] = value - eps * step
            below = _evaluate(function, inputs, which)
            for column, a, b in zip(columns, above, below, strict=True):
                column.append((a - b) / (2 * eps))
        data[place] = value
    return [flambeau.stack(c, 1) if c else flambeau.zeros(0, 0, dtype=flambeau.float64) for c in columns]


def _gradient_or_zeros(grad: Tensor | None, x: Tensor) -> Tensor:
    return _real(flambeau.zeros_like(x) if grad is None else grad)


def _backward_rows(output: Tensor, xs: Sequence[Tensor]) -> list[Tensor]:
    rows: list[list[Tensor]] = [[] for _ in xs]
    for unit in _units(output):
        grads = flambeau.autograd.grad(output, xs, unit, retain_graph=True, allow_unused=True)
        for row, grad, x in zip(rows, grads, xs, strict=True):
            row.append(_gradient_or_zeros(grad, x))
    return [flambeau.stack(r, 0) if r else flambeau.zeros(0, 0, dtype=flambeau.float64) for r in rows]


def _forward_columns(
    function: _Function, inputs: Sequence[Any], index: int, which: Sequence[int]
) -> list[Tensor]:
    columns: list[list[Tensor]] = [[] for _ in which]
    for unit in _units(inputs[index]):
        with dual_level():
            duals = list(inputs)
            duals[index] = make_dual(inputs[index].detach(), unit)
            tensors = _floating(function(*duals))
            for column, i in zip(columns, which, strict=True):
                primal, tangent = unpack_dual(tensors[i])
                column.append(_gradient_or_zeros(tangent, primal).clone())
    return [flambeau.stack(c, 1) if c else flambeau.zeros(0, 0, dtype=flambeau.float64) for c in columns]


# --- checks ----------------------------------------------------------------------------------------


def _compare(
    analytical: Tensor, numerical: Tensor, place: tuple[int, int], atol: float, rtol: float, mode: str
) -> None:
    if analytical.numel() == 0 and numerical.numel() == 0:
        return
    if flambeau.allclose(analytical, numerical, rtol, atol):
        return
    worst = (analytical - numerical).abs().max().item()
    raise GradcheckError(
        f"Jacobian {mode}mismatch for output {place[0]} with respect to input {place[1]},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\nlargest difference: {worst}"
    )


def _check_inputs(inputs: Sequence[Any]) -> list[int]:
    indices = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not indices:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, "
            "but none of the them have requires_grad=True."
        )
    for i in indices:
        x = inputs[i]
        if x.dtype not in (flambeau.float64, flambeau.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. "
                "This check will likely fail if all the inputs are not of double precision floating point or "
                "complex. ",
                stacklevel=4,
            )
        if any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride(), strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )
    return indices


def _check_undefined(outputs: Sequence[Tensor], xs: Sequence[Tensor]) -> None:
    cut = _NoGradient.apply(*outputs)
    weights = [flambeau.zeros_like(t) for t in cut]
    grads = flambeau.autograd.grad(cut, xs, weights, retain_graph=True, allow_unused=True)
    if any(g is not None and bool((g != 0).any().item()) for g in grads):
        raise GradcheckError(
            "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
        )


def _check_weighted(outputs: Sequence[Tensor], xs: Sequence[Tensor]) -> None:
    weights = [flambeau.zeros_like(o.detach()) for o in outputs]
    grads = flambeau.autograd.grad(outputs, xs, weights, retain_graph=True, allow_unused=True)
    if any(g is not None and bool((g != 0).any().item()) for g in grads):
        raise GradcheckError("backward not multiplied by grad_output")


def _check_repeatable(first: Sequence[Tensor], second: Sequence[Tensor], tolerance: float) -> None:
    for a, b in zip(first, second, strict=True):
        if a.numel() and (a - b).abs().max().item() > tolerance:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                f"times gives different values, although analytical gradient matches numerical gradient. "
                f"The tolerance for nondeterminism was {tolerance}."
            )


@dataclass
class _Check:
    """One call of gradcheck: what is compared, and how closely."""

    func: _Function
    arguments: tuple[Any, ...]
    indices: list[int]  # of the arguments that are checked
    eps: float
    atol: float
    rtol: float
    backward: bool
    forward: bool

    def compare(self, analytical: Tensor, numerical: Tensor, place: tuple[int, int], mode: str = "") -> None:
        _compare(analytical, numerical, place, self.atol, self.rtol, mode)

    def jacobians(self) -> None:
        """Compare all columns and rows."""
        outputs, which = _differentiable_positions(self.func(*self.arguments))
        xs = [self.arguments[i] for i in self.indices]
        rows = [_backward_rows(o, xs) for o in outputs] if self.backward else []
        for k, index in enumerate(self.indices):
            numerical = _numerical(self.func, self.arguments, xs[k], which, self.eps)
            for j, row in enumerate(rows):
                self.compare(row[k], numerical[j], (j, index))
            if self.forward:
                for j, columns in enumerate(_forward_columns(self.func, self.arguments, index, which)):
                    self.compare(columns, numerical[j], (j, index), "computed with forward mode ")

    def directions(self) -> None:
        """Compare u.J.v for random u and v, one input at a time."""
        outputs, which = _differentiable_positions(self.func(*self.arguments))
        for index in self.indices:
            x = self.arguments[index]
            v = flambeau.randn_like(x.detach())
            slopes = self._slopes(x, v, which)
            for j, output in enumerate(outputs):
                u = flambeau.randn_like(output.detach())
                expected = (slopes[j] * _real(u)).sum()
                if self.backward:
                    (g,) = flambeau.autograd.grad(output, (x,), u, retain_graph=True, allow_unused=True)
                    self.compare((_gradient_or_zeros(g, x) * _real(v)).sum(), expected, (j, index))
                if self.forward:
                    tangent = self._tangent(index, v, which[j])
                    self.compare(
                        (tangent * _real(u)).sum(), expected, (j, index), "computed with forward mode "
                    )

    def _slopes(self, x: Tensor, v: Tensor, which: list[int]) -> list[Tensor]:
        original = x.detach().clone()
        x.data.copy_(original + self.eps * v)
        above = _evaluate(self.func, self.arguments, which)
        x.data.copy_(original - self.eps * v)
        below = _evaluate(self.func, self.arguments, which)
        x.data.copy_(original)
        return [(a - b) / (2 * self.eps) for a, b in zip(above, below, strict=True)]

    def _tangent(self, index: int, v: Tensor, output: int) -> Tensor:
        with dual_level():
            duals = list(self.arguments)
            duals[index] = make_dual(duals[index].detach(), v)
            primal, tangent = unpack_dual(_floating(self.func(*duals))[output])
            return _gradient_or_zeros(tangent, primal).clone()

    def calls(self, nondet_tol: float, undefined: bool) -> None:
        """Check that backward repeats itself and copes with absent gradients."""
        outputs, _ = _differentiable_positions(self.func(*self.arguments))
        if not outputs or not self.backward:
            return
        xs = [self.arguments[i] for i in self.indices]
        weights = [flambeau.ones_like(o.detach()) for o in outputs]
        runs = []
        for _ in range(2):
            grads = flambeau.autograd.grad(outputs, xs, weights, retain_graph=True, allow_unused=True)
            runs.append([_gradient_or_zeros(g, x) for g, x in zip(grads, xs, strict=True)])
        _check_repeatable(runs[0], runs[1], nondet_tol)
        _check_weighted(outputs, xs)
        if undefined:
            _check_undefined(outputs, xs)


def gradcheck(
    func: _Function,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Compare gradients with finite differences.

    Args:
        func: takes the inputs, returns a tensor or several.
        inputs: arguments; those that require a gradient, in float64 or complex128, are checked.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: whether a mismatch raises GradcheckError or gives False.
        nondet_tol: by how much two runs of the same backward may differ.
        check_undefined_grad: check that backward copes with absent gradients.
        check_forward_ad: check forward mode.
        check_backward_ad: check reverse mode.
        fast_mode: compare along one random direction only: quicker, and may miss a mistake.
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    indices = _check_inputs(arguments)
    check = _Check(func, arguments, indices, eps, atol, rtol, check_backward_ad, check_forward_ad)
    try:
        check.directions() if fast_mode else check.jacobians()
        check.calls(nondet_tol, check_undefined_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: _Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    gen_non_contig_grad_outputs: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    **options: Any,
) -> bool:
    """Compare second derivatives with finite differences of the gradients.

    Args:
        func: as for gradcheck.
        inputs: as for gradcheck.
        grad_outputs: weights of the outputs; random by default. They are inputs of the check as well.
        gen_non_contig_grad_outputs: make the random weights strided.
        check_fwd_over_rev: check forward mode through the backward pass.
        check_rev_over_rev: check double backward.
        **options: as for gradcheck.
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        outputs, _ = _differentiable_positions(func(*arguments))
        weights = tuple(_random_weight(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        weights = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    return gradcheck(
        _gradients(func, arguments, len(weights)),
        (*arguments, *weights),
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        **options,
    )


def _gradients(func: _Function, arguments: tuple[Any, ...], count: int) -> _Function:
    """Make the function of the arguments and `count` weights that returns the gradients."""

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        pairs = zip(args, arguments, strict=False)
        given = tuple(t.requires_grad_() if _wants_grad(t, a) else t for t, a in pairs)
        with flambeau.enable_grad():
            outputs, _ = _differentiable_positions(func(*given))
        xs = tuple(t for t in given if isinstance(t, Tensor) and t.requires_grad)
        weights = args[len(args) - count :]
        grads = flambeau.autograd.grad(outputs, xs, weights, create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradients


def _wants_grad(given: Any, argument: Any) -> bool:
    """Whether a dual that stands for an argument must require a gradient, as the argument does."""
    return isinstance(given, Tensor) and argument.requires_grad and not given.requires_grad


def _random_weight(output: Tensor, strided: bool) -> Tensor:
    weight = flambeau.randn_like(output.detach())
    if strided and weight.dim() > 0:
        weight = flambeau.stack((weight, weight), -1)[..., 0]
    return weight.detach().requires_grad_()
