"""CUDA devices: this build has none, and every query reports that.

What counts or seeds devices does so for none of them; what needs one raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._loading.absence import absent_class
from flambeau._loading.lazy import attributes
from flambeau._types.errors import OutOfMemoryError as OutOfMemoryError
from flambeau.cuda._absent import names as _absent_names


def is_available() -> bool:
    """Return False: this build has no CUDA device.

    Returns: False.

    Example:
        >>> flambeau.cuda.is_available()
        False
    """
    return False


def is_initialized() -> bool:
    """Return False: no device has been used.

    Returns: False.

    Example:
        >>> flambeau.cuda.is_initialized()
        False
    """
    return False


def device_count() -> int:
    """Return 0, the number of CUDA devices.

    Returns: 0.

    Example:
        >>> flambeau.cuda.device_count()
        0
    """
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False: there is no device that computes in bfloat16.

    Args:
        including_emulation: whether devices count that compute in float32 and round.
    Returns: False.

    Example:
        >>> flambeau.cuda.is_bf16_supported(including_emulation=False)
        False
    """
    return False


def is_current_stream_capturing() -> bool:
    """Return False: no graph is being captured.

    Returns: False.

    Example:
        >>> flambeau.cuda.is_current_stream_capturing()
        False
    """
    return False


_MISSING = "flambeau is not compiled with CUDA enabled"
globals().update(_absent_names(_MISSING))

has_half, has_magma = True, False
default_generators: tuple[Any, ...] = ()


def is_tf32_supported() -> bool:
    """Return False: there is no device that computes in TF32.

    Returns: False.

    Example:
        >>> flambeau.cuda.is_tf32_supported()
        False
    """
    return False


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


class CudaError(RuntimeError):
    """An error code of a function of the CUDA runtime.

    Args:
        code: the runtime's number of the error.

    Example:
        >>> issubclass(flambeau.cuda.CudaError, RuntimeError)
        True
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"cuda: expected success, got error {code} of the runtime")


class DeferredCudaCallError(Exception):
    """Error of a function that is called at the first use of a device.

    Example:
        >>> issubclass(flambeau.cuda.DeferredCudaCallError, Exception)
        True
    """


class device:
    """Block in which a device is the current one.

    Args:
        device: the device, as an index or a `flambeau.device`; None or a negative index has no effect.

    Example:
        >>> with flambeau.cuda.device(None):
        ...     flambeau.cuda.device_count()
        0
    """

    def __init__(self, device: Any) -> None:
        self.index = device.index if isinstance(device, _C.device) else device

    def __enter__(self) -> None:
        if self.index is not None and (not isinstance(self.index, int) or self.index >= 0):
            globals()["set_device"](self.index)

    def __exit__(self, *exc: object) -> None:
        return None


class device_of(device):
    """Block in which the device of a tensor is the current one.

    Args:
        obj: the tensor; one of the CPU has no effect.

    Example:
        >>> with flambeau.cuda.device_of(flambeau.ones(2)):
        ...     flambeau.cuda.device_count()
        0
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class StreamContext:
    """Block in which a stream is the current one.

    Args:
        stream: the stream; None has no effect.

    Example:
        >>> with flambeau.cuda.StreamContext(None):
        ...     flambeau.cuda.device_count()
        0
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            raise AssertionError(f"StreamContext: {_MISSING}")

    def __exit__(self, *exc: object) -> None:
        return None


def stream(stream: Any) -> StreamContext:
    """Return a block in which a stream is the current one.

    Args:
        stream: the stream; None has no effect.
    Returns: a `StreamContext`.

    Example:
        >>> with flambeau.cuda.stream(None):
        ...     flambeau.cuda.device_count()
        0
    """
    return StreamContext(stream)


class graph:
    """Block whose work on the device a `CUDAGraph` captures.

    Args:
        cuda_graph: the graph that the work becomes.
        pool: the pool of memory that the graph uses; None: one of its own.
        stream: the stream that captures; None: one of its own.
        capture_error_mode: which forbidden calls are errors: "global" those of all threads, "thread_local"
            those of this thread, "relaxed" none.
    Raises: RuntimeError, as this build has no device.

    Example:
        >>> flambeau.cuda.graph(None)
        Traceback (most recent call last):
        RuntimeError: cuda.graph: flambeau is not compiled with CUDA enabled
    """

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
