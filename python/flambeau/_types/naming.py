"""The name under which programs see the package: flambeau, or torch where flambeau answers `import torch`."""

from __future__ import annotations

from typing import Any

root = "flambeau"  # flambeau.compat sets it to torch


def short(value: Any) -> str:
    """Return the name of a dtype, layout or memory format without its module."""
    return str(value).rpartition(".")[2]
