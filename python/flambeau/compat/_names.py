"""While flambeau answers `import torch`, names that programs read begin with ``torch.``.

Programs print dtypes, compare `type(x).__module__`, and pickle classes and functions by reference.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import flambeau
from flambeau import _C
from flambeau._loading import lazy
from flambeau._types import naming
from flambeau.torch_version import TorchVersion
from flambeau.version import torch_version

_FUNCTIONS = (FunctionType, BuiltinFunctionType)
# Types of the extension that PyTorch has at the top level.
_TOP = (_C.dtype, _C.device, _C.layout, _C.memory_format, flambeau.finfo, flambeau.iinfo)


def torch_name(name: str) -> str:
    """Return PyTorch's name of a module of flambeau."""
    return "torch" + name.removeprefix("flambeau")


def _rename_object(value: Any) -> None:
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or not (module == "flambeau" or module.startswith("flambeau.")):
        return
    try:
        value.__module__ = torch_name(module)
    except (AttributeError, TypeError):
        return  # built in C, where the name cannot be set
    if isinstance(value, type):
        for member in list(vars(value).values()):
            if isinstance(member, FunctionType):
                _rename_object(member)


def rename(name: str, module: ModuleType) -> None:
    """Name a module, its classes and its functions under ``torch``, and explain its missing names.

    Args:
        name: under which flambeau knows the module.
        module: has been executed.
    """
    sys.modules[torch_name(name)] = module
    for value in list(vars(module).values()):
        if isinstance(value, (type, *_FUNCTIONS)):
            _rename_object(value)
    module.__name__ = torch_name(name)

    def __getattr__(missing: str) -> Any:
        lazy.refuse(module, missing)

    vars(module).setdefault("__getattr__", __getattr__)


def _name_values() -> None:
    """Make dtypes, layouts and memory formats print as ``torch.float32``."""

    def __repr__(self: Any) -> str:
        return names[self]

    kinds = (_C.dtype, _C.layout, _C.memory_format)
    names = {v: f"torch.{naming.short(v)}" for v in vars(_C).values() if isinstance(v, kinds)}
    for kind in kinds:
        kind.__repr__ = __repr__  # type: ignore[method-assign]


def install() -> None:
    """Rename what is loaded; the finder renames what is loaded later."""
    from flambeau import version

    _name_values()
    naming.root = "torch"
    flambeau.__version__ = version.__version__ = TorchVersion(torch_version)
    for name, module in list(sys.modules.items()):
        if (name == "flambeau" or name.startswith("flambeau.")) and not name.startswith("flambeau.compat"):
            rename(name, module)
    for kind in _TOP:
        kind.__module__ = "torch"
