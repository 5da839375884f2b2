"""Setting a module's flags for a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def changed(module: ModuleType, values: dict[str, Any]) -> Iterator[None]:
    """Set flags, and set them back at the end of the block; None leaves a flag as it is."""
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        if value is not None:
            setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
