"""Muon: momentum whose matrix is made orthogonal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.optim._lists import Value, each
from flambeau.optim._rule import Group, Initial, RuleOptimizer, State, zeros

_COEFFICIENTS = (3.4445, -4.775, 2.0315)
_ADJUSTMENTS = ("original", "match_rms_adamw")


def orthogonalized(g: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Bring all singular values near 1 by iterating a X + (b A + c A^2) X, A = X X^T, in bfloat16.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
    """
    if steps >= 100:
        raise ValueError(f"orthogonalized: expected fewer than 100 steps, got {steps}")
    a, b, c = coefficients
    x = g.bfloat16()
    tall = g.size(0) > g.size(1)
    x = x.t() if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        square = x @ x.t()
        polynomial = flambeau.addmm(square, square, square, beta=b, alpha=c)
        x = flambeau.addmm(x, polynomial, x, beta=a)
    return x.t() if tall else x


class Muon(RuleOptimizer):
    """Steps along the nearest orthogonal matrix to the momentum; meant for the matrices of hidden layers.

    Formula:
        b = momentum * b + (1 - momentum) * g
        p = (1 - lr * weight_decay) * p - lr * s * orthogonal(b)

    Args:
        params: the matrices to move: leaf tensors, pairs of a name and a tensor, or groups of them.
        lr: the step size, 0 or more.
        weight_decay: the rate at which the parameter itself decays, 0 or more.
        momentum: the weight of the past in b, 0 or more.
        nesterov: whether to orthogonalize ``(1 - momentum) * g + momentum * b`` instead of b.
        ns_coefficients: the three coefficients of the Newton-Schulz iteration.
        eps: the smallest norm that b is divided by.
        ns_steps: the number of iterations, below 100.
        adjust_lr_fn: the factor s of a matrix of A rows and B columns: "original" means ``sqrt(max(1, A /
            B))``, "match_rms_adamw" means ``0.2 * sqrt(max(A, B))``, None means "original".
    Raises: ValueError for parameters that are not matrices or a hyperparameter out of its range.
    Source: Jordan et al. 2024, "Muon: An Optimizer for Hidden Layers in Neural Networks".

    Example:
        >>> w = flambeau.zeros(2, 3, requires_grad=True)
        >>> optimizer = flambeau.optim.Muon([w], lr=0.1)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.shape
        flambeau.Size([2, 3])
    """

    scalars = ()
    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = _COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if adjust_lr_fn is not None and adjust_lr_fn not in _ADJUSTMENTS:
            raise ValueError(
                f"Muon: expected adjust_lr_fn None, 'original' or 'match_rms_adamw', got {adjust_lr_fn!r}"
            )
        super().__init__(params, locals())
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(
                        "Muon: Muon only supports 2D parameters: expected 2 dimensions, got one of size "
                        f"{tuple(p.shape)}"
                    )

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the state: b."""
        return {"momentum_buffer": zeros}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Update the momentum and step along its orthogonal factor."""
        s.momentum_buffer.lerp_(g, 1 - group["momentum"])
        b = g.lerp(s.momentum_buffer, group["momentum"]) if group["nesterov"] else s.momentum_buffer

        def move(p: Tensor, b: Tensor) -> Tensor:
            direction = orthogonalized(b, group["ns_coefficients"], group["ns_steps"], group["eps"])
            rows, columns = p.shape
            wide = group["adjust_lr_fn"] == "match_rms_adamw"
            scale = 0.2 * math.sqrt(max(rows, columns)) if wide else math.sqrt(max(1, rows / columns))
            return p.add_(direction.to(p.dtype), alpha=-group["lr"] * scale)

        each(move, p, b)
