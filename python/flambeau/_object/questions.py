"""Questions about a tensor that the class of a wrapper answers, as the operators that PyTorch asks with.

`_make_wrapper_subclass` chooses them. On other tensors the operators return the tensor's own values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C

# Bits of `Question` in python/csrc/wrapper_questions.h.
_SIZES, _STRIDES, _DEVICE, _LAYOUT = 1, 2, 4, 8

_OF_POLICIES = {None: 0, "strides": _STRIDES, "sizes": _SIZES | _STRIDES}


def bits_of(who: str, policy: str | None, device: bool, layout: bool) -> int:
    """Return the questions that a class is asked.

    Args:
        who: the function's name, for errors.
        policy: "sizes", "strides" or None.
        device: whether it is asked for the device.
        layout: whether it is asked for the layout.

    Raises:
        ValueError: the policy is another one.
    """
    if policy not in _OF_POLICIES:
        raise ValueError(
            f"{who}: expected a policy 'strides' or 'sizes', got {policy!r} (Unknown sizes_strides_policy)"
        )
    return _OF_POLICIES[policy] | (_DEVICE if device else 0) | (_LAYOUT if layout else 0)


def _size(x: _C.Tensor, dim: int | None = None) -> Any:
    return list(x.size()) if dim is None else x.size(dim)


def _stride(x: _C.Tensor, dim: int | None = None) -> Any:
    return list(x.stride()) if dim is None else x.stride(dim)


def _is_contiguous(x: _C.Tensor, memory_format: Any = None) -> bool:
    return x.is_contiguous() if memory_format is None else x.is_contiguous(memory_format=memory_format)


def _device(x: _C.Tensor) -> _C.device:
    return x.device


def _layout(x: _C.Tensor) -> _C.layout:
    return x.layout


#: (Namespace, name) -> the function and its overloads.
OPERATORS: dict[tuple[str, str], tuple[Callable[..., Any], list[str]]] = {
    ("aten", "sym_size"): (_size, ["int", "default"]),
    ("aten", "sym_stride"): (_stride, ["int", "default"]),
    ("aten", "sym_numel"): (_C.Tensor.numel, ["default"]),
    ("aten", "sym_storage_offset"): (_C.Tensor.storage_offset, ["default"]),
    ("aten", "is_contiguous"): (_is_contiguous, ["default", "memory_format"]),
    ("prim", "device"): (_device, ["default"]),
    ("prim", "layout"): (_layout, ["default"]),
}
