"""How the extension was built, and how its work is divided among threads, as text."""

from __future__ import annotations

import flambeau
from flambeau.version import __version__


def show() -> str:
    """Return the build settings as text.

    >>> show().startswith("flambeau")
    True
    """
    lines = [
        f"flambeau {__version__} built with:",
        "  - C++ 20",
        "  - oneDNN, OpenBLAS, OpenMP",
        f"  - loops for: {', '.join(flambeau._C._cpu_capabilities())}",
        f"  - instruction set in use: {flambeau.backends.cpu.get_cpu_capability()}",
    ]
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """Return the number of threads within one operator and the number between operators, as text."""
    return (
        f"ATen/Parallel:\n\tat::get_num_threads() : {flambeau.get_num_threads()}\n"
        f"\tat::get_num_interop_threads() : {flambeau.get_num_interop_threads()}\nParallel backend: OpenMP\n"
    )
