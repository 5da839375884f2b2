"""Tools around training."""

from __future__ import annotations

from flambeau._loading.lazy import attributes

__getattr__, __dir__ = attributes(__name__, {"swap_tensors": "flambeau.utils._swap"})
