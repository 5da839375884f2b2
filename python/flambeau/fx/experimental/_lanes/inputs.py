"""Tensors of a program that come from outside: examples whose sizes become symbols."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._object.subclass import DisableTorchDispatch
from flambeau._subclasses._conversion import _check
from flambeau.fx.experimental._lanes.tensor import SymbolicFakeTensor
from flambeau.fx.experimental._sizes.contexts import DimDynamic, StatelessSymbolicContext
from flambeau.utils._python_dispatch import _disable_current_modes
from flambeau.utils.weak import WeakIdKeyDictionary


class Inputs:
    """Makes one tensor with symbolic sizes for each example.

    Args:
        program: the program of the tensors.
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self._made = WeakIdKeyDictionary()

    def of(self, example: Any, source: Any, context: Any, is_static: bool) -> Any:
        """Return the counterpart of an example, the same one at each call.

        Args:
            example: a real tensor.
            source: its name; default: a new name.
            context: how its dimensions become symbols.
            is_static: whether its sizes are constants.
        """
        found = self._made.get(example)
        if found is None:
            with _disable_current_modes(), _C.DisableTorchFunction():
                _check(example)
                found = self._new(example, source, context, is_static)
            self._made[example] = found
        return found

    def _new(self, example: Any, source: Any, context: Any, is_static: bool) -> Any:
        program, env = self.program, self.program.env
        if is_static:
            context = StatelessSymbolicContext([DimDynamic.STATIC] * example.dim())
        name = source if source is not None else f"input{len(self._made)}"
        if is_static:
            geometry: Any = (tuple(example.shape), example.stride(), example.storage_offset())
        else:
            geometry = env.create_symbolic_sizes_strides_storage_offset(
                example, name, symbolic_context=context
            )
        traits = (example.dtype, example.device, example.requires_grad, example.is_leaf)
        is_param = isinstance(example, flambeau.nn.Parameter)
        made = program.call(_leaf, (program.mode, geometry, traits, is_param))
        if example.is_leaf and example.grad is not None:
            made.grad = self.of(example.grad, f"{name}.grad", None, is_static)
        return made


def _leaf(mode: Any, geometry: Any, traits: Any, is_param: bool) -> Any:
    """Return a plain fake tensor of given geometry."""
    size, stride, offset = geometry
    dtype, device, requires_grad, is_leaf = traits
    reach = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    with DisableTorchDispatch(), flambeau.no_grad():
        elem = flambeau.empty(offset + reach, dtype=dtype, device="meta").as_strided(size, stride, offset)
        made = mode._wrapped(elem.detach(), device)
    if is_param:
        return flambeau.nn.Parameter(made, requires_grad)
    if requires_grad:
        made.requires_grad_()
    with flambeau.enable_grad():
        return made if is_leaf or not requires_grad else made.clone()


def from_geometry(program: Any, like: Any) -> Any:
    """Return a tensor with the geometry and traits of another one, without its history."""
    traits = (like.dtype, like.device, False, True)
    return program.call(_leaf, (program.mode, (like._sizes, like._strides, like._offset), traits, False))


def is_symbolic(value: Any) -> bool:
    """Return whether a value is a tensor with symbolic sizes."""
    return isinstance(value, Tensor) and isinstance(value, SymbolicFakeTensor)
