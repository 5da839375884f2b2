"""Gradients limited in norm or value, and parameters as one vector."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import flambeau
from flambeau import Tensor


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all tensors' elements taken together.

    Args:
        tensors: one or several.
        norm_type: order of the norm, inf for the largest magnitude.
        error_if_nonfinite: raise RuntimeError for a norm that is inf or NaN.
        foreach: has no effect.
    """
    norms = [t.norm(norm_type) for t in _listed(tensors)]
    if not norms:
        return flambeau.tensor(0.0)
    total = flambeau.stack(norms).norm(norm_type)
    if error_if_nonfinite and not bool(flambeau.isfinite(total)):
        raise RuntimeError(
            f"get_total_norm: the norm of order {norm_type} is non-finite, {total.item()}, so that gradients "
            "cannot be limited by it"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale gradients by max_norm / total_norm where that is less than 1."""
    scale = flambeau.clamp(max_norm / (total_norm + 1e-6), max=1.0)
    with flambeau.no_grad():
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad.mul_(scale)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients so that their common norm is at most `max_norm`; return the norm before."""
    given = _listed(parameters)
    if not given and iter(parameters) is parameters:
        warnings.warn(
            "clip_grad_norm_: the generator of parameters is empty, perhaps used up",
            UserWarning,
            stacklevel=2,
        )
    with flambeau.no_grad():
        grads = [p.grad for p in given if p.grad is not None]
        total = get_total_norm(grads, float(norm_type), error_if_nonfinite)
    clip_grads_with_norm_(given, float(max_norm), total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Call `clip_grad_norm_` by its former name."""
    warnings.warn("nn.utils.clip_grad_norm is deprecated; call clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limit each element of the gradients to [-clip_value, clip_value]."""
    limit = float(clip_value)
    with flambeau.no_grad():
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad.clamp_(min=-limit, max=limit)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements in one vector."""
    return flambeau.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set parameters to stretches of a vector."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected flambeau.Tensor, but got: {type(vec)}")
    at = 0
    for p in parameters:
        count = p.numel()
        p.data = vec[at : at + count].view_as(p).data
        at += count
