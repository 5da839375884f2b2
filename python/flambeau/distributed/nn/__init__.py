"""Modules of other workers, and collectives that autograd records."""

from __future__ import annotations

from flambeau._loading.lazy import attributes
from flambeau.distributed.nn import functional
from flambeau.distributed.nn.api.remote_module import RemoteModule
from flambeau.distributed.nn.functional import (
    ReduceOp,
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    group,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = [
    "ReduceOp",
    "RemoteModule",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "functional",
    "gather",
    "group",
    "reduce",
    "reduce_scatter",
    "scatter",
]

__getattr__, __dir__ = attributes(__name__)
