"""Functional tensors outside transforms, under the names that libraries use in `torch`."""

from __future__ import annotations

from flambeau import _C
from flambeau._C import Tensor

_NO_LAYER = 0


def _to_functional_tensor(t: Tensor) -> Tensor:
    """Return a functional tensor with the elements of `t`; writes to it do not change `t`."""
    if _C._is_functional(t):
        raise RuntimeError("_to_functional_tensor: expected an ordinary tensor, got a functional one")
    return _C._make_functional(t, _NO_LAYER)


def _from_functional_tensor(t: Tensor) -> Tensor:
    """Return the tensor that holds the elements of a functional tensor after all writes."""
    return _C._updated_value(t)


def _is_functional_tensor(t: Tensor) -> bool:
    """Whether a tensor is functional."""
    return bool(_C._is_functional(t))


def _sync(t: Tensor) -> None:
    """Compute the elements of a functional tensor after all writes, if they are outdated."""
    _C._updated_value(t)


def _enable_functionalization(*, reapply_views: bool = False) -> None:
    """Make the results of all operators of this thread functional tensors, also those of factories.

    Args:
        reapply_views: whether operators that return views run as views below, instead of copies.
    Raises: RuntimeError if functionalization is on already.
    """
    if _C._set_functionalization(True, not reapply_views):
        raise RuntimeError("_enable_functionalization: expected functionalization to be off, got on")


def _disable_functionalization() -> None:
    """Switch functionalization of this thread off."""
    _C._set_functionalization(False, False)
