"""Layers over several devices."""

from flambeau.nn.parallel.data_parallel import DataParallel

__all__ = ["DataParallel"]
