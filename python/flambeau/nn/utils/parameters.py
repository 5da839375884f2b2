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
    """Compute the norm of all elements of several tensors taken together.

    Args:
        tensors: one tensor or several.
        norm_type: the order of the norm; inf for the largest magnitude.
        error_if_nonfinite: whether a norm that is inf or NaN raises.
        foreach: accepted for compatibility; has no effect.
    Returns: the norm, of shape (); 0 without tensors.
    Raises: RuntimeError for a norm that is not finite, with `error_if_nonfinite`.

    Example:
        >>> flambeau.nn.utils.get_total_norm([flambeau.tensor([3.0]), flambeau.tensor([4.0])])
        tensor(5.)
    """
    given = _listed(tensors)
    if not given:
        return flambeau.tensor(0.0)
    if norm_type > 0 and any(hasattr(tensor, "device_mesh") for tensor in given):
        from flambeau.distributed.tensor._norms import total_norm

        total = total_norm(given, norm_type)
    else:
        total = flambeau.stack([tensor.norm(norm_type) for tensor in given]).norm(norm_type)
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
    """Scale gradients, in place, by `max_norm` / `total_norm` where that is less than 1.

    Args:
        parameters: one tensor or several; those without a gradient are passed over.
        max_norm: the wanted limit of the norm.
        total_norm: the norm of the gradients, from `get_total_norm`; 1e-6 is added to it.
        foreach: accepted for compatibility; has no effect.
    Returns: None.

    Example:
        >>> p = flambeau.nn.Parameter(flambeau.zeros(1))
        >>> p.grad = flambeau.tensor([4.0])
        >>> flambeau.nn.utils.clip_grads_with_norm_(p, 1.0, flambeau.tensor(4.0))
        >>> p.grad
        tensor([1.0000])
    """
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
    """Scale gradients, in place, so that their common norm is at most a limit.

    Args:
        parameters: one tensor or several; those without a gradient are passed over.
        max_norm: the limit of the norm.
        norm_type: the order of the norm; inf for the largest magnitude.
        error_if_nonfinite: whether a norm that is inf or NaN raises; otherwise it makes gradients 0 or NaN.
        foreach: accepted for compatibility; has no effect.
    Returns: the norm before, of shape ().
    Source: Pascanu, Mikolov & Bengio 2013, "On the difficulty of training Recurrent Neural Networks", section
        3.2.

    Example:
        >>> p = flambeau.nn.Parameter(flambeau.zeros(2))
        >>> p.grad = flambeau.tensor([3.0, 4.0])
        >>> flambeau.nn.utils.clip_grad_norm_(p, 1.0)
        tensor(5.)
        >>> p.grad
        tensor([0.6000, 0.8000])
    """
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
    """Deprecated alias of `nn.utils.clip_grad_norm_`."""
    warnings.warn("nn.utils.clip_grad_norm is deprecated; call clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limit each element of gradients, in place, to [-clip_value, clip_value].

    Args:
        parameters: one tensor or several; those without a gradient are passed over.
        clip_value: the limit of magnitudes.
        foreach: accepted for compatibility; has no effect.
    Returns: None.

    Example:
        >>> p = flambeau.nn.Parameter(flambeau.zeros(2))
        >>> p.grad = flambeau.tensor([3.0, -0.5])
        >>> flambeau.nn.utils.clip_grad_value_(p, 1.0)
        >>> p.grad
        tensor([ 1.0000, -0.5000])
    """
    limit = float(clip_value)
    with flambeau.no_grad():
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad.clamp_(min=-limit, max=limit)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Join the elements of several tensors in one vector.

    Args:
        parameters: the tensors, in order.
    Returns: a vector that is a copy, connected to the tensors in the graph.

    Example:
        >>> flambeau.nn.utils.parameters_to_vector([flambeau.ones(2), flambeau.zeros(1, 2)])
        tensor([1., 1., 0., 0.])
    """
    return flambeau.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set tensors to the stretches of a vector, in order.

    Args:
        vec: the vector, with as many elements as the tensors together.
        parameters: the tensors to set; afterwards they share the memory of `vec`.
    Returns: None.
    Raises: TypeError if `vec` is not a tensor.

    Example:
        >>> layer = flambeau.nn.Linear(2, 1)
        >>> flambeau.nn.utils.vector_to_parameters(flambeau.tensor([1.0, 2.0, 3.0]), layer.parameters())
        >>> layer.bias.detach()
        tensor([3.])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected flambeau.Tensor, but got: {type(vec)}")
    at = 0
    for p in parameters:
        count = p.numel()
        p.data = vec[at : at + count].view_as(p).data
        at += count
