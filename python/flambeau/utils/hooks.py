"""Handles of hooks."""

from flambeau.nn.modules.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
