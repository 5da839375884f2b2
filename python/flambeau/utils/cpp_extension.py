"""Extensions in C++ against PyTorch's library: flambeau has no headers for them."""

from __future__ import annotations

import shutil
from typing import Any, NoReturn

__all__ = [
    "CUDA_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "include_paths",
    "is_ninja_available",
    "load",
    "load_inline",
    "verify_ninja_availability",
]

CUDA_HOME = ROCM_HOME = CUDNN_HOME = None
IS_WINDOWS = IS_MACOS = False
IS_LINUX = True


def _refuse(name: str, what: str) -> NoReturn:
    raise RuntimeError(
        f"{name}: {what} is written against PyTorch's C++ library, which flambeau does not have"
    )


def load(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to compile an extension."""
    _refuse("cpp_extension.load", f"the extension '{name}'")


def load_inline(name: str, cpp_sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to compile an extension."""
    _refuse("cpp_extension.load_inline", f"the extension '{name}'")


def CppExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to describe an extension to setuptools."""
    _refuse("CppExtension", f"the extension '{name}'")


def CUDAExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to describe an extension to setuptools."""
    _refuse("CUDAExtension", f"the extension '{name}'")


class BuildExtension:
    """The command of setuptools that would compile extensions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("BuildExtension", "an extension")

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """Return the class."""
        return cls


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Return an empty list: there are no headers."""
    return []


def library_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Return an empty list: there are no libraries to link."""
    return []


def is_ninja_available() -> bool:
    """Whether ninja is on the PATH."""
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """Raise RuntimeError unless ninja is on the PATH."""
    if not is_ninja_available():
        raise RuntimeError("verify_ninja_availability: Ninja was not found; pip install ninja")
