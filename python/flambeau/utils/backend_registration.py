"""Name the device of an out-of-tree backend, and give tensors, modules and storages methods for it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from flambeau import _C
from flambeau._overrides.overridable import overridable

__all__ = [
    "generate_methods_for_privateuse1_backend",
    "privateuse1_generator",
    "rename_privateuse1_backend",
    "set_privateuse1_fallback",
]
_FALLBACKS = ("warn", "silent", "error")


def rename_privateuse1_backend(backend_name: str) -> None:
    """Give the device kind `privateuseone`, which is kept for out-of-tree backends, a name of its own.

    Devices of this kind are then read and printed by the new name, also where the name is that of a kind
    without a backend, such as `opencl`. The old name is still read.

    Args:
        backend_name: lower-case letters and underscores; not the name of an in-tree device.
    Returns: None.
    Raises: RuntimeError for other names, and for a second name in the same process.
    See also: generate_methods_for_privateuse1_backend

    Example:
        >>> flambeau.utils.rename_privateuse1_backend("example")  # doctest: +SKIP
        >>> flambeau.device("example:1")  # doctest: +SKIP
        device(type='example', index=1)
    """
    _C._rename_privateuse1_backend(backend_name)


def set_privateuse1_fallback(mode: str) -> str:
    """Choose what happens when an operator has no kernel for the out-of-tree device.

    Args:
        mode: "warn": it runs on the CPU, with copies of its arguments and results, and a UserWarning names
            it once. "silent": the same without a warning. "error": NotImplementedError. Default: "warn".
    Returns: the mode that was set before.
    Raises: ValueError for other modes.
    See also: rename_privateuse1_backend

    Example:
        >>> before = flambeau.utils.set_privateuse1_fallback("error")
        >>> flambeau.utils.set_privateuse1_fallback(before)
        'error'
    """
    if mode not in _FALLBACKS:
        raise ValueError(f"set_privateuse1_fallback: expected one of {_FALLBACKS}, got {mode!r}")
    return _FALLBACKS[_C._set_privateuse1_fallback(_FALLBACKS.index(mode))]


def privateuse1_generator(index: int = 0) -> _C.Generator:
    """Return the default generator of an out-of-tree device, used by calls without a generator.

    Args:
        index: the index of the device.
    Returns: the generator.
    Raises: RuntimeError if the backend has no such device.
    See also: Generator

    Example:
        >>> flambeau.utils.privateuse1_generator().manual_seed(0)  # doctest: +SKIP
    """
    if not 0 <= index < _C._privateuse1_device_count():
        raise RuntimeError(
            f"privateuse1_generator: expected the index of a device below {_C._privateuse1_device_count()}, "
            f"got {index}"
        )
    generator: _C.Generator = _C._privateuse1_generator(index)
    return generator


def generate_methods_for_privateuse1_backend(
    for_tensor: bool = True,
    for_module: bool = True,
    for_packed_sequence: bool = True,
    for_storage: bool = False,
    unsupported_dtype: Collection[Any] | None = None,
) -> None:
    """Add `is_<name>` and the method `<name>()`, which moves its object to the out-of-tree device.

    Args:
        for_tensor: whether `Tensor` receives both.
        for_module: whether `nn.Module` receives the method.
        for_packed_sequence: whether `nn.utils.rnn.PackedSequence` receives both.
        for_storage: whether `UntypedStorage` and `TypedStorage` receive both.
        unsupported_dtype: dtypes whose typed storages the device cannot hold. Default: none.
    Returns: None.
    Raises: RuntimeError if a class has one of the names already; no class is changed then.
    See also: rename_privateuse1_backend

    Example:
        >>> flambeau.utils.generate_methods_for_privateuse1_backend()  # doctest: +SKIP
        >>> flambeau.ones(2).is_privateuseone  # doctest: +SKIP
        False
    """
    from flambeau import Tensor, TypedStorage, UntypedStorage
    from flambeau.nn import Module
    from flambeau.nn.utils.rnn import PackedSequence

    kind = _C._get_privateuse1_backend_name()
    is_there, move = f"is_{kind}", _move_of(kind)
    added: list[tuple[type, str, Any]] = []
    if for_tensor:
        getter = overridable(_named(lambda self: self.device.type == kind, is_there, Tensor))
        method = overridable(_named(move, kind, Tensor))
        added += [(Tensor, is_there, property(getter)), (Tensor, kind, method)]
    if for_module:
        added.append((Module, kind, _named(_move_of_module(kind), kind, Module)))
    if for_packed_sequence:
        added.append((PackedSequence, is_there, property(lambda self: self.data.device.type == kind)))
        added.append((PackedSequence, kind, _named(_move_of_sequence(kind), kind, PackedSequence)))
    if for_storage:
        refused = tuple(unsupported_dtype or ())
        for owner in (UntypedStorage, TypedStorage):
            added.append((owner, is_there, property(lambda self: self.device.type == kind)))
        added.append((UntypedStorage, kind, _named(_move_of_bytes(kind), kind, UntypedStorage)))
        added.append((TypedStorage, kind, _named(_move_of_elements(kind, refused), kind, TypedStorage)))
    _add(added)


def _add(added: list[tuple[type, str, Any]]) -> None:
    for owner, name, _ in added:
        if hasattr(owner, name):
            raise RuntimeError(
                f"generate_methods_for_privateuse1_backend: expected {owner.__name__} without "
                f"{name!r}, got one that has already been registered"
            )
    for owner, name, value in added:
        setattr(owner, name, value)


def _named(function: Callable[..., Any], name: str, owner: type) -> Callable[..., Any]:
    function.__name__, function.__qualname__ = name, f"{owner.__name__}.{name}"
    return function


def _target(kind: str, device: Any) -> _C.device:
    """Return the device that the argument of a method names: an index, a device of the kind, or None."""
    if device is None or (isinstance(device, int) and not isinstance(device, bool)):
        index = _current_index(kind) if device is None else int(device)
        return _C.device(f"{kind}:{index}")
    given = _C.device(device) if isinstance(device, str) else device
    if not isinstance(given, _C.device) or given.type != kind:
        raise RuntimeError(f"{kind}: expected an index or a device of type {kind!r}, got {device!r}")
    return given if given.index is not None else _target(kind, None)


def _current_index(kind: str) -> int:
    """Return what the registered module says is the current device, or 0."""
    from flambeau._state.device_modules import _module_named

    module = _module_named(kind)
    return int(module.current_device()) if hasattr(module, "current_device") else 0


def _move_of(kind: str) -> Callable[..., Any]:
    def move(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        """Return the tensor on the out-of-tree device, the current one by default."""
        return self.to(device=_target(kind, device), non_blocking=non_blocking, **kwargs)

    return move


def _move_of_module(kind: str) -> Callable[..., Any]:
    def move(self: Any, device: Any = None) -> Any:
        """Move the parameters and buffers to the out-of-tree device, and return the module."""
        target = _target(kind, device)
        return self._apply(lambda tensor: tensor.to(target))

    return move


def _move_of_sequence(kind: str) -> Callable[..., Any]:
    def move(self: Any, device: Any = None, **kwargs: Any) -> Any:
        """Return the sequence with its data on the out-of-tree device."""
        return self.to(device=_target(kind, device), **kwargs)

    return move


def _move_of_bytes(kind: str) -> Callable[..., Any]:
    def move(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        """Return the storage on the out-of-tree device."""
        target = _target(kind, device)
        return self if self.device == target else self.to(target)

    return move


def _move_of_elements(kind: str, refused: tuple[Any, ...]) -> Callable[..., Any]:
    def move(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        """Return the storage on the out-of-tree device."""
        if self.dtype in refused:
            raise RuntimeError(f"{kind}: expected a dtype that the device supports, got {self.dtype}")
        target = _target(kind, device)
        if self.device == target:
            return self
        return type(self)(wrap_storage=self.untyped().to(target), dtype=self.dtype)

    return move
