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
    """Return whether a device type has autocast; "cpu", "cuda" and registered out-of-tree devices have.

    Args:
        device_type: the device type.
    Returns: True or False.

    Example:
        >>> flambeau.amp.is_autocast_available("cpu")
        True
    """
    return _C._is_autocast_available(device_type)


def _named(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"autocast: expected a string as device_type, got {type(device_type).__name__}")
    return device_type


def _lower_of_module(device: str) -> tuple[dtype, ...]:
    """Return the dtypes that the module of an out-of-tree device names."""
    from flambeau._state.device_modules import _module_named

    named = getattr(_module_named(device), "get_amp_supported_dtype", None)
    return (_C.float16, _C.bfloat16) if named is None else tuple(named())


def _is_possible(device: str, fast: dtype | None) -> bool:
    """Whether the region can be enabled; warn of the reason if it cannot."""
    from flambeau import cuda

    if device == "cuda" and not cuda.is_available():
        reason = "CUDA is not available"
    elif device == "cpu" and fast not in _LOWER["cpu"]:
        reason = f"autocast on the CPU takes bfloat16 or float16 as dtype, got {fast}"
    elif device == _C._get_privateuse1_backend_name() and fast not in (known := _lower_of_module(device)):
        reason = f"autocast on {device} takes {known} as dtype, got {fast}"
    else:
        return True
    warnings.warn(f"{reason}. Disabling autocast.", UserWarning, stacklevel=3)
    return False


class autocast:
    """Context manager and decorator in which operators cast floating arguments to the dtype that suits them.

    Matrix products and convolutions compute in `dtype`; operators that need more precision compute in
    float32. Arguments in float64 keep their dtype. Casts of float32 leaves that require gradients are cached
    until the outermost region ends. The state belongs to the thread.

    Args:
        device_type: the device type whose operators cast: "cpu" or "cuda".
        dtype: the lower precision. None means bfloat16 on the CPU and float16 on CUDA.
        enabled: whether operators cast; False disables autocast within an outer region.
        cache_enabled: whether casts are cached. None means the setting outside of the region.
    Raises: ValueError if `device_type` is not a string, RuntimeError if the device type has no autocast.

    Example:
        >>> x = flambeau.ones(2, 2)
        >>> with flambeau.amp.autocast("cpu"):
        ...     y = x @ x
        ...     with flambeau.amp.autocast("cpu", enabled=False):
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
            raise RuntimeError(f"autocast: expected the device type 'cpu' or 'cuda', got {device_type!r}")
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
    """Decorate the ``forward`` of a `Function` so that it works under autocast.

    Args:
        fwd: the function. None makes a decorator.
        device_type: the device type whose autocast state is used.
        cast_inputs: the dtype to which floating inputs are cast within a region, where `fwd` then runs
            without autocast. None leaves the inputs and autocast as they are.
    Returns: the decorated function.
    Raises: ValueError if `device_type` is not a string.
    See also: `custom_bwd`

    Example:
        >>> class Product(flambeau.autograd.Function):
        ...     @staticmethod
        ...     @flambeau.amp.custom_fwd(device_type="cpu", cast_inputs=flambeau.float32)
        ...     def forward(ctx, a, b):
        ...         return a @ b
        >>> half = flambeau.ones(2, 2, dtype=flambeau.bfloat16)
        >>> with flambeau.autocast("cpu"):
        ...     Product.apply(half, half).dtype
        flambeau.float32
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
    """Decorate the ``backward`` of a `Function` so that it runs in the autocast state of its forward.

    Args:
        bwd: the function. None makes a decorator.
        device_type: the device type whose autocast state is used.
    Returns: the decorated function.
    Raises: ValueError if `device_type` is not a string.
    See also: `custom_fwd`

    Example:
        >>> class Product(flambeau.autograd.Function):
        ...     @staticmethod
        ...     @flambeau.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, a, b):
        ...         ctx.save_for_backward(a, b)
        ...         return a @ b
        ...     @staticmethod
        ...     @flambeau.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         a, b = ctx.saved_tensors
        ...         return grad @ b.T, a.T @ grad
        >>> a = flambeau.ones(2, 2, requires_grad=True)
        >>> with flambeau.autocast("cpu"):
        ...     loss = Product.apply(a, flambeau.ones(2, 2)).sum()
        >>> loss.backward()
        >>> a.grad
        tensor([[2., 2.],
                [2., 2.]])
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
