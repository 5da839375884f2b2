"""The layers, one file per kind; each of them under its own name here as well."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flambeau._loading.lazy import attributes

_attribute, __dir__ = attributes(__name__)


def __getattr__(name: str) -> Any:
    layers = import_module("flambeau.nn")
    if not name.startswith("_") and isinstance(found := vars(layers).get(name), type):
        return found
    return _attribute(name)
