"""Optimizers with running first and second moments of the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.optim._arguments import described
from flambeau.optim._lists import Value
from flambeau.optim._rule import (
    Group,
    Initial,
    RuleOptimizer,
    State,
    average_,
    count,
    descend,
    largest_,
    scalar,
    zeros,
)

Betas = tuple[float | Tensor, float | Tensor]


@described
class Adam(RuleOptimizer):
    """Adaptive moments: scales each step by running means of the gradient and of its square.

    Formula:
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        p = p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

    Args:
        {params}
        lr: the step size, 0 or more; a number, or a tensor of one element.
        betas: beta1 and beta2, the weights of the past in the two means, each in [0, 1).
        eps: added to the denominator, 0 or more.
        {weight_decay}
        amsgrad: whether to divide by the largest v so far instead of the present one (Reddi et al. 2018).
        {foreach}
        {maximize}
        {capturable}
        {differentiable}
        {fused}
        decoupled_weight_decay: whether the parameter itself decays, as in `AdamW`, instead of the L2 penalty.
    Raises: ValueError for a hyperparameter out of its range, RuntimeError if `fused` is combined with
        `foreach` or `differentiable`.
    See also: `AdamW`, `NAdam`, `RAdam`
    Source: Kingma & Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.Adam([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9000, -1.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: step, m, v and, with amsgrad, the largest v."""
        largest = {"max_exp_avg_sq": zeros} if group["amsgrad"] else {}
        return {"step": count, "exp_avg": zeros, "exp_avg_sq": zeros, **largest}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Update the moments and step along their ratio."""
        beta1, beta2 = group["betas"]
        s.exp_avg.lerp_(g, 1 - beta1)
        square = average_(s.exp_avg_sq, beta2, g, g)
        if group["amsgrad"]:
            square = largest_(s.max_exp_avg_sq, square)
        denominator = square.sqrt().div((1 - beta2**s.step) ** 0.5).add_(group["eps"])
        descend(p, group["lr"] / (1 - beta1**s.step), s.exp_avg, denominator)

    def fused(
        self,
        tensors: list[Tensor],
        grads: list[Tensor],
        states: list[dict[str, Any]],
        group: Group,
        first: bool,
    ) -> None:
        """Step by one operator."""
        lists = [[s[k] for s in states] for k in ("exp_avg", "exp_avg_sq")]
        lists.append([s["max_exp_avg_sq"] for s in states] if group["amsgrad"] else [])
        steps = [s["step"] for s in states]
        flambeau._foreach_add_(steps, 1)
        operator = flambeau._fused_adamw_ if group["decoupled_weight_decay"] else flambeau._fused_adam_
        options = {k: group[k] for k in ("lr", "weight_decay", "eps", "amsgrad", "maximize")}
        beta1, beta2 = group["betas"]
        operator(tensors, grads, *lists, steps, beta1=beta1, beta2=beta2, **options)


@described
class AdamW(Adam):
    """Adam with decoupled weight decay: multiplies the parameter by ``1 - lr * weight_decay`` before each
    step.

    Args:
        {params}
        lr: the step size, 0 or more; a number, or a tensor of one element.
        betas: beta1 and beta2, the weights of the past in the two means, each in [0, 1).
        eps: added to the denominator, 0 or more.
        weight_decay: the rate at which the parameter itself decays, 0 or more; in `Adam` the default is 0.
        amsgrad: whether to divide by the largest v so far instead of the present one (Reddi et al. 2018).
        {maximize}
        {foreach}
        {capturable}
        {differentiable}
        {fused}
    Raises: ValueError for a hyperparameter out of its range, RuntimeError if `fused` is combined with
        `foreach` or `differentiable`.
    Source: Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.AdamW([w], lr=0.1, weight_decay=0.5)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8500, -1.8000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = {k: v for k, v in locals().items() if k not in ("self", "params", "__class__")}
        super().__init__(params, **options, decoupled_weight_decay=True)


@described
class Adamax(RuleOptimizer):
    """Adam with a decaying maximum of the gradient's magnitude instead of the mean of its square.

    Formula:
        m = beta1 * m + (1 - beta1) * g
        u = max(beta2 * u, |g| + eps)
        p = p - lr / (1 - beta1^t) * m / u

    Args:
        {params}
        lr: the step size, 0 or more; a number, or a tensor of one element.
        betas: beta1 and beta2, the weights of the past in the mean and the maximum, each in [0, 1).
        eps: added to the gradient's magnitude, 0 or more.
        {weight_decay}
        {foreach}
        {maximize}
        {differentiable}
        {capturable}
    Raises: ValueError for a hyperparameter out of its range.
    Source: Kingma & Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 2.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.Adamax([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9000, -1.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: step, m, u."""
        return {"step": count, "exp_avg": zeros, "exp_inf": zeros}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Update m and u and step along their ratio."""
        beta1, beta2 = group["betas"]
        s.exp_avg.lerp_(g, 1 - beta1)
        largest_(s.exp_inf.mul_(beta2), g.abs().add_(group["eps"]))
        descend(p, group["lr"] / (1 - beta1**s.step), s.exp_avg, s.exp_inf)


@described
class NAdam(RuleOptimizer):
    """Adam with Nesterov momentum: steps along the mean that the next step will use, with a momentum that
    grows.

    Formula:
        mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        d = mu_{t+1} * m / (1 - mu_1 ... mu_{t+1}) + (1 - mu_t) * g / (1 - mu_1 ... mu_t)
        p = p - lr * d / (sqrt(v / (1 - beta2^t)) + eps)

    Args:
        {params}
        lr: the step size, 0 or more; a number, or a tensor of one element.
        betas: beta1 and beta2, the weights of the past in the two means, each in [0, 1).
        eps: added to the denominator, 0 or more.
        {weight_decay}
        momentum_decay: the rate at which mu approaches beta1, 0 or more.
        decoupled_weight_decay: whether the parameter itself decays, as in `AdamW`, instead of the L2 penalty.
        {foreach}
        {maximize}
        {capturable}
        {differentiable}
    Raises: ValueError for a hyperparameter out of its range.
    Source: Dozat 2016, "Incorporating Nesterov Momentum into Adam", algorithm 2.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.NAdam([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8944, -1.8944])
    """

    scalars = ("step", "mu_product")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: step, the product of mu, m, v."""
        product = {"mu_product": lambda p, group: scalar(1.0)}
        return {"step": count, **product, "exp_avg": zeros, "exp_avg_sq": zeros}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Update the moments; step along the gradient and the momentum."""
        beta1, beta2 = group["betas"]
        now, then = (beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (s.step, s.step + 1))
        s.mu_product *= now
        s.exp_avg.lerp_(g, 1 - beta1)
        square = average_(s.exp_avg_sq, beta2, g, g)
        denominator = square.div(1 - beta2**s.step).sqrt().add(group["eps"])
        descend(p, group["lr"] * (1 - now) / (1 - s.mu_product), g, denominator)
        descend(p, group["lr"] * then / (1 - s.mu_product * then), s.exp_avg, denominator)


@described
class RAdam(RuleOptimizer):
    """Adam with a rectified scale: does not use v in the first steps, where its variance is too large.

    Formula:
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        limit = 2 / (1 - beta2) - 1
        n = limit - 2 * t * beta2^t / (1 - beta2^t)
        r = sqrt((n - 4) (n - 2) limit / ((limit - 4) (limit - 2) n))
        p = p - lr * r * m / (1 - beta1^t) * sqrt(1 - beta2^t) / (sqrt(v) + eps) where n > 5
        p = p - lr * m / (1 - beta1^t) otherwise

    Args:
        {params}
        lr: the step size, 0 or more; a number, or a tensor of one element.
        betas: beta1 and beta2, the weights of the past in the two means, each in [0, 1).
        eps: added to the denominator, 0 or more.
        {weight_decay}
        decoupled_weight_decay: whether the parameter itself decays, as in `AdamW`, instead of the L2 penalty.
        {foreach}
        {maximize}
        {capturable}
        {differentiable}
    Raises: ValueError for a hyperparameter out of its range.
    Source: Liu et al. 2020, "On the Variance of the Adaptive Learning Rate and Beyond", algorithm 2.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.RAdam([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8000, -1.6000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: step, m, v."""
        return {"step": count, "exp_avg": zeros, "exp_avg_sq": zeros}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Update the moments; step along m, scaled where the variance is finite."""
        beta1, beta2 = group["betas"]
        s.exp_avg.lerp_(g, 1 - beta1)
        average_(s.exp_avg_sq, beta2, g, g)
        correction = 1 - beta2**s.step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * s.step * beta2**s.step / correction
        rate = group["lr"] / (1 - beta1**s.step)
        if length > 5:
            scale = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            denominator = s.exp_avg_sq.sqrt().add(group["eps"])
            descend(p, rate * math.sqrt(scale * correction), s.exp_avg, denominator)
        else:
            descend(p, rate, s.exp_avg)


__getattr__, __dir__ = attributes(__name__)
