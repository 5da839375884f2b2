"""The switch of `flambeau.jit`: PYTORCH_JIT=0 in the environment switches it off."""

from __future__ import annotations

import os
from typing import Any


class EnabledProxy:
    """The switch; while it is off, `script` and `trace` return their arguments unchanged."""

    def __init__(self) -> None:
        self.enabled = os.environ.get("PYTORCH_JIT", "1") not in ("0", "False", "false", "")

    def __bool__(self) -> bool:
        return self.enabled


_enabled = EnabledProxy()
_python_cu: Any = None
_script_classes: dict[Any, Any] = {}


def enable() -> None:
    """Switch `flambeau.jit` on."""
    _enabled.enabled = True


def disable() -> None:
    """Switch `flambeau.jit` off."""
    _enabled.enabled = False


def _add_script_class(python_class: Any, script_class: Any) -> None:
    _script_classes[python_class] = script_class


def _get_script_class(python_class: Any) -> Any:
    return _script_classes.get(python_class)


def _clear_class_state() -> None:
    _script_classes.clear()
