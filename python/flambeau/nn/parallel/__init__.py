"""Layers over several devices."""

from flambeau._lazy import attributes
from flambeau.nn.parallel.data_parallel import DataParallel

__all__ = ["DataParallel"]

__getattr__, __dir__ = attributes(__name__)
