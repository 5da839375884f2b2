"""Algorithms over processes: joining uneven inputs, hooks of data parallel training, averages of models."""

from __future__ import annotations

from flambeau._loading.lazy import attributes
from flambeau.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]

__getattr__, __dir__ = attributes(__name__)
