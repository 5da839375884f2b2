"""Layers over several devices."""

from flambeau._loading.lazy import attributes
from flambeau.nn.parallel.data_parallel import DataParallel, data_parallel
from flambeau.nn.parallel.distributed import DistributedDataParallel
from flambeau.nn.parallel.parallel_apply import parallel_apply
from flambeau.nn.parallel.replicate import replicate
from flambeau.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

__getattr__, __dir__ = attributes(__name__)
