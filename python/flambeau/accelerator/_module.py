"""Calls of functions in the module of the accelerator's kind."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._state.device_modules import _module_named, accelerator_kind


def require_kind(name: str) -> str:
    """Return the kind of the accelerator; RuntimeError, beginning with the function's name, without one."""
    kind = accelerator_kind()
    if kind is None:
        raise RuntimeError(f"accelerator.{name}: expected an accelerator, got none")
    return kind


def call(name: str, *arguments: Any) -> Any:
    """Call the function `name` of the kind's module; RuntimeError if the module has none."""
    kind = require_kind(name)
    function = getattr(_module_named(kind), name, None)
    if function is None:
        raise RuntimeError(
            f"accelerator.{name}: expected the module flambeau.{kind} to define {name}, got none"
        )
    return function(*arguments)


def index_of(name: str, device: Any, current: bool = True) -> int:
    """Return the index that a device, a name or an index means.

    Args:
        name: the function that was called, for messages.
        device: the argument.
        current: whether None, and a device without an index, mean the current device.
    Raises: RuntimeError without an accelerator; ValueError for other kinds and for a missing index;
        TypeError for values that are not devices.
    """
    kind = require_kind(name)
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if device is not None and not isinstance(device, str | _C.device):
        raise TypeError(f"accelerator.{name}: expected a device, its name or its index, got {device!r}")
    named = None if device is None else _C.device(device)
    if named is not None and named.type != kind:
        raise ValueError(
            f"accelerator.{name}: expected a device of the current accelerator {kind}, got {named}"
        )
    if named is not None and named.index is not None:
        return int(named.index)
    if not current:
        raise ValueError(f"accelerator.{name}: expected an index or a device with an index, got {device!r}")
    return int(call("current_device"))
