"""Tools around training."""

from __future__ import annotations

from pathlib import Path

from flambeau._loading.lazy import attributes

#: Folder that CMake searches for ``find_package(Torch)`` and ``find_package(flambeau)``: the value of
#: ``CMAKE_PREFIX_PATH``.
cmake_prefix_path = str(Path(__file__).resolve().parents[1] / "share" / "cmake")

__getattr__, __dir__ = attributes(__name__, {"swap_tensors": "flambeau.utils._swap"})
