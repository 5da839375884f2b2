"""Extensions in C++ and CUDA: compiled when they are loaded, or by setuptools.

`load` and `load_inline` compile sources with ninja and import the result; `load_operators` generates the
sources from an author's YAML file. `CppExtension`, `CUDAExtension`, `OperatorExtension` and
`BuildExtension` do the same in a ``setup.py``. `include_paths` and `library_paths` serve other build systems.
"""

from __future__ import annotations

from typing import Any

from flambeau.utils.cpp_extension._compilers import (
    CUDA_HOME,
    check_compiler_ok_for_platform,
    get_compiler_abi_compatibility_and_version,
    get_cxx_compiler,
    include_paths,
    is_ninja_available,
    library_paths,
    verify_ninja_availability,
)
from flambeau.utils.cpp_extension._folders import get_default_build_root
from flambeau.utils.cpp_extension._loading import load, load_inline
from flambeau.utils.cpp_extension._operators import load_operators
from flambeau.utils.cpp_extension._setuptools import CppExtension, CUDAExtension, OperatorExtension

__all__ = [
    "CUDA_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "OperatorExtension",
    "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version",
    "get_cxx_compiler",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "load_operators",
    "verify_ninja_availability",
]

ROCM_HOME = CUDNN_HOME = None
IS_WINDOWS = IS_MACOS = False
IS_LINUX = True
IS_HIP_EXTENSION = False


def __getattr__(name: str) -> Any:
    """Import what needs setuptools when it is asked for."""
    if name == "BuildExtension":
        from flambeau.utils.cpp_extension._setuptools import build_extension

        return build_extension()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
