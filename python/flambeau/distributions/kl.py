"""The Kullback-Leibler divergence, by pairs of kinds.

Rules for pairs of exponential families follow from their log-normalisers (Nielsen & Nock 2010, "Entropies
and cross-entropies of exponential families"); for other pairs they are E_p[log p] - E_p[log q] written
out. The divergence is infinite if q does not cover the support of p.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Tensor]
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
_KL_MEMOIZE: dict[tuple[type, type], Rule | None] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the rule of `kl_divergence` for two classes.

    The rule also holds for subclasses that have no nearer rule.

    Args:
        type_p: the class of p.
        type_q: the class of q.
    Returns: the decorator of a function ``(p, q)`` that returns the divergence.
    Raises: TypeError if an argument is not a class of distributions.

    Example:
        >>> from flambeau.distributions import Normal, kl_divergence, register_kl
        >>> class Shifted(Normal):
        ...     pass
        >>> @register_kl(Shifted, Shifted)
        ... def _(p, q):
        ...     return flambeau.zeros(())
        >>> kl_divergence(Shifted(0.0, 1.0), Shifted(1.0, 1.0))
        tensor(0.)
    """
    for kind in (type_p, type_q):
        # Not only subclasses of Distribution: Pyro registers rules for classes that only behave like one.
        if not isinstance(kind, type):
            raise TypeError(f"register_kl: expected a class of distributions, got {kind!r}")

    def decorate(rule: Rule) -> Rule:
        _KL_REGISTRY[type_p, type_q] = rule
        _KL_MEMOIZE.clear()
        return rule

    return decorate


def _dispatch_kl(type_p: type, type_q: type) -> Rule | None:
    """The rule of the closest pair of base classes; warn where p's and q's closest ones differ."""
    pairs = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not pairs:
        return None
    mro_p, mro_q = type_p.__mro__.index, type_q.__mro__.index
    left = min(pairs, key=lambda pair: (mro_p(pair[0]), mro_q(pair[1])))
    right = min(pairs, key=lambda pair: (mro_q(pair[1]), mro_p(pair[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl"
            f"({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Compute the Kullback-Leibler divergence of two distributions.

    Formula:
        KL(p || q) = E_p[log p(x) - log q(x)]

    Args:
        p: the distribution of the expectation.
        q: the distribution that p is compared with.
    Returns: the divergence in nats, of the broadcast batch shape of both.
    Raises: NotImplementedError for a pair of classes without a rule; `register_kl` adds one.

    Example:
        >>> from flambeau.distributions import Normal, kl_divergence
        >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
        tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    rule = _KL_MEMOIZE[pair]
    if rule is None:
        raise NotImplementedError(
            f"kl_divergence: no KL rule for {pair[0].__name__} and {pair[1].__name__}; register_kl adds one"
        )
    return rule(p, q)
