"""Attributes of modules by dotted paths."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.nn import Module, Parameter


def get_attribute(module: Any, path: str) -> Any:
    """Return what is at a path."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def has_attribute(module: Any, path: str) -> bool:
    """Whether there is something at a path."""
    try:
        get_attribute(module, path)
    except AttributeError:
        return False
    return True


def delete_attribute(module: Any, path: str) -> None:
    """Delete what is at a path."""
    owner, _, name = path.rpartition(".")
    delattr(get_attribute(module, owner) if owner else module, name)


def assign_attribute(value: Any, module: Module, path: str) -> None:
    """Put a value at a path, with plain modules on the way; a tensor becomes a buffer."""
    *owners, name = path.split(".")
    for owner in owners:
        following = getattr(module, owner, None)
        if following is None:
            following = Module()
            setattr(module, owner, following)
        module = following
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.__dict__.pop(name, None)
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def copy_attribute(source: Any, target: Module, path: str) -> None:
    """Make what is at a path of one module known at the same path of another.

    Modules on the way are made plain; a tensor becomes a buffer; persistence of buffers is kept.
    """
    *owners, name = path.split(".")
    for owner in owners:
        if not hasattr(source, owner):
            return
        following = getattr(target, owner, None)
        source = getattr(source, owner)
        if following is source:  # the whole module is there already
            return
        if following is None:
            following = Module()
            setattr(target, owner, following)
        target = following
    if not hasattr(source, name):
        return
    value = getattr(source, name)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        hidden = name in getattr(source, "_non_persistent_buffers_set", ())
        target.__dict__.pop(name, None)
        target.register_buffer(name, value, persistent=not hidden)
    else:
        setattr(target, name, value)
