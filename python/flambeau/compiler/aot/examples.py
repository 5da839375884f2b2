"""Tensors without memory that replace a graph's inputs while it is recorded."""

from __future__ import annotations

from typing import Any

import flambeau

_META = flambeau.device("meta")


class NotAhead(Exception):
    """Raised for a graph that cannot be recorded ahead of time; the message gives the reason."""


def without_memory(tensor: flambeau.Tensor) -> flambeau.Tensor:
    """Return a tensor on the device "meta" with the sizes, strides, offset and autograd state of another.

    It is a leaf if the other is, because autocast caches the casts of leaves.
    """
    if type(tensor) not in (flambeau.Tensor, flambeau.nn.Parameter):
        raise NotAhead(f"an input of the class {type(tensor).__name__}")
    if flambeau._C._is_functional(tensor):
        raise NotAhead("an input of functionalisation")
    if tensor.layout is not flambeau.strided or tensor.is_conj() or tensor.is_neg():
        raise NotAhead("a sparse input or a conjugate view")
    if tensor.device.type not in ("cpu", "meta"):  # operands of branches have no memory
        raise NotAhead(f"an input on {tensor.device}")
    sizes, strides, offset = tensor.size(), tensor.stride(), tensor.storage_offset()
    is_computed = tensor.requires_grad and not tensor.is_leaf and not flambeau.is_inference_mode_enabled()
    if offset == 0 and not tensor._is_view() and not is_computed:  # autocast does not cache casts of views
        made = flambeau.empty_strided(sizes, strides, dtype=tensor.dtype, device=_META)
        return made.requires_grad_(tensor.requires_grad)
    reach = 1 + offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n)
    base = flambeau.empty(reach, dtype=tensor.dtype, device=_META).requires_grad_(is_computed)
    with flambeau.set_grad_enabled(is_computed):
        view: flambeau.Tensor = base.as_strided(sizes, strides, offset)
    return view if is_computed else view.requires_grad_(tensor.requires_grad)


def on_meta(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a call's arguments with the device "meta" instead of the CPU.

    Operators that make tensors from sizes take the device as an argument.
    """
    parameters = func._schema.arguments
    names = [p.name for p in parameters]
    if "device" not in names:
        return args, kwargs
    place = names.index("device")
    if place < len(args):
        return (*args[:place], _META, *args[place + 1 :]), kwargs
    takes_tensors = any(isinstance(a, flambeau.Tensor) for a in args)
    if takes_tensors and kwargs.get("device") is None:
        return args, kwargs
    return args, {**kwargs, "device": _META}
