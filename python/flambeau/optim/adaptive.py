"""Optimizers that scale each element's step by the size of its gradients so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
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
    with_values,
    zeros,
)


@described
class Adagrad(RuleOptimizer):
    """Adaptive gradients: divides each step by the root of the sum of all squared gradients so far.

    Formula:
        v = v + g^2
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(v) + eps)

    Args:
        {params}
        lr: the step size, 0 or more; a number, or a tensor of one element.
        lr_decay: the rate at which the step size decays, 0 or more.
        {weight_decay}
        initial_accumulator_value: the first value of v, 0 or more.
        eps: added to the denominator, 0 or more.
        {foreach}
        {maximize}
        {differentiable}
        {fused}
    Sparse gradients move only the elements that they have entries for.

    Raises: ValueError for a hyperparameter out of its range.
    Source: Duchi et al. 2011, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization",
        figure 1.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.Adagrad([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9000, -1.9000])
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


@described
class Adadelta(RuleOptimizer):
    """Scales each step by the ratio of the root mean square of past steps to that of past gradients.

    Formula:
        v = rho * v + (1 - rho) * g^2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d^2
        p = p - lr * d

    Args:
        {params}
        lr: the factor of the step, 0 or more; a number, or a tensor of one element.
        rho: the weight of the past in both means, in [0, 1].
        eps: added under both roots, 0 or more.
        {weight_decay}
        {foreach}
        {capturable}
        {maximize}
        {differentiable}
    Raises: ValueError for a hyperparameter out of its range.
    Source: Zeiler 2012, "ADADELTA: An Adaptive Learning Rate Method", algorithm 1.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.Adadelta([w], lr=10.0)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9684, -1.9684])
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
            raise ValueError(f"Adadelta: expected rho from 0 to 1, got {rho} (Invalid rho value: {rho})")
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


@described
class RMSprop(RuleOptimizer):
    """Divides each step by the root of a running mean of squared gradients.

    Formula:
        v = alpha * v + (1 - alpha) * g^2
        b = momentum * b + g / (sqrt(v) + eps)
        p = p - lr * b

    Args:
        {params}
        lr: the step size, 0 or more; a number, or a tensor of one element.
        alpha: the weight of the past in v.
        eps: added to the denominator, 0 or more.
        {weight_decay}
        momentum: the weight of the past in b, 0 or more.
        centered: whether to subtract the squared running mean of the gradient from v, which estimates the
            variance.
        {capturable}
        {foreach}
        {maximize}
        {differentiable}
    Raises: ValueError for a hyperparameter out of its range.
    Source: Tieleman & Hinton 2012, "Neural Networks for Machine Learning", lecture 6.5; Graves 2013,
        "Generating Sequences with Recurrent Neural Networks", for `centered`.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.RMSprop([w], lr=0.01)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9000, -1.9000])
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


@described
class Adafactor(RuleOptimizer):
    """Adaptive steps that store row and column means of the squared gradient instead of a value per element.

    Formula:
        beta2 = 1 - t^beta2_decay
        V = R C / max(mean(R), eps1), from the running means R of rows and C of columns of g^2
        U = g / max(sqrt(V), eps1)
        p = p - max(eps2, rms(p)) * min(lr, 1 / sqrt(t)) * U / max(1, rms(U) / d)

    Parameters with fewer than two dimensions keep the running mean of g^2 itself as V.

    Args:
        {params}
        lr: the largest relative step size, 0 or more; a number, or a tensor of one element.
        beta2_decay: the power of the decay of ``1 - beta2``, 0 or less.
        eps: the smallest denominator eps1 (None means the dtype's epsilon) and the smallest scale eps2 of a
            step.
        d: the bound on the root mean square of U, 1 or more.
        weight_decay: the rate at which the parameter itself decays, 0 or more.
        {foreach}
        {maximize}
    Raises: ValueError for a hyperparameter out of its range, RuntimeError in `step` for complex parameters.
    Source: Shazeer & Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", algorithms
        4 and 5.

    Example:
        >>> w = flambeau.ones(2, 2, requires_grad=True)
        >>> optimizer = flambeau.optim.Adafactor([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([[0.9000, 0.9000],
                [0.9000, 0.9000]])
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
            raise ValueError(f"Adafactor: expected epsilon1 >= 0, got {eps[0]}")
        for name, value, low in (("epsilon2", eps[1], 0.0), ("Clipping threshold d", d, 1.0)):
            if not value >= low:
                raise ValueError(f"Adafactor: expected {name} >= {low:g}, got {value}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"Adafactor: expected beta2_decay <= 0, got {beta2_decay}")
        super().__init__(params, given)

    def _first_steps(self, tensors: list[Tensor], slots: dict[str, Initial], group: Group) -> list[bool]:
        return [self._factor_states(p, group) for p in tensors]

    def _factor_states(self, p: Tensor, group: Group) -> bool:
        """Make the states that fit the number of dimensions."""
        if p.is_complex():
            raise RuntimeError(f"Adafactor: expected real parameters, got {p.dtype}")
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
