"""Exchange of tensors by the DLPack protocol."""

from __future__ import annotations

from flambeau._tensor_exchange import from_dlpack as from_dlpack
from flambeau._tensor_exchange import to_dlpack as to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
