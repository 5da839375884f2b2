"""Parts of `distributed.tensor` whose interface may change (docs/distributed.md)."""

from __future__ import annotations

from flambeau._loading.lazy import attributes
from flambeau.distributed.tensor.experimental._attention import context_parallel

_UNBUILT = ("implicit_replication", "local_map", "register_sharding")

__all__ = ["context_parallel"]

__getattr__, __dir__ = attributes(
    __name__,
    dict.fromkeys(_UNBUILT, "flambeau.distributed.tensor.experimental._unbuilt")
    | {"DTensor": "flambeau.distributed.tensor"},
)
