"""Scripting of modules and their submodules."""

from __future__ import annotations

from typing import Any

from flambeau.jit._script import scripted_module


def create_script_module(nn_module: Any, stubs_fn: Any = None, share_types: bool = True, **_: Any) -> Any:
    """Return the scripted module of a module."""
    return scripted_module(nn_module, {})


def wrap_cpp_module(cpp_module: Any) -> Any:
    """Return a module unchanged: all modules are Python objects."""
    return cpp_module
