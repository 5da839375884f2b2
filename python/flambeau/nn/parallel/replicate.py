"""Copies of a network on several devices, connected to the network's parameters in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.nn.modules.module import Module

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Make a copy of a module for each device; the gradients of all copies go to the module's parameters.

    Args:
        network: the module, which stays as it is.
        devices: where the copies are.
        detach: whether the copies are cut off from the graph.
    Returns: a list of the copies.

    Example:
        >>> copies = flambeau.nn.parallel.replicate(flambeau.nn.Linear(2, 3), ["cpu"])
        >>> len(copies), type(copies[0]).__name__
        (1, 'Linear')
    """
    return [_copy(network, device, detach) for device in devices]


def _copy(network: Module, device: Any, detach: bool) -> Module:
    copies: dict[int, Module] = {}
    for module in network.modules():
        copy = copies[id(module)] = module.__new__(type(module))
        copy.__dict__.update(module.__dict__, _is_replica=True)
        for entries in ("_parameters", "_buffers", "_modules"):
            copy.__dict__[entries] = dict(getattr(module, entries))
    moved: dict[int, Any] = {}
    for module in network.modules():
        copy = copies[id(module)]
        for name, child in module._modules.items():
            copy._modules[name] = None if child is None else copies[id(child)]
        for entries in ("_parameters", "_buffers"):
            for name, value in getattr(module, entries).items():
                if value is not None and id(value) not in moved:
                    there = value.to(device)
                    moved[id(value)] = there.detach() if detach else there.view_as(there)
                new = None if value is None else moved[id(value)]
                if entries == "_buffers":
                    copy._buffers[name] = new
                else:  # a result of an operator is not a parameter
                    copy.__dict__[name] = new
                    copy._parameters.pop(name, None)
    return copies[id(network)]
