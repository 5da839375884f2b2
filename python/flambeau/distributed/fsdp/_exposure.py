"""Exposure: a module has its whole parameters for a while, outside of passes."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._reductions import AllreduceOptions, ReduceOp
from flambeau.distributed.fsdp._flat import FlatParts, set_grad
from flambeau.nn.parameter import Parameter


class Exposure:
    """Whole parameters in the place of parts, from construction to `end`.

    Args:
        parts: those of the module.
        wholes: the values of its parameters, with memory of their own.
        is_same: whether the parameters that the module keeps get the values, so that they are the same
            objects; otherwise new ones replace them.
    """

    def __init__(self, parts: FlatParts, wholes: list[Tensor], is_same: bool = False) -> None:
        self._parts, self._is_same = parts, is_same and parts.keeps
        self._grads: list[Any] = []
        self._has_grads = False
        parts.hide_wholes()
        module, flat = parts.places[0]
        if not parts.keeps:
            del module._parameters[flat]
        for original, whole in zip(parts.originals, wholes, strict=True):
            if self._is_same:
                self._grads.append(original.parameter.grad)
                original.parameter.grad = None
                original.parameter.data = whole
                continue
            shown = Parameter(whole, original.parameter.requires_grad)
            for owner, name in original.places:
                owner._parameters[name] = shown

    def _shown(self) -> list[Any]:
        return [owner._parameters[name] for owner, name in (o.places[0] for o in self._parts.originals)]

    def show_grads(self, grads: list[Tensor] | None) -> None:
        """Give the parameters their whole gradients."""
        self._has_grads = grads is not None
        for parameter, grad in zip(self._shown(), grads or (), strict=grads is not None):
            set_grad(parameter, grad if parameter.requires_grad else None)

    def end(self, writes_back: bool) -> None:
        """Let the module have its parts again.

        Args:
            writes_back: whether values, and gradients that were shown, are taken over.
        """
        parts, shown = self._parts, self._shown()
        if writes_back:
            parts.write_back([parameter.detach() for parameter in shown])
        grads = [parameter.grad for parameter in shown]
        module, flat = parts.places[0]
        for original, earlier in zip(parts.originals, self._grads or grads, strict=True):
            if self._is_same:
                original.parameter.grad = None
                original.parameter.data = parts.view_of_part(original, parts.sharded.data)
                set_grad(original.parameter, earlier)
                continue
            for owner, name in original.places:
                if parts.keeps:
                    owner._parameters[name] = original.parameter
                else:
                    owner._parameters.pop(name, None)
        if not parts.keeps:
            module._parameters[flat] = parts.sharded
            parts.show_wholes()
        if writes_back and self._has_grads:
            _write_grads(parts, grads)


def whole_grads(parts: FlatParts) -> list[Tensor] | None:
    """Return the whole gradients of the parameters, or None; all processes with parts call this."""
    local = parts.slices(lambda parameter: parameter.grad)
    has_some = flambeau.tensor([float(local is not None)])
    if parts.layout.size > 1:
        parts.layout.group.allreduce([has_some], AllreduceOptions(ReduceOp.MAX)).wait()
    if not has_some.item():
        return None
    return parts.wholes_of(flambeau.zeros(parts.size, dtype=parts.grad_dtype) if local is None else local)


def _write_grads(parts: FlatParts, grads: list[Any]) -> None:
    local = flambeau.zeros(parts.size, dtype=parts.grad_dtype)
    with flambeau.no_grad():
        parts.pack(grads, local)
    if not parts.keeps:
        set_grad(parts.sharded, local)
        return
    for original, grad in zip(parts.originals, grads, strict=True):
        view = parts.view_of_part(original, local)
        set_grad(original.parameter, view if grad is not None and view.numel() else None)
