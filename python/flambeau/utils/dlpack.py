"""Exchange of tensors by the DLPack protocol."""

from __future__ import annotations

from flambeau._object.exchange import from_dlpack as from_dlpack
from flambeau._object.exchange import to_dlpack as to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
