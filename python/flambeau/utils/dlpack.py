"""Exchange of tensors by the DLPack protocol."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau import from_dlpack as from_dlpack


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule with the tensor's memory, which the next library takes over once."""
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
