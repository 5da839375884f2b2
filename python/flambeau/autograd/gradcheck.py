"""Derivatives against finite differences."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.autograd._real_jacobians import (
    backward_rows,
    differentiable_positions,
    evaluate,
    floating,
    forward_columns,
    gradient_or_zeros,
    numerical,
    real,
)
from flambeau.autograd.forward_ad import dual_level, make_dual, unpack_dual
from flambeau.autograd.function import Function

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """Exception of `gradcheck` and `gradgradcheck`: a derivative differs from finite differences.

    Example:
        >>> from flambeau.autograd.gradcheck import GradcheckError
        >>> issubclass(GradcheckError, RuntimeError)
        True
    """


class _NoGradient(Function):
    """Passes values on and lets no gradient back."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        return tuple(t.clone() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None,) * len(grads)


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
        f"gradcheck: Jacobian mismatch{mode} in output {place[0]} by input {place[1]}\nfrom "
        f"differences:{numerical}\nfrom gradients:{analytical}\nlargest difference: {worst}"
    )


def _check_inputs(inputs: Sequence[Any]) -> list[int]:
    indices = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not indices:
        raise ValueError("gradcheck: expected an input with requires_grad=True, got none")
    for i in indices:
        x = inputs[i]
        if x.dtype not in (flambeau.float64, flambeau.complex128):
            warnings.warn(
                f"gradcheck: input {i} is not a double precision tensor, so that differences of it "
                "are coarse. ",
                stacklevel=4,
            )
        if any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride(), strict=True)):
            raise RuntimeError(
                f"gradcheck: argument {i} has a dimension with stride 0, whose elements cannot change "
                "one by one; pass its contiguous()"
            )
    return indices


def _check_undefined(outputs: Sequence[Tensor], xs: Sequence[Tensor]) -> None:
    cut = _NoGradient.apply(*outputs)
    weights = [flambeau.zeros_like(t) for t in cut]
    grads = flambeau.autograd.grad(cut, xs, weights, retain_graph=True, allow_unused=True)
    if any(g is not None and bool((g != 0).any().item()) for g in grads):
        raise GradcheckError(
            "gradcheck: undefined gradients of all outputs gave an input gradient that is not "
            "undefined or zero; return None or zeros from backward for them"
        )


def _check_weighted(outputs: Sequence[Tensor], xs: Sequence[Tensor]) -> None:
    weights = [flambeau.zeros_like(o.detach()) for o in outputs]
    grads = flambeau.autograd.grad(outputs, xs, weights, retain_graph=True, allow_unused=True)
    if any(g is not None and bool((g != 0).any().item()) for g in grads):
        raise GradcheckError("gradcheck: backward not multiplied by grad_output; multiply its result")


