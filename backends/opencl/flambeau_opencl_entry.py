"""The entry point ``flambeau.backends``: OpenCL devices are there as soon as flambeau is imported."""

from __future__ import annotations

import contextlib


def register() -> None:
    """Import `flambeau_opencl`, which registers the device kind; nothing where OpenCL finds no device."""
    with contextlib.suppress(ImportError):
        import flambeau_opencl  # noqa: F401
