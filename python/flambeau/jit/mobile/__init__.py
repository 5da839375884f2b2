"""Modules for small devices: files of `jit.save`, read by `jit.load`."""

from __future__ import annotations

from typing import Any

from flambeau.jit._serialization import load


def _load_for_lite_interpreter(f: Any, map_location: Any = None) -> Any:
    return load(f, map_location)


def _export_operator_list(module: Any) -> set[str]:
    from flambeau.jit._serialization import export_opnames

    return set(export_opnames(module))
