"""Distributions of density h(x) e^(<theta, t(x)> - F(theta)): entropies from derivatives of F."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    r"""A distribution of density :math:`h(x) e^{\langle\theta, t(x)\rangle - F(\theta)}`.

    Subclasses give the natural parameters :math:`\theta` as `_natural_params`, the log-normaliser F as
    `_log_normalizer` and :math:`E[\log h(x)]` as `_mean_carrier_measure`. The entropy of families without
    a formula of their own, and divergences of one family, follow from them.

    Source: Nielsen & Garcia 2009, "Statistical exponential families: A digest with flash cards".
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
