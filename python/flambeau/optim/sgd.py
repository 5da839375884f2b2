"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau import Tensor
from flambeau.optim.optimizer import Optimizer, check_at_least_zero


class SGD(Optimizer):
    r"""Gradient descent, optionally with momentum.

    .. math:: b \leftarrow \mu b + (1 - \tau)(g + \lambda p), \quad p \leftarrow p - \gamma b

    Args:
        params: parameters or groups.
        lr: step size gamma.
        momentum: mu.
        dampening: tau; the first step is not dampened.
        weight_decay: lambda.
        nesterov: step along g + mu b (Sutskever et al. 2013).
        maximize: ascend instead.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        check_at_least_zero(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _update(self, tensor: Tensor, grad: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        if group["maximize"]:
            grad = -grad
        if group["weight_decay"] != 0:
            grad = grad.add(tensor, alpha=group["weight_decay"])
        momentum = group["momentum"]
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.detach().clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        tensor.add_(grad, alpha=-group["lr"])
