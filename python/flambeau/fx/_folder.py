"""A GraphModule as a package of Python files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau import Tensor, nn
from flambeau.fx._names import root_name, with_root
from flambeau.nn import Module, Parameter
from flambeau.serialization import save

if TYPE_CHECKING:
    from flambeau.fx.graph_module import GraphModule

_FROM_TEXT = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def write_folder(module: GraphModule, folder: str | os.PathLike[str], class_name: str) -> None:
    """Write ``module.py``, ``__init__.py``, the state, and pickles of modules that code cannot construct."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    save(module.state_dict(), place / "state_dict.pt")
    made = module.graph.python_code("self")
    root = root_name()
    lines = [
        _imports(made.globals),
        "from pathlib import Path",
        f"from {root}.nn import *",
        "",
        "_HERE = Path(__file__).parent",
        "",
    ]
    lines += [
        f"class {class_name}({with_root('flambeau.nn.Module')}):",
        "    def __init__(self):",
        "        super().__init__()",
    ]
    lines += [f"        {line}" for line in _attributes(module, place)]
    lines += [f"        self.load_state_dict({root}.load(_HERE / 'state_dict.pt'))", ""]
    lines += [f"    {line}".rstrip() for line in made.src.strip("\n ").split("\n")]
    (place / "module.py").write_text("\n".join(lines) + "\n")
    (place / "__init__.py").write_text("from .module import *\n")


def _imports(names: dict[str, Any]) -> str:
    """Return the statements that import the names in the code."""
    root = root_name()
    fixed = {
        "inf": "from math import inf",
        "nan": "from math import nan",
        "NoneType": "NoneType = type(None)",
        "torch": f"import {root} as torch" if root != "torch" else "import torch",
        "flambeau": "import flambeau",
        "device": f"from {root} import device",
        "fx_pytree": f"import {root}.fx._pytree as fx_pytree",
        "pytree": f"import {root}.utils._pytree as pytree",
    }
    lines = [f"import {root}.fx", *fixed.values()]
    for name, obj in names.items():
        if name in fixed or getattr(obj, "__module__", None) in (None, "builtins"):
            continue
        qualified = getattr(obj, "__qualname__", name)
        module = {"_operator": "operator"}.get(obj.__module__, obj.__module__)
        head, _, rest = qualified.partition(".")
        lines.append(f"from {module} import {head} as {name}" if not rest else f"from {module} import {head}")
        if rest:
            lines.append(f"{name} = {qualified}")
    return "\n".join(lines)


def _attributes(module: GraphModule, place: Path) -> list[str]:
    """Return the statements that make the module's attributes; their values are in the state."""
    lines = []
    for name, child in module._modules.items():
        if child is not None:
            lines.append(f"setattr(self, {name!r}, {_maker(name, child, place)})")
    for name, value in module._parameters.items():
        if value is not None:
            lines.append(f"self.{name} = {with_root('flambeau.nn.Parameter')}({_empty(value)})")
    for name, value in module._buffers.items():
        if value is not None:
            lines.append(f"self.register_buffer({name!r}, {_empty(value)})")
    return lines


def _maker(name: str, child: Module, place: Path) -> str:
    if type(child) in _FROM_TEXT and "\n" not in repr(child):
        return repr(child)
    save(child, place / f"{name}.pt")
    return f"{root_name()}.load(_HERE / '{name}.pt', weights_only=False)"


def _empty(value: Tensor | Parameter) -> str:
    return f"{root_name()}.empty({list(value.shape)}, dtype={with_root(repr(value.dtype))})"
