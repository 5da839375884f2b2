"""Attributes of modules by dotted paths."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.nn import Module, Parameter


def get_attribute(module: Any, path: str) -> Any:
    """Return the attribute at a path."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def has_attribute(module: Any, path: str) -> bool:
    """Whether an attribute exists at a path."""
    try:
        get_attribute(module, path)
    except AttributeError:
        return False
    return True


def delete_attribute(module: Any, path: str) -> None:
    """Delete the attribute at a path."""
    owner, _, name = path.rpartition(".")
    delattr(get_attribute(module, owner) if owner else module, name)


def assign_attribute(value: Any, module: Module, path: str) -> None:
    """Set the attribute at a path; make missing modules on the path, and register a tensor as a buffer."""
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
    """Set an attribute of one module at the same path of another module.

    Missing modules on the path are made as plain Modules. A tensor becomes a buffer; a buffer keeps its
    persistence.
    """
    *owners, name = path.split(".")
    for owner in owners:
        if not hasattr(source, owner):
            return
        following = getattr(target, owner, None)
        source = getattr(source, owner)
        if following is source:  # the target already has this module
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
