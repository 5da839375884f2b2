"""Optimizers of several processes."""

from __future__ import annotations

from flambeau._loading.lazy import attributes
from flambeau.distributed.optim.optimizer import DistributedOptimizer
from flambeau.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from flambeau.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

_UNBUILT = ("as_functional_optim",)

__getattr__, __dir__ = attributes(__name__, dict.fromkeys(_UNBUILT, "flambeau.distributed._unbuilt"))
