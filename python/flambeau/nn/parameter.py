"""Tensors that a module owns: learned parameters and buffers."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import _C, Tensor


class Parameter(Tensor):
    """A tensor that a `Module` lists among its parameters when it is assigned as an attribute.

    Args:
        data: the values; shared, not copied. An empty tensor by default.
        requires_grad: whether gradients are collected.
    """

    # What is computed from parameters is no parameter.
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = flambeau.empty(0)
        return data.detach().as_subclass(cls).requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            copy = type(self)(self.detach().clone(), self.requires_grad)
            if self.grad is not None:
                copy.grad = self.grad.detach().clone()
            memo[id(self)] = copy
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_parameter, (self.detach().as_subclass(Tensor), self.requires_grad)


def _rebuild_parameter(data: Tensor, requires_grad: bool) -> Parameter:
    return Parameter(data, requires_grad)
