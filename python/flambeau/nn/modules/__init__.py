"""The layers, one file per kind; each of them under its own name here as well."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Files of PyTorch whose layers lie in files of other names here.
_FILES = {
    "batchnorm": "normalization",
    "channelshuffle": "rearrange",
    "container": "containers",
    "distance": "rearrange",
    "flatten": "linear",
    "fold": "rearrange",
    "instancenorm": "normalization",
    "pixelshuffle": "rearrange",
    "sparse": "linear",
    "upsampling": "rearrange",
}


def __getattr__(name: str) -> Any:
    if name in _FILES:
        return import_module(f"flambeau.nn.modules.{_FILES[name]}")
    if name == "utils":
        return import_module("flambeau.nn.modules.utils")
    layers = import_module("flambeau.nn")
    if not name.startswith("_") and isinstance(found := getattr(layers, name, None), type):
        return found
    raise AttributeError(f"module 'flambeau.nn.modules' has no attribute '{name}'")
