"""Optimizers with running first and second moments of the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
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


class Adam(RuleOptimizer):
    r"""Steps scaled by running moments of the gradient.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        p \leftarrow p - \gamma \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    Args:
        params: parameters or groups.
        lr: step size gamma.
        betas: beta_1 and beta_2, in [0, 1).
        eps: added to the denominator.
        weight_decay: L2 penalty added to the gradient (`AdamW`: decays the parameter itself).
        amsgrad: divide by the largest v so far (Reddi et al. 2018).
        foreach, maximize, differentiable, fused: as for `SGD`.
        capturable: for parameters on CUDA devices only.
        decoupled_weight_decay: decay as `AdamW` does.
    Source: Kingma and Ba 2015, "Adam", algorithm 1.
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


class AdamW(Adam):
    """Adam with decoupled weight decay: the parameter shrinks by ``lr * weight_decay`` before each step.

    Arguments as for `Adam`; ``weight_decay`` is 0.01 by default.
    Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2.
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


class Adamax(RuleOptimizer):
    r"""Adam with a decaying maximum of the gradient instead of its second moment.

    .. math:: u \leftarrow \max(\beta_2 u, |g| + \epsilon), \quad
        p \leftarrow p - \frac{\gamma}{1 - \beta_1^t} \frac{m}{u}

    Args: as for `Adam`.
    Source: Kingma and Ba 2015, "Adam", algorithm 2.
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


class NAdam(RuleOptimizer):
    r"""Adam with Nesterov momentum, whose weight grows with time.

    .. math::
        \mu_t = \beta_1 (1 - 0.96^{t \psi} / 2), \quad
        \hat m = \frac{\mu_{t+1} m}{1 - \prod_{i \le t+1} \mu_i}
        + \frac{(1 - \mu_t) g}{1 - \prod_{i \le t} \mu_i}

    Args: as for `Adam`, and
        momentum_decay: psi.
    Source: Dozat 2016, "Incorporating Nesterov Momentum into Adam".
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


class RAdam(RuleOptimizer):
    r"""Adam whose scaling is rectified for its variance, and left out while that is infinite.

    .. math::
        \rho_t = \rho_\infty - \frac{2 t \beta_2^t}{1 - \beta_2^t}, \quad
        \rho_\infty = \frac{2}{1 - \beta_2} - 1, \quad
        r_t = \sqrt{\frac{(\rho_t - 4)(\rho_t - 2) \rho_\infty}{(\rho_\infty - 4)(\rho_\infty - 2) \rho_t}}

    Args: as for `Adam`.
    Source: Liu et al. 2020, "On the variance of the adaptive learning rate and beyond", algorithm 2.
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
