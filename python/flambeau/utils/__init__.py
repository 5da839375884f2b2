"""Tools around training."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Imported when they are first used.
_SUBMODULES = frozenset(("checkpoint", "data", "deterministic", "dlpack", "hooks"))


def __getattr__(name: str) -> Any:
    if name == "swap_tensors":
        return import_module("flambeau.utils._swap").swap_tensors
    if name in _SUBMODULES:
        return import_module(f"flambeau.utils.{name}")
    raise AttributeError(f"module 'flambeau.utils' has no attribute '{name}'")
