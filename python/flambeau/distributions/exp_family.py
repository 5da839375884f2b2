"""Distributions of density h(x) e^(<theta, t(x)> - F(theta)): entropies from derivatives of F."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions._arguments import described
from flambeau.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


@described
class ExponentialFamily(Distribution):
    """Base class of distributions of an exponential family.

    A subclass gives the natural parameters t as ``_natural_params``, the log normalizer F as
    ``_log_normalizer`` and E[log h(x)] as ``_mean_carrier_measure``. The default entropy and Kullback-Leibler
    divergence follow from them.

    Formula:
        p(x) = h(x) e^(<t, s(x)> - F(t))

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one event.
        {validate_args}
    Raises: ValueError for parameters that do not satisfy their constraints.
    Source: Nielsen & Garcia 2009, "Statistical Exponential Families: A Digest with Flash Cards".

    Example:
        >>> isinstance(flambeau.distributions.Gamma(1.0, 1.0), flambeau.distributions.ExponentialFamily)
        True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise self._lacks("_natural_params")

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise self._lacks("_log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise self._lacks("_mean_carrier_measure")

    def _normalizer_gradients(self) -> tuple[list[Tensor], Tensor, tuple[Tensor, ...]]:
        """Natural parameters, F and its gradients, which can be differentiated themselves."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        with flambeau.enable_grad():
            normalizer = self._log_normalizer(*params)
            gradients = flambeau.autograd.grad(normalizer.sum(), params, create_graph=True)
        return params, normalizer, tuple(g for g in gradients if g is not None)

    def entropy(self) -> Tensor:
        """Return F - <theta, grad F> - E[log h(x)]."""
        params, normalizer, gradients = self._normalizer_gradients()
        result = -self._mean_carrier_measure + normalizer
        for param, gradient in zip(params, gradients, strict=True):
            summed = (param * gradient).reshape((*self._batch_shape, -1)).sum(-1)
            result = result - summed
        return result
