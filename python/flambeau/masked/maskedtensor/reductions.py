"""Reductions and normalisations of masked tensors, through the functions of `flambeau.masked`.

A result is masked where all elements that it is made of are masked. Gradients are those of the
function over the data, and have the mask of the input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor
from flambeau.autograd import Function, enable_grad
from flambeau.autograd import grad as gradient
from flambeau.masked import _ops
from flambeau.masked.maskedtensor.pairs import data_of, is_masked, paired

# Those that keep the shape, and so the mask.
_SHAPED = frozenset("softmax log_softmax softmin cumsum cumprod".split())
_CONDITIONS = frozenset(("argmax", "argmin", "all"))


def _all(data: Tensor, dim: Any = None, *, keepdim: bool = False, mask: Tensor) -> Tensor:
    """Whether all unmasked elements are true."""
    held = data.bool() | ~mask
    return held.all() if dim is None else held.all(dim, keepdim)


def _function(name: str) -> Callable[..., Tensor]:
    return _all if name == "all" else getattr(_ops, name)


def _dense(x: Tensor) -> Tensor:
    return x.to_dense() if x.is_sparse else x


def _remaining(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Where a reduction over dimensions has an element that counts."""
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        dim = tuple(range(mask.dim()))
    return mask.any(dim, keepdim) if mask.dim() else mask


def reduced(x: Any, name: str, dim: Any, keepdim: bool, options: dict[str, Any]) -> Any:
    """Return the reduction of a masked tensor along dimensions, without gradients."""
    data, mask = _dense(x._masked_data), _dense(x._masked_mask)
    options = {key: value for key, value in options.items() if value is not None}
    if name in _SHAPED:
        return paired(_function(name)(data, dim, mask=mask, **options), mask)
    if name == "norm":
        result = _ops.norm(data, options.pop("p"), dim, keepdim=keepdim, mask=mask, **options)
    else:
        result = _function(name)(data, dim, keepdim=keepdim, mask=mask, **options)
    return paired(result, _remaining(mask, dim, keepdim))


class _Reduced(Function):
    """A reduction whose derivative is that of the function over the data."""

    @staticmethod
    def forward(ctx: Any, x: Any, name: str, dim: Any, keepdim: bool, options: dict[str, Any]) -> Any:
        ctx.save_for_backward(x)
        ctx.call = name, dim, keepdim, options
        result = reduced(x, name, dim, keepdim, options)
        if name in _CONDITIONS:
            ctx.mark_non_differentiable(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        data, mask = _dense(x._masked_data), _dense(x._masked_mask)
        with enable_grad():
            leaf = data.detach().requires_grad_()
            result = reduced(paired(leaf, mask), *ctx.call)._masked_data
            (found,) = gradient(result, leaf, data_of(grad))
        return paired(found, mask), None, None, None, None


# --- the public functions' arguments --------------------------------------------------------------


def _reduction(name: str) -> Callable[..., Any]:
    def call(
        input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
    ) -> Any:
        _no_out(name, out)
        return _Reduced.apply(input, name, dim, keepdim, {"dtype": dtype})

    return call


def _no_out(name: str, out: Any) -> None:
    if out is not None:
        raise TypeError(f"{name}: expected no argument out= for a masked tensor, got one")


def _spread(name: str) -> Callable[..., Any]:
    """Deviation and variance: ``(dim, unbiased, keepdim)``, ``(unbiased)`` or ``(dim, *, correction)``."""

    def call(
        input: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: Any = None,
        out: Any = None,
    ) -> Any:
        _no_out(name, out)
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None or unbiased else 0
        return _Reduced.apply(input, name, dim, keepdim, {"correction": correction})

    return call


def _normalised(name: str) -> Callable[..., Any]:
    def call(input: Any, dim: Any, _stacklevel: Any = 3, dtype: Any = None, *, out: Any = None) -> Any:
        _no_out(name, out)
        return _Reduced.apply(input, name, dim, False, {"dtype": dtype})

    return call


def _norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None
) -> Any:
    _no_out("norm", out)
    if p not in ("fro", None) and not isinstance(p, int | float):
        raise ValueError(f"norm: expected a number or 'fro' as p of a masked tensor, got {p!r}")
    order = 2.0 if p in ("fro", None) else float(p)
    return _Reduced.apply(input, "norm", dim, keepdim, {"p": order, "dtype": dtype})


REDUCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _reduction(name) for name in "sum mean amax amin argmax argmin prod all logsumexp".split()},
    **{name: _normalised(name) for name in sorted(_SHAPED)},
    "var": _spread("var"),
    "std": _spread("std"),
    "norm": _norm,
}


def overriding(func: Any, input: Any) -> Callable[..., Any] | None:
    """Return the function that takes the place of a public one, for a masked input; None: the usual way."""
    return REDUCTIONS.get(getattr(func, "__name__", "")) if is_masked(input) else None
