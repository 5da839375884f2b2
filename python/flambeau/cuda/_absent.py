"""The functions and classes of `flambeau.cuda` that this build has no device for."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from flambeau._loading.devices import AbsentDevices, Table

GLOSSARY = {
    "**kwargs": ("accepted for compatibility.", ""),
    "alloc_fn_name": ("the name of its function (size in bytes, device, stream) -> address.", '"allocate"'),
    "blocking": ("whether `synchronize` puts the thread to sleep instead of spinning.", "False"),
    "enable_timing": ("whether the event takes the time.", "False"),
    "external": ("whether a captured graph records the event as an external one.", "False"),
    "free_fn_name": ("the name of its function (address, size in bytes, device, stream).", '"release"'),
    "interprocess": ("whether other processes may use the event.", "False"),
    "keep_graph": (
        "whether the graph stays after it is made executable, so that it can be changed.",
        "False",
    ),
    "no_split": ("whether each tensor gets a block of its own.", "False"),
    "path_to_so_file": ("the library's path.", '"allocator.so"'),
    "priority": ("the smaller, the sooner; 0 is the lowest.", "0"),
    "stream_ptr": ("the stream's address, as an int.", "0"),
    "use_on_oom": ("whether other tensors may use the pool when memory runs out.", "False"),
    "abbreviated": ("whether the table leaves out the kinds of memory that few programs use.", "False"),
    "allocator": ("a `CUDAPluggableAllocator`.", "None"),
    "allow_unused_input": ("whether the functions may ignore inputs that require gradients.", "False"),
    "callables": ("a function or module, or a tuple of them, that computes on the device alone.", "abs"),
    "data_ptr": ("the address of the stream, as an int.", "0"),
    "debug_mode": ('0 or "default", 1 or "warn", 2 or "error".', "0"),
    "device": ("the device, as an index, a name or a `flambeau.device`; None: the current one.", "0"),
    "fraction": ("a number from 0 to 1.", "0.5"),
    "include_traces": ("whether the snapshot has the call stacks of allocations.", "True"),
    "mem_ptr": ("the address that `caching_allocator_alloc` returned.", "0"),
    "mempool_id": ("the pool to list; None: all pools.", "None"),
    "new_state": ("a uint8 tensor from `get_rng_state`.", "flambeau.get_rng_state()"),
    "new_states": ("the states that `get_rng_state_all` returned, one for each device.", "[]"),
    "num_warmup_iters": ("the number of runs before the work is captured.", "3"),
    "peer_device": ("the device whose memory is to be read.", "1"),
    "pool": ("the pool of memory; None: one of its own.", "None"),
    "res": ("the code that a function of CUDA's runtime returned; 0 is success.", "0"),
    "sample_args": ("the arguments to capture with, a tuple for each function.", "()"),
    "seed": ("an int from -2**63 to 2**64 - 1.", "0"),
    "size": ("the number of bytes.", "1024"),
    "stream": ("the stream; None: the current one.", "None"),
    "value": ("whether freed memory is kept for later tensors.", "True"),
}

# --- functions that apply to all devices ------------------------------------------------------------------

IDLE: Table = {
    "manual_seed": (lambda seed: None, "Set the seed of the current device's generator."),
    "manual_seed_all": (lambda seed: None, "Set the seed of every device's generator."),
    "seed": (lambda: None, "Set a random seed of the current device's generator."),
    "seed_all": (lambda: None, "Set one random seed of every device's generator."),
    "empty_cache": (lambda: None, "Give memory that no tensor uses back to the driver."),
    "ipc_collect": (lambda: None, "Release memory that other processes have stopped sharing."),
    "reset_peak_memory_stats": (
        lambda device=None: None,
        "Set the peaks of a device's statistics to the present values.",
    ),
    "reset_max_memory_allocated": (
        lambda device=None: None,
        "Set all peaks of a device's statistics to the present values; deprecated.",
    ),
    "reset_max_memory_cached": (
        lambda device=None: None,
        "Set all peaks of a device's statistics to the present values; deprecated.",
    ),
    "reset_accumulated_memory_stats": (
        lambda device=None: None,
        "Set the totals of a device's statistics since the program's start to 0.",
    ),
    "reset_accumulated_host_memory_stats": (
        lambda: None,
        "Set the totals of the pinned memory's statistics since the program's start to 0.",
    ),
    "reset_peak_host_memory_stats": (
        lambda: None,
        "Set the peaks of the pinned memory's statistics to the present values.",
    ),
    "set_rng_state_all": (lambda new_states: None, "Set the states of every device's generator."),
    "caching_allocator_enable": (lambda value=True: None, "Switch the cache of freed memory on or off."),
    "memory_allocated": (lambda device=None: 0, "Return the number of bytes in a device's tensors."),
    "max_memory_allocated": (
        lambda device=None: 0,
        "Return the largest number of bytes that a device's tensors had at one time.",
    ),
    "memory_reserved": (
        lambda device=None: 0,
        "Return the number of bytes that the allocator holds, in tensors and in its cache.",
    ),
    "max_memory_reserved": (
        lambda device=None: 0,
        "Return the largest number of bytes that the allocator held at one time.",
    ),
    "memory_cached": (lambda device=None: 0, "Return `memory_reserved`, by its former name."),
    "max_memory_cached": (lambda device=None: 0, "Return `max_memory_reserved`, by its former name."),
    "memory_stats": (
        lambda device=None: OrderedDict(),
        "Return the allocator's counts and bytes by dotted names.",
    ),
    "memory_stats_as_nested_dict": (
        lambda device=None: {},
        "Return the allocator's counts and bytes as dicts in dicts.",
    ),
    "host_memory_stats": (lambda: OrderedDict(), "Return the statistics of pinned memory by dotted names."),
    "get_arch_list": (lambda: [], "Return the architectures that this build has kernels for."),
    "get_gencode_flags": (lambda: "", "Return the compiler's flags for those architectures."),
    "get_rng_state_all": (lambda: [], "Return the states of every device's generator."),
}

# --- functions that need a device -------------------------------------------------------------------------

_DEVICE: Any = "cuda"
REFUSING: Table = {
    "init": (lambda: None, "Start CUDA, as the first use of a device does too."),
    "current_device": (lambda: None, "Return the index of the current device."),
    "set_device": (lambda device: None, "Make a device the current one of this thread."),
    "get_device_name": (lambda device=None: None, "Return the name that the driver gives a device."),
    "get_device_capability": (
        lambda device=None: None,
        "Return the compute capability of a device as (major, minor).",
    ),
    "get_device_properties": (
        lambda device=None: None,
        "Return a device's name, memory in bytes, and number of multiprocessors.",
    ),
    "synchronize": (lambda device=None: None, "Wait for all work that was given to a device."),
    "current_stream": (lambda device=None: None, "Return the stream that new work of a device joins."),
    "default_stream": (lambda device=None: None, "Return the stream that a device begins with."),
    "set_stream": (lambda stream: None, "Make a stream the current one."),
    "get_stream_from_external": (
        lambda data_ptr, device=None: None,
        "Return a stream that another library has created.",
    ),
    "mem_get_info": (
        lambda device=None: None,
        "Return the bytes that are free on a device, and all its bytes.",
    ),
    "get_rng_state": (
        lambda device=_DEVICE: None,
        "Return the state of a device's generator as a uint8 tensor.",
    ),
    "set_rng_state": (lambda new_state, device=_DEVICE: None, "Set the state of a device's generator."),
    "initial_seed": (lambda: None, "Return the seed of the current device's generator."),
    "utilization": (
        lambda device=None: None,
        "Return the percentage of the last second in which a kernel ran, from 0 to 100.",
    ),
    "memory_usage": (
        lambda device=None: None,
        "Return the percentage of the last second in which memory was read or written, from 0 to 100.",
    ),
    "power_draw": (lambda device=None: None, "Return the power that a device uses, in milliwatts."),
    "clock_rate": (lambda device=None: None, "Return the clock of the multiprocessors, in MHz."),
    "temperature": (lambda device=None: None, "Return a device's temperature in degrees Celsius."),
    "device_memory_used": (
        lambda device=None: None,
        "Return the bytes of a device's memory that all processes use.",
    ),
    "list_gpu_processes": (
        lambda device=None: None,
        "Return the processes on a device with their memory, as text.",
    ),
    "cudart": (lambda: None, "Return the module of the CUDA runtime's functions."),
    "check_error": (lambda res: None, "Raise `CudaError` for a code that is not a success."),
    "current_blas_handle": (lambda: None, "Return the address of cuBLAS's state for the current stream."),
    "current_solver_handle": (lambda: None, "Return the address of cuSOLVER's state for the current stream."),
    "can_device_access_peer": (
        lambda device, peer_device: None,
        "Return whether a device can read another one's memory directly.",
    ),
    "get_per_process_memory_fraction": (
        lambda device=None: None,
        "Return the share of a device's memory that this process may use.",
    ),
    "set_per_process_memory_fraction": (
        lambda fraction, device=None: None,
        "Set the share of a device's memory that this process may use.",
    ),
    "get_sync_debug_mode": (lambda: None, "Return the mode of `set_sync_debug_mode` as a number."),
    "set_sync_debug_mode": (
        lambda debug_mode: None,
        "Set what happens when an operator makes the CPU wait for a device.",
    ),
    "graph_pool_handle": (lambda: None, "Return the identity of a new pool that several graphs may share."),
    "make_graphed_callables": (
        lambda callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None: None,
        "Return functions that replay a captured graph, in forward and backward.",
    ),
    "caching_allocator_alloc": (
        lambda size, device=None, stream=None: None,
        "Return the address of new memory that another library may use.",
    ),
    "caching_allocator_delete": (lambda mem_ptr: None, "Free memory of `caching_allocator_alloc`."),
    "change_current_allocator": (
        lambda allocator: None,
        "Replace the allocator before the first use of a device.",
    ),
    "get_allocator_backend": (lambda: None, 'Return the allocator\'s name, "native" or "cudaMallocAsync".'),
    "memory_snapshot": (
        lambda mempool_id=None, include_traces=True: None,
        "Return the segments of memory that the allocator holds, and their blocks.",
    ),
    "memory_summary": (
        lambda device=None, abbreviated=False: None,
        "Return the allocator's statistics as a table of text.",
    ),
    "use_mem_pool": (lambda pool, device=None: None, "Return a block whose tensors take memory from a pool."),
}


# --- classes ----------------------------------------------------------------------------------------------

CLASSES: Table = {
    "Stream": (lambda device=None, priority=0, **kwargs: None, "Queue of work that a device does in order."),
    "ExternalStream": (
        lambda stream_ptr, device=None, **kwargs: None,
        "Stream that another library has created.",
    ),
    "Event": (
        lambda enable_timing=False, blocking=False, interprocess=False, external=False: None,
        "Marker in a stream that can be waited for and whose time can be taken.",
    ),
    "CUDAGraph": (lambda keep_graph=False: None, "Captured work that can be replayed."),
    "MemPool": (
        lambda allocator=None, use_on_oom=False, no_split=False: None,
        "Separate pool of memory for chosen tensors.",
    ),
    "CUDAPluggableAllocator": (
        lambda path_to_so_file, alloc_fn_name, free_fn_name: None,
        "Allocator whose functions are in a shared library.",
    ),
}


def names(message: str) -> dict[str, Any]:
    """Return the functions and classes of the tables by name; `message` is the text of the errors."""
    absent = AbsentDevices("flambeau.cuda", GLOSSARY, AssertionError, f"{{name}}: {message}")
    return {**absent.idle(IDLE), **absent.refusing(REFUSING), **absent.classes(CLASSES)}
