"""What libraries ask `torch._C._functorch` about tensors inside of function transforms."""

from __future__ import annotations

from types import SimpleNamespace

from flambeau import _C
from flambeau._C import Tensor


def is_functorch_wrapped_tensor(tensor: Tensor) -> bool:
    """Whether a tensor belongs to a transform that is running."""
    return _C._wrapper_level(tensor) > 0


def maybe_get_level(tensor: Tensor) -> int:
    """Return the number of the transform that a tensor belongs to, counted from 1; -1 if to none."""
    return _C._wrapper_level(tensor) or -1


def maybe_get_bdim(tensor: Tensor) -> int:
    """Return the dimension that vmap maps over, behind the tensor; -1 if it is none of vmap's."""
    level = _C._wrapper_level(tensor)
    dim = _C._unwrap(tensor, level)[1] if level else None
    return -1 if dim is None else dim


def is_batchedtensor(tensor: Tensor) -> bool:
    """Whether a tensor belongs to a running vmap."""
    return maybe_get_bdim(tensor) >= 0


def is_gradtrackingtensor(tensor: Tensor) -> bool:
    """Whether a tensor belongs to a running grad, vjp or jvp."""
    return is_functorch_wrapped_tensor(tensor) and not (
        is_batchedtensor(tensor) or is_functionaltensor(tensor)
    )


def is_legacy_batchedtensor(tensor: Tensor) -> bool:
    """Return False: vmap has one kind of tensors."""
    return False


def is_functionaltensor(tensor: Tensor) -> bool:
    """Whether a tensor belongs to a running functionalize, or is functional outside of transforms."""
    return bool(_C._is_functional(tensor))


def get_unwrapped(tensor: Tensor) -> Tensor:
    """Return the value inside a tensor of a transform."""
    level = _C._wrapper_level(tensor)
    if not level:
        raise RuntimeError("get_unwrapped: expected a tensor of a transform, got a plain one")
    return _C._unwrap(tensor, level)[0]


_functorch = SimpleNamespace(
    **{name: value for name, value in globals().items() if name.startswith(("is_", "maybe_", "get_"))}
)
