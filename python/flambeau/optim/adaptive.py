"""Optimizers that scale each element's step by the size of its gradients so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.optim._lists import Value
from flambeau.optim._rule import (
    Group,
    Initial,
    RuleOptimizer,
    State,
    average_,
    count,
    descend,
    with_values,
    zeros,
)


class Adagrad(RuleOptimizer):
    r"""Steps divided by the root of the sum of all squared gradients.

    .. math:: v \leftarrow v + g^2, \quad
        p \leftarrow p - \frac{\gamma}{1 + (t - 1) \eta} \frac{g}{\sqrt v + \epsilon}

    Args:
        params: parameters or groups.
        lr: gamma.
        lr_decay: eta.
        weight_decay: L2 penalty added to the gradient.
        initial_accumulator_value: first value of v.
        eps: added to the denominator.
        foreach, maximize, differentiable, fused: as for `SGD`.
    Sparse gradients move the rows that they have entries for.

    Source: Duchi et al. 2011, "Adaptive subgradient methods".
    """

    takes_sparse = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, locals())
        for group in self.param_groups:
            self._first_steps(group["params"], self.slots(group), group)

    def share_memory(self) -> None:
        """Move the sums of squares to memory that processes share; see `Tensor.share_memory_`."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: step and v."""
        return {"step": count, "sum": _first_sum}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Add the squared gradient and step."""
        rate = group["lr"] / (1 + (s.step - 1) * group["lr_decay"])
        if getattr(g, "is_sparse", False):
            entries = g.coalesce()
            s.sum.add_(with_values(entries, entries._values().square()))
            over = s.sum.sparse_mask(entries)._values().sqrt().add_(group["eps"])
            p.add_(with_values(entries, entries._values() / over), alpha=-rate)
            return
        s.sum.addcmul_(g, g, value=1)
        descend(p, rate, g, s.sum.sqrt().add(group["eps"]))

    def fused(
        self,
        tensors: list[Tensor],
        grads: list[Tensor],
        states: list[dict[str, Any]],
        group: Group,
        first: bool,
    ) -> None:
        """Step by one operator."""
        steps = [s["step"] for s in states]
        flambeau._foreach_add_(steps, 1)
        options = {k: group[k] for k in ("lr", "lr_decay", "weight_decay", "eps", "maximize")}
        flambeau._fused_adagrad_(tensors, grads, [s["sum"] for s in states], steps, **options)


def _first_sum(p: Tensor, group: Group) -> Tensor:
    value = group["initial_accumulator_value"]
    return flambeau.full_like(p, complex(value, value) if p.is_complex() else value)


class Adadelta(RuleOptimizer):
    r"""Steps scaled by the ratio of running means of squared steps and squared gradients.

    .. math:: v \leftarrow \rho v + (1 - \rho) g^2, \quad
        \Delta = \frac{\sqrt{u + \epsilon}}{\sqrt{v + \epsilon}} g, \quad
        u \leftarrow \rho u + (1 - \rho) \Delta^2, \quad p \leftarrow p - \gamma \Delta

    Args:
        params: parameters or groups.
        lr: gamma.
        rho: weight of the past, in [0, 1].
        eps: added under both roots.
        weight_decay: L2 penalty added to the gradient.
        foreach, maximize, differentiable: as for `SGD`.
        capturable: for parameters on CUDA devices only.
    Source: Zeiler 2012, "ADADELTA: an adaptive learning rate method".
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, locals())

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: step, v, u."""
        return {"step": count, "square_avg": zeros, "acc_delta": zeros}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Scale the gradient, remember the step's size, and step."""
        rho, eps = group["rho"], group["eps"]
        average_(s.square_avg, rho, g, g)
        delta = s.acc_delta.add(eps).sqrt().div(s.square_avg.add(eps).sqrt()).mul(g)
        average_(s.acc_delta, rho, delta, delta)
        descend(p, group["lr"], delta)


