"""Folders in which extensions are built, and their locks."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def get_default_build_root() -> str:
    """Return the folder where extensions are built.

    Returns: ``TORCH_EXTENSIONS_DIR`` of the environment, or a folder in the user's cache.

    Example:
        >>> flambeau.utils.cpp_extension.get_default_build_root() != ""
        True
    """
    named = os.environ.get("TORCH_EXTENSIONS_DIR")
    if named:
        return named
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return str(cache / "flambeau_extensions" / f"py{sys.version_info.major}{sys.version_info.minor}")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time build in a folder. The system takes the lock from processes that end."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
