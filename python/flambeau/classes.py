"""Custom classes of TorchScript, which libraries in C++ register: there are none."""

from __future__ import annotations

from typing import Any, NoReturn

loaded_libraries: frozenset[str] = frozenset()


class _Namespace:
    """A library's classes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(
            f"classes: class '{self.name}.{name}' does not exist; flambeau has no classes of TorchScript"
        )


def load_library(path: Any) -> NoReturn:
    """Refuse to load a library. Raises: OSError: libraries built for PyTorch cannot be loaded."""
    raise OSError(f"classes.load_library: {path} is built for PyTorch's C++ library, which is not here")


def __getattr__(name: str) -> _Namespace:
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return _Namespace(name)
