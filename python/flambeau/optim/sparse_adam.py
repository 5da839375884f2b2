"""Adam for sparse gradients: only the rows that have entries move, and their states with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.optim._arguments import described
from flambeau.optim._rule import check_hyperparameters, with_values, zeros
from flambeau.optim.optimizer import Optimizer


@described
class SparseAdam(Optimizer):
    """Adam for sparse gradients: updates moments and parameters only where the gradient has an entry.

    Formula:
        m = m + (1 - beta1) * (g - m)
        v = v + (1 - beta2) * (g^2 - v)
        p = p - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps)

    Elsewhere the moments do not decay, so the cost of a step is proportional to the number of entries.

    Args:
        {params}
        lr: the step size, above 0; a number, or a tensor of one element.
        betas: beta1 and beta2, the weights of the past in the two means, each in [0, 1).
        eps: added to the denominator, above 0.
        {maximize}
    Raises: ValueError for sparse parameters or a hyperparameter out of its range; RuntimeError in `step` for
        strided gradients.
    Source: Kingma & Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1, restricted to the
        entries.

    Example:
        >>> table = flambeau.nn.Embedding.from_pretrained(flambeau.ones(3, 2), freeze=False, sparse=True)
        >>> optimizer = flambeau.optim.SparseAdam(table.parameters(), lr=0.1)
        >>> table(flambeau.tensor([1])).sum().backward()
        >>> optimizer.step()
        >>> table.weight.detach()
        tensor([[1.0000, 1.0000],
                [0.9000, 0.9000],
                [1.0000, 1.0000]])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        for name, value in (("learning rate", lr), ("epsilon value", eps)):
            if not value > 0:
                raise ValueError(f"SparseAdam: expected {name} > 0, got {value} (Invalid {name}: {value})")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        check_hyperparameters("SparseAdam", defaults)
        super().__init__(params, defaults)
        dense = [not p.is_sparse for group in self.param_groups for p in group["params"]]
        if not all(dense):
            places = [i for i, is_dense in enumerate(dense) if not is_dense]
            raise ValueError(
                "SparseAdam: SparseAdam requires dense parameters: expected them, got sparse ones at "
                f"indices {places}"
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient, which must be sparse.

        Args:
            closure: recomputes the loss, its gradients too, and returns it.
        """
        loss = self._loss(closure)
        with flambeau.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._move(p, p.grad, group)
        return loss

    def _move(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        if not grad.is_sparse:
            raise RuntimeError("SparseAdam: SparseAdam does not support dense gradients; use Adam")
        state = self.state[p]
        if not state:
            state.update(step=0, exp_avg=zeros(p, group), exp_avg_sq=zeros(p, group))
        state["step"] += 1
        entries = (grad.neg() if group["maximize"] else grad).coalesce()
        if entries._nnz() == 0:
            return
        beta1, beta2 = group["betas"]
        g = entries._values()
        mean = state["exp_avg"].sparse_mask(entries)._values()
        square = state["exp_avg_sq"].sparse_mask(entries)._values()
        mean_change = g.sub(mean).mul_(1 - beta1)
        square_change = g.square().sub_(square).mul_(1 - beta2)
        state["exp_avg"].add_(with_values(entries, mean_change))
        state["exp_avg_sq"].add_(with_values(entries, square_change))
        direction = mean.add_(mean_change) / square.add_(square_change).sqrt_().add_(group["eps"])
        step = state["step"]
        rate = float(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        p.add_(with_values(entries, direction), alpha=-rate)


__getattr__, __dir__ = attributes(__name__)
