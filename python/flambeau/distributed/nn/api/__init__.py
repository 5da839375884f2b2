"""Modules of other workers."""

from __future__ import annotations

from flambeau._loading.lazy import attributes

__getattr__, __dir__ = attributes(__name__)
