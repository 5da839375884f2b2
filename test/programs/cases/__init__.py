"""Programs over public libraries. Each is a function that returns numbers: a loss curve or outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[[], list[float]]] = {}


def program(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a program under `name`, as ``library/what``."""

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        if name in PROGRAMS:
            raise ValueError(f"two programs are named {name!r}")
        PROGRAMS[name] = function
        return function

    return register


def numbers(value: Any, most: int = 40) -> list[float]:
    """The first entries of a tensor, and its sum, as floats."""
    flat = value.detach().double().flatten()
    return [*flat[:most].tolist(), flat.sum().item()]


def descend(parameters: Any, loss_of: Callable[[], Any], steps: int = 8, lr: float = 1e-3) -> list[float]:
    """Losses of a few steps of Adam."""
    import torch

    optimizer = torch.optim.Adam(list(parameters), lr=lr)
    losses = []
    for _ in range(steps):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if not losses[-1] < losses[0]:
        raise AssertionError(f"the loss does not fall: {losses}")
    return losses