class RMSprop(RuleOptimizer):
    r"""Steps divided by the root of a running mean of squared gradients.

    .. math:: v \leftarrow \alpha v + (1 - \alpha) g^2, \quad
        b \leftarrow \mu b + \frac{g}{\sqrt v + \epsilon}, \quad p \leftarrow p - \gamma b

    Args:
        params: parameters or groups.
        lr: gamma.
        alpha: weight of the past.
        eps: added to the denominator.
        weight_decay: L2 penalty added to the gradient.
        momentum: mu.
        centered: subtract the squared running mean of the gradient from v.
        capturable: for parameters on CUDA devices only.
        foreach, maximize, differentiable: as for `SGD`.
    Source: Tieleman and Hinton 2012, lecture 6.5; Graves 2013 for the centered form.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: step, v, b with momentum, and the mean gradient where it is centered."""
        out: dict[str, Initial] = {"step": count, "square_avg": zeros}
        if group["momentum"] > 0:
            out["momentum_buffer"] = zeros
        if group["centered"]:
            out["grad_avg"] = zeros
        return out

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Scale the gradient, add it to the momentum, and step."""
        square = average_(s.square_avg, group["alpha"], g, g)
        if group["centered"]:
            s.grad_avg.lerp_(g, 1 - group["alpha"])
            square = square.addcmul(s.grad_avg, s.grad_avg, value=-1)
        scale = square.sqrt().add(group["eps"])
        if group["momentum"] > 0:
            s.momentum_buffer.mul_(group["momentum"]).addcdiv_(g, scale)
            descend(p, group["lr"], s.momentum_buffer)
        else:
            descend(p, group["lr"], g, scale)


class Adafactor(RuleOptimizer):
    r"""Adaptive steps with a second moment kept as the outer product of row and column means.

    .. math::
        \hat\beta_t = 1 - t^\tau, \quad V = \frac{R C}{\max(\mathrm{mean}(R), \epsilon_1)}, \quad
        U = \frac{g}{\max(\sqrt V, \epsilon_1)}, \quad
        p \leftarrow p - \max(\epsilon_2, \mathrm{rms}(p)) \min(\gamma, 1/\sqrt t)
        \frac{U}{\max(1, \mathrm{rms}(U) / d)}

    Args:
        params: parameters or groups.
        lr: gamma, the largest relative step.
        beta2_decay: tau.
        eps: epsilon_1 (None: the dtype's) and epsilon_2.
        d: bound of the root mean square of U.
        weight_decay: decay of the parameter itself.
        foreach, maximize: as for `SGD`.
    Source: Shazeer and Stern 2018, "Adafactor", algorithms 4 and 5.
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        given = dict(locals())
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1: expected at least 0, got {eps[0]}")
        for name, value, low in (("epsilon2", eps[1], 0.0), ("Clipping threshold d", d, 1.0)):
            if not value >= low:
                raise ValueError(f"{name}: expected at least {low:g}, got {value}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay: expected at most 0, got {beta2_decay}")
        super().__init__(params, given)

    def _first_steps(self, tensors: list[Tensor], slots: dict[str, Initial], group: Group) -> list[bool]:
        return [self._factor_states(p, group) for p in tensors]

    def _factor_states(self, p: Tensor, group: Group) -> bool:
        """Make the states that fit the number of dimensions."""
        if p.is_complex():
            raise RuntimeError("Adafactor: expected real parameters")
        state = self.state[p]
        if state:
            return False
        state["step"] = count(p, group)
        if p.dim() > 1:
            state["row_var"] = p.new_zeros((*p.shape[:-1], 1))
            state["col_var"] = p.new_zeros((*p.shape[:-2], 1, p.shape[-1]))
        else:
            state["variance"] = zeros(p, group)
        return True

    def _move(self, tensors: list[Tensor], grads: list[Tensor], first: bool, group: Group) -> None:
        for p, grad in zip(tensors, grads, strict=True):
            state = self.state[p]
            state["step"].add_(1)
            g = grad.neg() if group["maximize"] else grad
            self.move_one(p, self._decay_first(p, g, group), state, group)

    def _decay_first(self, p: Tensor, g: Tensor, group: Group) -> Tensor:
        """The step is relative to the size that p had before it decayed."""
        self._size = p.norm().item() / max(p.numel(), 1) ** 0.5
        return self._decay(p, g, group)

    def move_one(self, p: Tensor, g: Tensor, state: dict[str, Any], group: Group) -> None:
        """Step along the gradient over the root of the estimated second moment."""
        step = state["step"].item()
        smallest, relative = group["eps"]
        smallest = flambeau.finfo(p.dtype).eps if smallest is None else smallest
        weight = step ** group["beta2_decay"]
        if p.dim() > 1:
            rows = state["row_var"].lerp_(g.square().mean(-1, keepdim=True), weight)
            columns = state["col_var"].lerp_(g.square().mean(-2, keepdim=True), weight)
            variance = rows * columns / rows.mean(-2, keepdim=True).clamp(min=smallest)
        else:
            variance = state["variance"].lerp_(g.square(), weight)
        update = variance.clamp(min=smallest * smallest).rsqrt_().mul_(g)
        clip = max(1.0, update.norm().item() / (max(update.numel(), 1) ** 0.5 * group["d"]))
        rate = max(relative, self._size) * min(group["lr"], step**-0.5)
        p.add_(update, alpha=-rate / clip)
