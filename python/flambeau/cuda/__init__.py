"""CUDA devices: this build has none, and every query reports that.

What counts or seeds devices does so for none of them; what needs one raises AssertionError.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NoReturn

from flambeau import _C
from flambeau._loading.absence import absent_class
from flambeau._loading.lazy import attributes
from flambeau._types.errors import OutOfMemoryError as OutOfMemoryError


def is_available() -> bool:
    """Whether there is a device: never."""
    return False


def is_initialized() -> bool:
    """Whether a device is in use: never."""
    return False


def device_count() -> int:
    """Return the number of devices: 0."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a device that computes in bfloat16: never."""
    return False


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured: never."""
    return False


def get_arch_list() -> list[str]:
    """Return the architectures that were compiled for: none."""
    return []


def _for_no_device(name: str) -> Callable[..., None]:
    def function(*args: Any, **kwargs: Any) -> None:
        return None

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of every device: there is none."
    return function


def _zero(name: str) -> Callable[..., int]:
    def function(device: Any = None) -> int:
        return 0

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Return a number of bytes: 0."
    return function


def _needing_one(name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(f"{name}: flambeau is not compiled with CUDA enabled")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of a device. Raises: AssertionError, as there is none."
    return function


_DONE_FOR_NONE = (
    "manual_seed manual_seed_all seed seed_all empty_cache ipc_collect reset_peak_memory_stats "
    "reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats set_rng_state_all "
    "reset_accumulated_host_memory_stats reset_peak_host_memory_stats caching_allocator_enable"
)
_BYTES = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved"
_NEEDING = (
    "init current_device set_device get_device_name get_device_capability get_device_properties synchronize "
    "current_stream default_stream mem_get_info get_rng_state set_rng_state initial_seed utilization cudart "
    "current_blas_handle can_device_access_peer get_per_process_memory_fraction "
    "set_per_process_memory_fraction set_stream get_stream_from_external get_sync_debug_mode "
    "set_sync_debug_mode graph_pool_handle "
    "make_graphed_callables memory_usage power_draw clock_rate temperature device_memory_used "
    "caching_allocator_alloc caching_allocator_delete change_current_allocator memory_snapshot "
    "use_mem_pool list_gpu_processes check_error current_solver_handle get_allocator_backend "
    "memory_summary"
)
globals().update({name: _for_no_device(name) for name in _DONE_FOR_NONE.split()})
globals().update({name: _zero(name) for name in [*_BYTES.split(), "memory_cached", "max_memory_cached"]})
globals().update({name: _needing_one(name) for name in _NEEDING.split()})

has_half, has_magma = True, False
default_generators: tuple[Any, ...] = ()
_MISSING = "flambeau is not compiled with CUDA enabled"


def is_tf32_supported() -> bool:
    """Return False: there is no device that computes in TF32."""
    return False


def get_gencode_flags() -> str:
    """Return an empty string: no architecture needs compiler flags."""
    return ""


def get_rng_state_all() -> list[Any]:
    """Return an empty list: there is no device with a generator."""
    return []


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Return an empty dict: there is no device with an allocator."""
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return an empty dict: there is no device with an allocator."""
    return {}


def host_memory_stats() -> OrderedDict[str, Any]:
    """Return an empty dict: there is no allocator of pinned memory."""
    return OrderedDict()


def _is_in_bad_fork() -> bool:
    """Return False: no device can have been in use when this process was forked."""
    return False


def _is_compiled() -> bool:
    """Return False: kernels for CUDA were not compiled."""
    return False


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Do nothing: the function would be called at the first use of a device, and there is none."""


def _lazy_init() -> None:
    """Raise AssertionError: there is no device to initialise."""
    raise AssertionError(f"cuda.is_available: {_MISSING}")


def _absent(name: str) -> Any:
    return absent_class(name, __name__, _MISSING)


Stream, Event, ExternalStream, CUDAGraph, MemPool, CUDAPluggableAllocator = map(
    _absent, "Stream Event ExternalStream CUDAGraph MemPool CUDAPluggableAllocator".split()
)


class CudaError(RuntimeError):
    """An error that CUDA reports."""


class DeferredCudaCallError(Exception):
    """An error of a function that was to be called when a device is first used."""


class device:
    """A block in which a device is the current one; with None or a negative index it does nothing."""

    def __init__(self, device: Any) -> None:
        self.index = device.index if isinstance(device, _C.device) else device

    def __enter__(self) -> None:
        if self.index is not None and (not isinstance(self.index, int) or self.index >= 0):
            globals()["set_device"](self.index)

    def __exit__(self, *exc: object) -> None:
        return None


class device_of(device):
    """A block in which the device of a tensor is the current one; it does nothing for the CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class StreamContext:
    """A block in which a stream is the current one; with None it does nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            raise AssertionError(f"StreamContext: {_MISSING}")

    def __exit__(self, *exc: object) -> None:
        return None


def stream(stream: Any) -> StreamContext:
    """Return a block in which a stream is the current one."""
    return StreamContext(stream)


class graph:
    """A block whose work is captured. Raises: RuntimeError, as there is no device."""

    def __init__(
        self, cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        raise RuntimeError(f"cuda.graph: {_MISSING}")


def __getattr__(name: str) -> Any:
    if name.endswith(("Tensor", "Storage")) and name in _OF_DTYPE:
        return _absent(name)
    return _attribute(name)


_KINDS = "BFloat16 Bool Byte Char Double Float Half Int Long Short ComplexDouble ComplexFloat"
_OF_DTYPE = {f"{kind}{end}" for kind in _KINDS.split() for end in ("Tensor", "Storage")}
_attribute, __dir__ = attributes(__name__)
