"""The Python modules of device kinds: `flambeau.cpu`, and those that packages of other devices register."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from flambeau import _C


def _module_named(kind: str) -> Any:
    """Return the module `flambeau.<kind>`, imported or registered; None if there is none."""
    package = sys.modules["flambeau"]
    found = vars(package).get(kind) or sys.modules.get(f"flambeau.{kind}")
    if found is None and kind in ("cpu", "cuda", "mps", "mtia", "xpu"):
        found = import_module(f"flambeau.{kind}")
    return found


def accelerator_kind() -> str | None:
    """Return the kind of device that a package has registered with a module; None if there is none."""
    kind: str = _C._get_privateuse1_backend_name()
    return kind if _module_named(kind) is not None else None


def get_device_module(device: _C.device | str | None = None) -> Any:
    """Return the module of a device kind.

    Args:
        device: a device or its name. Default: the accelerator, or the CPU where there is none.
    Returns: the module, such as `flambeau.cpu`.
    Raises: RuntimeError for values that are not devices, and for kinds without a module.
    See also: utils.rename_privateuse1_backend

    Example:
        >>> flambeau.get_device_module("cpu") is flambeau.cpu
        True
    """
    if device is None:
        device = accelerator_kind() or "cpu"
    if not isinstance(device, _C.device | str):
        raise RuntimeError(f"get_device_module: expected a device, a str or None, got {device!r}")
    kind = _C.device(device).type
    module = _module_named(kind)
    if module is None:
        raise RuntimeError(
            f"get_device_module: expected a device with a registered module 'flambeau.{kind}', got {kind!r}"
        )
    return module


def _register_device_module(device_type: str, module: Any) -> None:
    """Make `module` the module of a device kind: `flambeau.<kind>`, also for `import`.

    Args:
        device_type: the name of the kind, such as the one that `rename_privateuse1_backend` set.
        module: the module.
    Raises: RuntimeError for kinds that do not exist or have a module already.
    """
    kind = _C.device(device_type).type
    registered = _module_named(kind)
    if registered is not None:
        raise RuntimeError(
            f"_register_device_module: expected a device kind without a module, got {kind!r}, "
            f"which has {registered!r}"
        )
    setattr(sys.modules["flambeau"], kind, module)
    sys.modules[f"flambeau.{kind}"] = module
    if kind == _C._get_privateuse1_backend_name():
        _C._note_privateuse1_module()
