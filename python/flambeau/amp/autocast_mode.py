"""Regions in which operators cast their arguments: `autocast`, and functions that know of it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, dtype

_LOWER = {"cpu": (_C.bfloat16, _C.float16), "cuda": (_C.float16, _C.bfloat16)}


def is_autocast_available(device_type: str) -> bool:
    """Whether a device type has autocast: "cpu" and "cuda" have.

    >>> is_autocast_available("cpu")
    True
    """
    return _C._is_autocast_available(device_type)


def _named(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"autocast: expected a string as device_type, got {type(device_type).__name__}")
    return device_type


def _is_possible(device: str, fast: dtype | None) -> bool:
    """Whether the region can be enabled; warn of the reason if it cannot."""
    from flambeau import cuda

    if device == "cuda" and not cuda.is_available():
        reason = "CUDA is not available"
    elif device == "cpu" and fast not in _LOWER["cpu"]:
        reason = f"autocast on the CPU takes bfloat16 or float16 as dtype, got {fast}"
    else:
        return True
    warnings.warn(f"{reason}. Disabling autocast.", UserWarning, stacklevel=3)
    return False


class autocast:
    """Within the region, operators of a device cast floating point arguments to the dtype that suits them.

    Products and convolutions compute in `dtype`; operators that need more precision compute in float32.
    Arguments in float64 keep their dtype. Casts of float32 leaves that require gradients are cached until
    the outermost region ends. As a decorator, it runs a function in a region. The state is per thread.

    Args:
        device_type: "cpu" or "cuda".
        dtype: the lower precision; default bfloat16 on the CPU and float16 on CUDA.
        enabled: whether operators cast; False disables autocast within an outer region.
        cache_enabled: whether casts are cached. Default: the setting outside of the region.
    Raises: ValueError if `device_type` is not a string, RuntimeError if the device has no autocast.

    >>> import flambeau as fb
    >>> x = fb.ones(2, 2)
    >>> with autocast("cpu"):
    ...     y = x @ x
    ...     with autocast("cpu", enabled=False):
    ...         z = x @ x
    >>> y.dtype, z.dtype
    (flambeau.bfloat16, flambeau.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = _named(device_type)
        if not is_autocast_available(self.device):
            raise RuntimeError(f"autocast: the device type '{device_type}' has none, only cpu and cuda")
        self.fast_dtype = _C.get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = _C.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and _is_possible(self.device, self.fast_dtype)
        self._outer: list[tuple[bool, Any, bool]] = []

    def __enter__(self) -> autocast:
        state = (
            _C.is_autocast_enabled(self.device),
            _C.get_autocast_dtype(self.device),
            _C.is_autocast_cache_enabled(),
        )
        self._outer.append(state)
        _C.set_autocast_enabled(self.device, self._enabled)
        _C.set_autocast_dtype(self.device, self.fast_dtype)
        _C.set_autocast_cache_enabled(self._cache_enabled)
        _C.autocast_increment_nesting()
        return self

    def __exit__(self, *_: object) -> None:
        if _C.autocast_decrement_nesting() == 0:
            _C.clear_autocast_cache()
        enabled, fast, cache = self._outer.pop()
        _C.set_autocast_enabled(self.device, enabled)
        _C.set_autocast_dtype(self.device, fast)
        _C.set_autocast_cache_enabled(cache)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs `func` in such a region."""

        @functools.wraps(func)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return within


def _cast(value: Any, device_type: str, to: dtype) -> Any:
    """Cast the floating tensors of a device in nested containers; float64 stays."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type
        return value.to(to) if eligible and value.dtype != _C.float64 else value
    if isinstance(value, dict):
        return type(value)({_cast(k, device_type, to): _cast(v, device_type, to) for k, v in value.items()})
    if isinstance(value, list | tuple):
        items = [_cast(item, device_type, to) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Any:
    """Decorate the ``forward`` of a custom Function, so that it works under autocast.

    Args:
        fwd: the function; None: returns the decorator.
        device_type: the device type whose autocast state is used.
        cast_inputs: dtype to which inputs are cast within a region, where `fwd` then runs without autocast.
    Raises: ValueError if `device_type` is not a string.
    """
    _named(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = _C.get_autocast_dtype(device_type)
        enabled = _C.is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate the ``backward`` of a custom Function, so that it runs in the autocast state of its forward.

    Args:
        bwd: the function; None: returns the decorator.
        device_type: the device type whose autocast state is used.
    Raises: ValueError if `device_type` is not a string.
    """
    _named(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(*args, **kwargs)

    return backward