def _check_repeatable(first: Sequence[Tensor], second: Sequence[Tensor], tolerance: float) -> None:
    for a, b in zip(first, second, strict=True):
        if a.numel() and bool(((a - b).abs().max() > tolerance).item()):
            raise GradcheckError(
                "gradcheck: Backward is not reentrant, since two runs with the same gradients differ by "
                f"more than {tolerance}; make it deterministic or raise nondet_tol"
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
    dtypes: bool = False  # whether gradients must have the dtype of what they belong to

    def compare(self, analytical: Tensor, numerical: Tensor, place: tuple[int, int], mode: str = "") -> None:
        _compare(analytical, numerical, place, self.atol, self.rtol, mode)

    def jacobians(self) -> None:
        """Compare all columns and rows."""
        outputs, which = self.outputs()
        xs = [self.arguments[i] for i in self.indices]
        rows = [backward_rows(o, xs) for o in outputs] if self.backward else []
        for k, index in enumerate(self.indices):
            slopes = numerical(self.func, self.arguments, xs[k], which, self.eps)
            for j, row in enumerate(rows):
                self.compare(row[k], slopes[j], (j, index))
            if self.forward:
                for j, columns in enumerate(forward_columns(self.func, self.arguments, index, which)):
                    self.compare(columns, slopes[j], (j, index), " of forward mode")

    def outputs(self) -> tuple[list[Tensor], list[int]]:
        """The outputs that are checked, and their places; if there are none, all must be constant."""
        result = self.func(*self.arguments)
        outputs, which = differentiable_positions(result)
        if not outputs and self.backward:
            every = list(range(len(floating(result))))
            for index in self.indices:
                x = self.arguments[index]
                for slope in numerical(self.func, self.arguments, x, every, self.eps):
                    if not flambeau.allclose(slope, flambeau.zeros_like(slope), self.rtol, self.atol):
                        raise GradcheckError(
                            "gradcheck: expected differences of zero, since no output requires "
                            f"gradients, got {slope.abs().max().item():g}"
                        )
        return outputs, which

    def directions(self) -> None:
        """Compare u.J.v for random u and v, one input at a time."""
        outputs, which = self.outputs()
        for index in self.indices:
            x = self.arguments[index]
            v = flambeau.randn_like(x.detach())
            slopes = self._slopes(x, v, which)
            for j, output in enumerate(outputs):
                u = flambeau.randn_like(output.detach())
                expected = (slopes[j] * real(u)).sum()
                if self.backward:
                    (g,) = flambeau.autograd.grad(output, (x,), u, retain_graph=True, allow_unused=True)
                    self.compare((gradient_or_zeros(g, x) * real(v)).sum(), expected, (j, index))
                if self.forward:
                    tangent = self._tangent(index, v, which[j])
                    self.compare((tangent * real(u)).sum(), expected, (j, index), " of forward mode")

    def _slopes(self, x: Tensor, v: Tensor, which: list[int]) -> list[Tensor]:
        original = x.detach().clone()
        x.data.copy_(original + self.eps * v)
        above = evaluate(self.func, self.arguments, which)
        x.data.copy_(original - self.eps * v)
        below = evaluate(self.func, self.arguments, which)
        x.data.copy_(original)
        return [(a - b) / (2 * self.eps) for a, b in zip(above, below, strict=True)]

    def _tangent(self, index: int, v: Tensor, output: int) -> Tensor:
        with dual_level():
            duals = list(self.arguments)
            duals[index] = make_dual(duals[index].detach(), v)
            primal, tangent = unpack_dual(floating(self.func(*duals))[output])
            return gradient_or_zeros(tangent, primal).clone()

    def calls(self, nondet_tol: float, undefined: bool) -> None:
        """Check that backward repeats itself and copes with absent gradients."""
        outputs, _ = differentiable_positions(self.func(*self.arguments))
        if not outputs or not self.backward:
            return
        xs = [self.arguments[i] for i in self.indices]
        weights = [flambeau.ones_like(o.detach()) for o in outputs]
        runs = []
        for _ in range(2):
            grads = flambeau.autograd.grad(outputs, xs, weights, retain_graph=True, allow_unused=True)
            runs.append([gradient_or_zeros(g, x) for g, x in zip(grads, xs, strict=True)])
            if self.dtypes and any(
                g is not None and g.dtype != x.dtype for g, x in zip(grads, xs, strict=True)
            ):
                wanted, found = ([str(t.dtype) for t in ts if t is not None] for ts in (xs, grads))
                raise GradcheckError(
                    f"gradcheck: Gradient has dtype mismatch: expected {wanted}, got {found}"
                )
        _check_repeatable(runs[0], runs[1], nondet_tol)
        _check_weighted(outputs, xs)
        if undefined:
            _check_undefined(outputs, xs)

    def batched_backward(self) -> None:
        """Check that gradients of a batch of weights, under vmap, are those of each."""
        outputs, _ = differentiable_positions(self.func(*self.arguments))
        xs = [self.arguments[i] for i in self.indices]
        for j, output in enumerate(outputs):

            def gradients(weight: Tensor, batched: bool, output: Tensor = output) -> list[Tensor]:
                grads = flambeau.autograd.grad(
                    output, xs, weight, retain_graph=True, allow_unused=True, is_grads_batched=batched
                )
                return [flambeau.zeros(0) if g is None else g for g in grads]

            weights = [flambeau.randn_like(output.detach()) for _ in range(2)]
            rows = [gradients(weight, False) for weight in weights]
            with _batched_failure():
                found = gradients(flambeau.stack(weights), True)
            for k, (entries, batch) in enumerate(zip(zip(*rows, strict=True), found, strict=True)):
                self._compare_batch(batch, entries, (j, self.indices[k]))

    def batched_forward(self) -> None:
        """Check that tangents of a batch of directions, under vmap, are those of each."""
        for index in self.indices:
            x = self.arguments[index].detach()

            def tangents(v: Tensor, index: int = index, x: Tensor = x) -> Any:
                def partial(value: Tensor) -> tuple[Tensor, ...]:
                    arguments = list(self.arguments)
                    arguments[index] = value
                    return tuple(floating(self.func(*arguments)))

                return flambeau.func.jvp(partial, (x,), (v,))[1]

            directions = [flambeau.randn_like(x) for _ in range(2)]
            rows = [tangents(v) for v in directions]
            with _batched_failure():
                found = flambeau.func.vmap(tangents)(flambeau.stack(directions))
            for j, (entries, batch) in enumerate(zip(zip(*rows, strict=True), found, strict=True)):
                self._compare_batch(batch, entries, (j, index))

    def _compare_batch(self, batch: Tensor, entries: Sequence[Tensor], place: tuple[int, int]) -> None:
        expected = flambeau.stack(list(entries)) if entries[0].numel() else batch
        if not flambeau.allclose(batch, expected, self.rtol, self.atol):
            raise GradcheckError(
                f"gradcheck: {_BATCHED} in output {place[0]} by input {place[1]}: expected {expected}, "
                f"got {batch}"
            )


_BATCHED = "batched gradient computation differs from one by one"


@contextlib.contextmanager
def _batched_failure() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise GradcheckError(
            f"gradcheck: While computing batched gradients, got: {error}\n\n{_BATCHED}."
        ) from error


def _check_options(backward: bool, forward: bool, batched: bool, batched_forward: bool) -> None:
    if not (backward or forward):
        raise AssertionError("gradcheck: expected check_forward_ad or check_backward_ad, got neither")
    if batched and not backward:
        raise AssertionError("gradcheck: expected check_backward_ad=True with check_batched_grad, got False")
    if batched_forward and not forward:
        raise AssertionError(
            "gradcheck: expected check_forward_ad=True with check_batched_forward_grad, got False"
        )


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
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of a function with finite differences.

    Formula:
        |analytical - numerical| <= atol + rtol |numerical|, numerical = (f(x + eps) - f(x - eps)) / (2 eps)

    Args:
        func: the function from the inputs to a tensor or a tuple of tensors.
        inputs: the arguments. Those that require a gradient are checked; they should be float64 or
            complex128.
        eps: the step of the differences.
        atol: the absolute tolerance.
        rtol: the relative tolerance.
        raise_exception: whether a mismatch raises GradcheckError instead of giving False.
        nondet_tol: the largest difference between two runs of the same backward.
        check_undefined_grad: whether to check that backward accepts absent gradients.
        check_grad_dtypes: whether to check that gradients have the dtype of their inputs.
        check_batched_grad: whether to compare batched gradients, under `vmap`, with those of each entry.
        check_batched_forward_grad: whether to do the same for forward mode.
        check_forward_ad: whether to check forward mode.
        check_backward_ad: whether to check reverse mode.
        fast_mode: whether to compare along one random direction only, which is faster and may miss a
            mismatch.
        masked: whether to check only the elements of sparse inputs that have entries. None means False.
    Returns: whether all derivatives agree.
    Raises: GradcheckError for a mismatch, AssertionError for options that exclude each other, ValueError if
        no input requires a gradient.

    Example:
        >>> x = flambeau.tensor([0.5, 2.0], dtype=flambeau.float64, requires_grad=True)
        >>> flambeau.autograd.gradcheck(flambeau.sin, (x,))
        True
    """
    _check_options(check_backward_ad, check_forward_ad, check_batched_grad, check_batched_forward_grad)
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if any(isinstance(x, Tensor) and x.is_sparse for x in arguments):
        from flambeau.sparse._gradcheck import strided_inputs

        func, arguments = strided_inputs(func, arguments, bool(masked))
    indices = _check_inputs(arguments)
    check = _Check(
        func, arguments, indices, eps, atol, rtol, check_backward_ad, check_forward_ad, check_grad_dtypes
    )
    try:
        check.directions() if fast_mode else check.jacobians()
        if check_batched_grad:
            check.batched_backward()
        if check_batched_forward_grad:
            check.batched_forward()
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
    check_undefined_grad: bool = True,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    **options: Any,
) -> bool:
    """Compare the second derivatives of a function with finite differences of its gradients.

    Args:
        func: the function from the inputs to a tensor or a tuple of tensors.
        inputs: the arguments. Those that require a gradient are checked; they should be float64 or
            complex128.
        grad_outputs: the weights of the outputs, which are checked as inputs too. None means random ones.
        gen_non_contig_grad_outputs: whether the random weights are non-contiguous.
        check_undefined_grad: whether to check that double backward accepts absent gradients.
        check_fwd_over_rev: whether to check forward mode of the backward pass.
        check_rev_over_rev: whether to check double backward.
        **options: further options of `gradcheck`, such as `eps`, `atol` and `rtol`.
    Returns: whether all derivatives agree.
    Raises: GradcheckError for a mismatch, AssertionError for options that exclude each other, ValueError if
        no input requires a gradient.

    Example:
        >>> x = flambeau.tensor([0.5, 2.0], dtype=flambeau.float64, requires_grad=True)
        >>> flambeau.autograd.gradgradcheck(flambeau.sin, (x,))
        True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("gradgradcheck: expected check_fwd_over_rev or check_rev_over_rev, got neither")
    for name, wanted in {"check_undefined_grad": check_undefined_grad, **options}.items():
        if wanted and not check_rev_over_rev and name in ("check_undefined_grad", "check_batched_grad"):
            raise AssertionError(f"gradgradcheck: expected check_rev_over_rev=True with {name}, got False")
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        outputs, _ = differentiable_positions(func(*arguments))
        weights = tuple(_random_weight(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        weights = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    return gradcheck(
        _gradients(func, arguments, len(weights)),
        (*arguments, *weights),
        check_undefined_grad=check_undefined_grad,
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
            outputs, _ = differentiable_positions(func(*given))
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
