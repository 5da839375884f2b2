"""Communication between processes: stores, process groups, collectives and messages (docs/distributed.md)."""

from __future__ import annotations

from flambeau._loading.lazy import attributes
from flambeau.distributed._backend import Backend, BackendConfig
from flambeau.distributed._barriers import barrier, monitored_barrier
from flambeau.distributed._buckets import GradBucket
from flambeau.distributed._coalescing import coalescing_manager as _coalescing_manager
from flambeau.distributed._collectives import (
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
    supports_complex,
)
from flambeau.distributed._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from flambeau.distributed._errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from flambeau.distributed._file_store import FileStore
from flambeau.distributed._flight_recorder import dump as _dump_flight_record
from flambeau.distributed._groups import (
    GroupMember,
    GroupName,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    is_available,
    is_initialized,
)
from flambeau.distributed._init import (
    destroy_process_group,
    init_process_group,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
)
from flambeau.distributed._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from flambeau.distributed._point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import (
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    _make_nccl_premul_sum,
)
from flambeau.distributed._store import HashStore, PrefixStore, Store
from flambeau.distributed._tcp_store import TCPStore
from flambeau.distributed._work import Work
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.rendezvous import register_rendezvous_handler, rendezvous

__all__ = sorted(
    name for name, value in vars().items() if callable(value) and name[0] != "_" and name != "attributes"
)

# Names of this module whose subsystems are not built are in a table.
_UNBUILT = (
    "Logger ProcessGroupGloo Reducer BuiltinCommHookType breakpoint "
    "get_default_backend_for_device record_comm shrink_group split_group"
).split()

__getattr__, __dir__ = attributes(__name__, dict.fromkeys(_UNBUILT, "flambeau.distributed._unbuilt"))
