"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.optim.optimizer import Optimizer, check_at_least_zero


class Adam(Optimizer):
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
        maximize: ascend instead.
    Source: Kingma and Ba 2015, "Adam", algorithm 1.
    """

    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        check_at_least_zero(epsilon=eps, weight_decay=weight_decay)
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _update(self, tensor: Tensor, grad: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        if not state:
            state["step"] = flambeau.tensor(0.0, dtype=flambeau.float32)
            state["exp_avg"] = flambeau.zeros_like(tensor)
            state["exp_avg_sq"] = flambeau.zeros_like(tensor)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = flambeau.zeros_like(tensor)
        beta1, beta2 = group["betas"]
        lr = group["lr"]
        if group["maximize"]:
            grad = -grad
        if group["weight_decay"] != 0:
            if self.decoupled:
                tensor.mul_(1 - lr * group["weight_decay"])
            else:
                grad = grad.add(tensor, alpha=group["weight_decay"])
        state["step"].add_(1)
        step = int(state["step"].item())
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            flambeau.maximum(state["max_exp_avg_sq"], square, out=state["max_exp_avg_sq"])
            square = state["max_exp_avg_sq"]
        denominator = (square.sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
        tensor.addcdiv_(mean, denominator, value=-lr / (1 - beta1**step))


class AdamW(Adam):
    """Adam with decoupled weight decay: the parameter shrinks by ``lr * weight_decay`` before each step.

    Arguments as for `Adam`; ``weight_decay`` is 0.01 by default.
    Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2.
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
