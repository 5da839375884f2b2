"""Packages of out-of-tree devices that register themselves by an entry point."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

_GROUP = "flambeau.backends"
_GROUP_OF_PYTORCH = "torch.backends"
_SWITCHES = ("FLAMBEAU_DEVICE_BACKEND_AUTOLOAD", "TORCH_DEVICE_BACKEND_AUTOLOAD")


def autoload(group: str = _GROUP) -> None:
    """Call the entry points of a group, each of which registers a kind of device.

    The environment variables of `_SWITCHES` turn this off with the value 0.

    Args:
        group: the name of the group.
    Raises: RuntimeError for an entry point that raises, from the error that it raised.
    """
    if any(os.environ.get(switch, "1") == "0" for switch in _SWITCHES) or not _is_mentioned(group):
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=group):
        try:
            entry.load()()
        except Exception as error:
            raise RuntimeError(
                f"flambeau: expected a device package that can be loaded, got {entry.name!r} "
                f"({entry.value}), which raised {type(error).__name__}: {error}. {_SWITCHES[0]}=0 turns "
                "loading off"
            ) from error


def autoload_of_pytorch() -> None:
    """Call the entry points of packages for PyTorch, which `import torch` gives flambeau."""
    autoload(_GROUP_OF_PYTORCH)


def _is_mentioned(group: str) -> bool:
    """Whether the metadata of an installed package names the group.

    `importlib.metadata` takes a tenth of the time of `import flambeau`, so it is imported only if this is so.
    """
    header = f"[{group}]".encode()
    for folder in sys.path:
        for metadata in _metadata_of(folder or "."):
            with contextlib.suppress(OSError):
                if header in Path(metadata, "entry_points.txt").read_bytes():
                    return True
    return False


def _metadata_of(folder: str) -> list[str]:
    """Return the folders of package metadata in a folder of `sys.path`, which may be a file or missing."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    return []
