"""Tools around training."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Imported when they are first used.
_SUBMODULES = frozenset(("checkpoint", "data", "deterministic", "dlpack"))


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"flambeau.utils.{name}")
    raise AttributeError(f"module 'flambeau.utils' has no attribute '{name}'")
