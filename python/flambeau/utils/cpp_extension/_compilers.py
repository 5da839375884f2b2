"""Compilers, their flags, and where headers and libraries lie."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
# Executables must not copy the library's tables, so all code is position-independent (ADR 8).
CXX_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fno-plt")
# The C++ interface, over the runtime that `import flambeau` loads.
LIBRARIES = ("flambeau_api", "flambeau")
NVCC_FLAGS = ("-std=c++20", "--expt-relaxed-constexpr", "--compiler-options", "-fPIC")
MINIMUM_GCC = (11, 0, 0)


def _find_cuda_home() -> str | None:
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if named:
        return named
    nvcc = shutil.which("nvcc")
    if nvcc:
        return str(Path(nvcc).resolve().parents[1])
    return "/usr/local/cuda" if Path("/usr/local/cuda/bin/nvcc").exists() else None


#: Folder of the CUDA toolkit: ``CUDA_HOME``, ``CUDA_PATH``, or that of ``nvcc``; None without one.
CUDA_HOME = _find_cuda_home()


def nvcc() -> str:
    """Return the CUDA compiler; OSError without a toolkit."""
    if CUDA_HOME is None:
        raise OSError(
            "nvcc: expected a CUDA toolkit, got none: CUDA_HOME environment variable is not set, and no "
            "folder of PATH has nvcc"
        )
    return str(Path(CUDA_HOME) / "bin" / "nvcc")


def get_cxx_compiler() -> str:
    """Return the C++ compiler: the environment's ``CXX``, or ``g++``.

    Returns: the command.

    Example:
        >>> import os
        >>> os.environ["CXX"] = "g++"
        >>> flambeau.utils.cpp_extension.get_cxx_compiler()
        'g++'
    """
    return os.environ.get("CXX", "g++")


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Return the folders of the headers of extensions.

    Args:
        device_type: "cuda" adds the toolkit's headers.
        torch_include_dirs: whether the list contains flambeau's own folders.
    Returns: the folders.

    Example:
        >>> from pathlib import Path
        >>> [Path(p).name for p in flambeau.utils.cpp_extension.include_paths()]
        ['include', 'flambeau']
    """
    paths = [PACKAGE / "include", PACKAGE / "include" / "flambeau"] if torch_include_dirs else []
    if device_type == "cuda" and CUDA_HOME is not None:
        paths.append(Path(CUDA_HOME) / "include")
    return [str(path) for path in paths]


def library_paths(
    device_type: str = "cpu", torch_include_dirs: bool = True, cross_target_platform: str | None = None
) -> list[str]:
    """Return the folders of the libraries that extensions link against.

    Args:
        device_type: "cuda" adds the toolkit's libraries.
        torch_include_dirs: whether the list contains flambeau's own folder.
        cross_target_platform: no effect.
    Returns: the folders.

    Example:
        >>> from pathlib import Path
        >>> [Path(p).name for p in flambeau.utils.cpp_extension.library_paths()]
        ['lib']
    """
    paths = [PACKAGE / "lib"] if torch_include_dirs else []
    if device_type == "cuda" and CUDA_HOME is not None:
        paths.append(Path(CUDA_HOME) / "lib64")
    return [str(path) for path in paths]


def python_include() -> str:
    """Return the folder of Python's headers."""
    return sysconfig.get_path("include")


def ninja() -> str | None:
    """Return the ninja of the path or of this environment."""
    beside = Path(sys.executable).parent / "ninja"
    return shutil.which("ninja") or (str(beside) if beside.exists() else None)


def is_ninja_available() -> bool:
    """Tell whether ninja can be run.

    Returns: True if ``ninja --version`` succeeds.

    Example:
        >>> flambeau.utils.cpp_extension.is_ninja_available() in (True, False)
        True
    """
    found = ninja()
    return found is not None and subprocess.run([found, "--version"], capture_output=True).returncode == 0


def verify_ninja_availability() -> None:
    """Check that ninja can be run.

    Returns: None.
    Raises: RuntimeError, which names the way to install ninja.

    Example:
        >>> flambeau.utils.cpp_extension.verify_ninja_availability()  # doctest: +SKIP
    """
    if not is_ninja_available():
        raise RuntimeError(
            "verify_ninja_availability: Ninja is required to load C++ extensions, and was not found; "
            "pip install ninja"
        )


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Tell whether a command is a compiler for this platform: g++, gcc, clang++ or c++.

    Args:
        compiler: the command.
    Returns: a bool; False if there is no such command.

    Example:
        >>> flambeau.utils.cpp_extension.check_compiler_ok_for_platform("no-such-compiler")
        False
    """
    if shutil.which(compiler) is None:
        return False
    result = subprocess.run([compiler, "-v"], capture_output=True, text=True, errors="replace")
    return re.search(r"^(COLLECT_GCC=|.*(gcc|clang) version)", result.stderr, re.M) is not None


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, tuple[int, ...]]:
    """Tell whether a compiler can compile extensions, and its version.

    Args:
        compiler: the command.
    Returns: False and (0, 0, 0) if it is not a compiler; False and the version if it is too old.

    Example:
        >>> flambeau.utils.cpp_extension.get_compiler_abi_compatibility_and_version("no-such-compiler")
        (False, (0, 0, 0))
    """
    if not check_compiler_ok_for_platform(compiler):
        return False, (0, 0, 0)
    text = subprocess.run(
        [compiler, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True
    ).stdout
    numbers = tuple(int(part) for part in re.findall(r"\d+", text)[:3])
    version = (*numbers, 0, 0, 0)[:3]
    return version >= MINIMUM_GCC, version
