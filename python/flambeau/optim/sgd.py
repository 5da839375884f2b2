"""Gradient descent: plain, with momentum, averaged, and by the sign of the gradient alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.optim._arguments import described
from flambeau.optim._lists import Value, each
from flambeau.optim._rule import Group, Initial, RuleOptimizer, State, count, descend, scalar, zeros


@described
class SGD(RuleOptimizer):
    """Gradient descent, optionally with momentum.

    Formula:
        b = momentum * b + (1 - dampening) * (g + weight_decay * p), and b = g + weight_decay * p at the first
            step
        p = p - lr * b

    Args:
        {params}
        lr: the step size, 0 or more; a number, or a tensor of one element.
        momentum: the weight of the past in b, 0 or more. 0 keeps no state.
        dampening: the share of the gradient that does not enter b.
        {weight_decay}
        nesterov: whether to step along ``g + momentum * b`` (Sutskever et al. 2013).
        {maximize}
        {foreach}
        {differentiable}
        {fused}
    Sparse gradients are accepted.

    Raises: ValueError for a hyperparameter out of its range, or `nesterov` without momentum or with
        dampening.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.SGD([w], lr=0.1, momentum=0.9)
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     w.square().sum().backward()
        ...     optimizer.step()
        >>> w.detach()
        tensor([ 0.4600, -0.9200])
    """

    scalars = ()
    takes_sparse = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"SGD: expected momentum > 0 and dampening=0 for nesterov=True, got momentum={momentum}, "
                f"dampening={dampening}"
            )
        super().__init__(params, locals())

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: b, with momentum only."""
        return {"momentum_buffer": zeros} if group["momentum"] != 0 else {}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Step along the momentum, or the gradient."""
        momentum = group["momentum"]
        if momentum != 0:
            b = s.momentum_buffer
            if s.first and getattr(g, "is_sparse", False):
                b.zero_().add_(g)
            elif s.first:
                b.copy_(g)
            else:
                b.mul_(momentum).add_(g, alpha=1 - group["dampening"])
            g = g.add(b, alpha=momentum) if group["nesterov"] else b
        descend(p, group["lr"], g)

    def fused(
        self,
        tensors: list[Tensor],
        grads: list[Tensor],
        states: list[dict[str, Any]],
        group: Group,
        first: bool,
    ) -> None:
        """Step by one operator."""
        buffers = [state["momentum_buffer"] for state in states] if group["momentum"] != 0 else []
        options = {
            k: group[k] for k in ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize")
        }
        flambeau._fused_sgd_(tensors, grads, buffers, **options, is_first_step=first)


@described
class ASGD(RuleOptimizer):
    """Averaged gradient descent: takes steps that shrink, and keeps the mean of the parameters in the state
    ``ax``.

    Formula:
        p = (1 - lambd * eta) * p - eta * g
        ax = ax + (p - ax) / max(1, t - t0)
        eta = lr / (1 + lambd * lr * t)^alpha

    Args:
        {params}
        lr: the first step size eta, 0 or more; a number, or a tensor of one element.
        lambd: the rate at which steps and parameters shrink.
        alpha: the power of the shrinkage.
        t0: the step at which averaging begins.
        {weight_decay}
        {foreach}
        {maximize}
        {differentiable}
        {capturable}
    Raises: ValueError for a hyperparameter out of its range.
    Source: Polyak & Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging".

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.ASGD([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8000, -1.6000])
    """

    scalars = ("step", "eta", "mu")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: step, eta_t, the weight mu of the newest iterate, and the average ax."""
        return {
            "step": count,
            "eta": lambda p, group: scalar(float(group["lr"])),
            "mu": lambda p, group: scalar(1.0),
            "ax": zeros,
        }

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Step, average, shrink."""
        p.mul_(1 - group["lambd"] * s.eta)
        descend(p, s.eta, g)
        if s.mu == 1:
            s.ax.copy_(p)
        else:
            s.ax.add_(p.sub(s.ax), alpha=s.mu)
        s.eta = group["lr"] / (1 + group["lambd"] * group["lr"] * s.step) ** group["alpha"]
        s.mu = 1 / max(1.0, s.step - group["t0"])


@described
class Rprop(RuleOptimizer):
    """Resilient propagation: steps by the sign of the gradient, with a step size per element.

    The step size grows while an element's gradient keeps its sign and shrinks when the sign changes; an
    element whose sign changed is not moved in that step.

    Args:
        {params}
        lr: the first step size, 0 or more; a number, or a tensor of one element.
        etas: the factors of the step size after a change of sign, in (0, 1), and otherwise, above 1.
        step_sizes: the smallest and the largest step size.
        {capturable}
        {foreach}
        {maximize}
        {differentiable}
    Raises: ValueError for a hyperparameter out of its range.
    Source: Riedmiller & Braun 1993, "A Direct Adaptive Method for Faster Backpropagation Learning".

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.Rprop([w], lr=0.1)
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     w.square().sum().backward()
        ...     optimizer.step()
        >>> w.detach()
        tensor([ 0.7800, -1.7800])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(
                f"Rprop: expected etas with 0 < etas[0] < 1 < etas[1], got {etas} (Invalid eta values: "
                f"{etas[0]}, {etas[1]})"
            )
        super().__init__(params, locals())

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: step, the gradient before and the step size, per element."""
        return {"step": count, "prev": zeros, "step_size": _first_step_size}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Change the step size by the turn of the gradient, and step."""
        shrink, grow = group["etas"]
        turn = g.mul(s.prev).sign()
        factor = each(_choose, turn, grow, shrink, 1.0)
        s.step_size.mul_(factor).clamp_min_(group["step_sizes"][0]).clamp_max_(group["step_sizes"][1])
        g = each(lambda turn, g: flambeau.where(turn < 0, 0.0, g), turn, g)
        p.addcmul_(g.sign(), s.step_size, value=-1)
        s.prev.copy_(g)


def _choose(sign: Tensor, positive: float, negative: float, zero: float) -> Tensor:
    """One of three numbers, by sign; NaN counts as 0."""
    out = flambeau.full_like(sign, zero)
    return out.masked_fill_(sign > 0, positive).masked_fill_(sign < 0, negative)


def _first_step_size(p: Tensor, group: Group) -> Tensor:
    lr = float(group["lr"])
    return flambeau.full_like(p, complex(lr, lr) if p.is_complex() else lr)


__getattr__, __dir__ = attributes(__name__)
