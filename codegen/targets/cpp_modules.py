"""Layers of torch::nn: codegen/cpp_modules.yaml -> api/modules.h."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from codegen.model import Model
from codegen.writing.module_spelling import OptionDecl, Spelled
from codegen.writing.render import File, render

_TABLE = Path(__file__).parents[1] / "cpp_modules.yaml"
_KEYS = frozenset("options parameters buffers optional init counts ranks inputs forward functional".split())


@cache
def table() -> dict[str, dict[str, Any]]:
    """Return class -> entry."""
    import yaml

    rows: dict[str, dict[str, Any]] = yaml.safe_load(_TABLE.read_text())
    return rows


@dataclass(frozen=True, slots=True)
class TensorDecl:
    """One parameter or buffer."""

    name: str
    kind: str  # parameter or buffer
    made: str  # the tensor before it is filled
    fill: str


@dataclass(frozen=True, slots=True)
class ModuleDecl:
    """All that the template prints about one layer."""

    name: str
    options: tuple[OptionDecl, ...]
    declared: str  # parameters of the options' constructor
    arguments: str  # the same without defaults
    passed: str  # their names
    initialisers: str
    tensors: tuple[TensorDecl, ...]
    fills: tuple[str, ...]
    ranks: str
    counter: str
    inputs: str
    call: str
    functional: str
    default_options: str

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> ModuleDecl:
        """Take every decision about one layer."""
        if unknown := entry.keys() - _KEYS:
            raise ValueError(
                f"cpp_modules.yaml: {name}: expected keys {sorted(_KEYS)}, got {sorted(unknown)}"
            )
        options = tuple(OptionDecl.of(*item) for item in entry.get("options", {}).items())
        required = any(option.required for option in options)
        positional = [option for option in options if option.positional]
        inputs = entry.get("inputs", ["input"])
        names = {option.name: option.passed for option in options}
        tensors = _tensors(Spelled(name, names), entry)
        known = {**names, **{t.name: t.name for t in tensors}, **{x: x for x in inputs}}
        call = Spelled(name, {**known, "training": "is_training()", "none": "{}"}).call(entry["forward"])
        functional = entry.get("functional", "")
        return cls(
            name=name,
            options=options,
            declared=", ".join(f"{o.type} {o.name}{o.initial}" for o in positional),
            arguments=", ".join(f"{o.type} {o.name}" for o in positional),
            passed=", ".join(o.name for o in positional),
            initialisers=", ".join(f"{o.name}_({o.name})" for o in positional),
            tensors=tensors,
            fills=tuple(t.fill for t in _in_order(tensors, entry)),
            ranks=", ".join(map(str, entry.get("ranks", ()))),
            counter=entry.get("counts", ""),
            inputs=", ".join(f"const Tensor& {x}" for x in inputs),
            call=call,
            functional=functional,
            default_options="" if required else " = {}",
        )


def _tensors(spelled: Spelled, entry: Mapping[str, Any]) -> tuple[TensorDecl, ...]:
    optional, init = entry.get("optional", {}), entry.get("init", {})
    found = []
    for kind in ("parameter", "buffer"):
        for name, shape in entry.get(f"{kind}s", {}).items():
            fill = init[name]
            dtype = ", kLong" if fill == "counter" else ""
            made = f"api::empty(extent_of({spelled.list(shape)}){dtype})"
            if name in optional:
                made = f"{spelled.text(optional[name])} ? {made} : Tensor()"
            more = ", weight" if fill == "fan_in" else ""
            found.append(TensorDecl(name, kind, made, f"fill::{fill}({name}{more})"))
    return tuple(found)


def _in_order(tensors: tuple[TensorDecl, ...], entry: Mapping[str, Any]) -> list[TensorDecl]:
    order = list(entry.get("init", {}))
    return sorted(tensors, key=lambda tensor: order.index(tensor.name))


def emit(_: Model) -> Iterator[File]:
    """Yield one header with all layers, in the order of the table."""
    modules = tuple(ModuleDecl.of(name, entry) for name, entry in table().items())
    functions = tuple(module for module in modules if module.functional)
    yield render("cpp_modules.h.j2", "api/modules.h", modules=modules, functions=functions)
