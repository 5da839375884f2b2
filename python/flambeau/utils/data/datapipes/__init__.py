"""Data sets that are chained by calling their methods; `datapipe` has their classes."""

from flambeau._loading.lazy import attributes

__getattr__, __dir__ = attributes(__name__)
