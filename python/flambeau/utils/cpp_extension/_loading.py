"""Extensions that are compiled when they are loaded."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flambeau.utils.cpp_extension import _compilers, _ninja, _precompiled
from flambeau.utils.cpp_extension._folders import get_default_build_root, locked

Flags = Sequence[str] | None
# Name -> the hashes that this process has loaded it with. A module cannot be loaded twice under one name.
_loaded: dict[str, list[str]] = {}


def _texts(value: str | Path | Sequence[str | Path]) -> tuple[str, ...]:
    items = [value] if isinstance(value, str | Path) else value
    return tuple(str(Path(item).absolute()) for item in items)


def _version(name: str, plan: _ninja.Plan) -> str:
    """Return the module's name: another one if this process has loaded other contents under the name."""
    digest = hashlib.sha256(_ninja.text_of(plan).encode())
    for source in plan.sources:
        if not Path(source).is_file():
            raise FileNotFoundError(f"load: source file {source!r} of extension {name!r} does not exist")
        digest.update(Path(source).read_bytes())
    known = _loaded.setdefault(name, [])
    if digest.hexdigest() not in known:
        known.append(digest.hexdigest())
    place = known.index(digest.hexdigest())
    return f"{name}_v{place}" if place else name


def load(
    name: str,
    sources: str | Path | Sequence[str | Path],
    extra_cflags: Flags = None,
    extra_cuda_cflags: Flags = None,
    extra_sycl_cflags: Flags = None,
    extra_ldflags: Flags = None,
    extra_include_paths: Flags = None,
    build_directory: str | Path | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Compile an extension and import it.

    Sources, headers and flags that have changed are compiled again; otherwise the module of an earlier
    process is imported. Processes that load one extension at the same time compile it once.

    Args:
        name: the name of the module, which the sources call ``TORCH_EXTENSION_NAME``.
        sources: C++ files, and CUDA files (``.cu``).
        extra_cflags: flags for the C++ compiler.
        extra_cuda_cflags: flags for nvcc.
        extra_sycl_cflags: no effect.
        extra_ldflags: flags for the linker.
        extra_include_paths: folders of headers.
        build_directory: the folder for the files. Default: one in `get_default_build_root`.
        verbose: whether the commands and their output are printed.
        with_cuda: no effect; the suffix of a source decides.
        with_sycl: no effect.
        is_python_module: whether the result is imported; otherwise it is loaded for its operators.
        is_standalone: whether the result is a program.
        keep_intermediates: no effect; they save time in the next build.
    Returns: the module, the path of the library if `is_python_module` is false, or the path of the program.
    Raises: RuntimeError with the compiler's output, or if ninja is not installed; ValueError for a name that
        is not an identifier.

    Example:
        >>> module = flambeau.utils.cpp_extension.load("my_ops", ["my_ops.cpp"])  # doctest: +SKIP
    """
    parts = _parts(sources, extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths)
    parts |= {"is_module": is_python_module, "is_executable": is_standalone}
    return _load(name, build_directory, verbose, parts)


def _parts(
    sources: str | Path | Sequence[str | Path], cflags: Flags, cuda: Flags, linker: Flags, includes: Flags
) -> dict[str, Any]:
    return {
        "sources": _texts(sources),
        "cflags": tuple(cflags or ()),
        "cuda_cflags": tuple(cuda or ()),
        "ldflags": tuple(linker or ()),
        "includes": _texts(includes or ()),
    }


def _load(
    name: str,
    build_directory: str | Path | None,
    verbose: bool,
    parts: dict[str, Any],
    header: str | None = None,
) -> Any:
    """Build an extension from the parts of its plan, with a compiled header if one is named."""
    if not re.fullmatch(r"\w+", name):
        raise ValueError(f"load: expected a name that is an identifier, got {name!r}")
    _compilers.verify_ninja_availability()
    folder = Path(build_directory or Path(get_default_build_root()) / name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    plan = _ninja.Plan(name, folder=folder, **parts)
    if header is not None:
        plan = _precompiled.with_header(plan, header, verbose)
    with locked(folder):
        plan = replace(plan, name=_version(name, plan))
        _ninja.run(plan, verbose)
        return str(plan.output) if plan.is_executable else _import(plan)


def _import(plan: _ninja.Plan) -> Any:
    path = str(plan.output)
    if not plan.is_module:
        from flambeau import ops

        ops.load_library(path)
        return path
    if plan.name in sys.modules and getattr(sys.modules[plan.name], "__file__", None) == path:
        return sys.modules[plan.name]
    loader = importlib.machinery.ExtensionFileLoader(plan.name, path)
    spec = importlib.util.spec_from_file_location(plan.name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[plan.name] = module
    return module


_CUDA_HEADERS = ("#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>")


def _pieces(sources: str | Sequence[str]) -> list[str]:
    return [sources] if isinstance(sources, str) else list(sources)


def _written(folder: Path, texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Write sources, except those that are there already: their time decides whether they are compiled."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with locked(folder):
        for name, parts in texts.items():
            file, text = folder / name, "\n".join(parts) + "\n"
            if not parts:
                continue
            if not file.exists() or file.read_text() != text:
                file.write_text(text)
            files.append(str(file))
    return files


def _module_of(functions: str | Sequence[str] | Mapping[str, str] | None) -> list[str]:
    if functions is None:
        return []
    names = [functions] if isinstance(functions, str) else functions
    documented = names if isinstance(names, Mapping) else dict.fromkeys(names, "")
    lines = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
    for name, text in documented.items():
        lines.append(f'm.def("{name}", torch::wrap_pybind_function({name}), R"_doc({text or name})_doc");')
    return [*lines, "}"]


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Flags = None,
    extra_cuda_cflags: Flags = None,
    extra_sycl_cflags: Flags = None,
    extra_ldflags: Flags = None,
    extra_include_paths: Flags = None,
    build_directory: str | Path | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> Any:
    """Compile an extension that is given as text, and import it.

    Args:
        name: the name of the module.
        cpp_sources: C++ code, or several pieces of it; ``torch/extension.h`` is included before it.
        cuda_sources: CUDA code, or several pieces of it.
        sycl_sources: must be None.
        functions: the functions that the module has: a name, names, or a dict of names and docstrings. None
            means that the code has a ``PYBIND11_MODULE`` of its own.
        extra_cflags: as in `load`.
        extra_cuda_cflags: as in `load`.
        extra_sycl_cflags: no effect.
        extra_ldflags: as in `load`.
        extra_include_paths: as in `load`.
        build_directory: as in `load`.
        verbose: as in `load`.
        with_cuda: no effect.
        with_sycl: no effect.
        is_python_module: as in `load`.
        with_pytorch_error_handling: no effect; errors of C++ become Python's in every case.
        keep_intermediates: no effect.
        use_pch: whether g++ compiles the header before the code once for all extensions with equal flags. The
            compiled header is kept in `get_default_build_root`; other compilers read the header itself.
        no_implicit_headers: whether no header is included before the code.
    Returns: what `load` returns.
    Raises: RuntimeError with the compiler's output, and for SYCL sources.

    Example:
        >>> code = "at::Tensor twice(const at::Tensor& x) { return x * 2; }"
        >>> load_inline = flambeau.utils.cpp_extension.load_inline
        >>> module = load_inline("twice", code, functions="twice")  # doctest: +SKIP
    """
    if sycl_sources:
        raise RuntimeError("load_inline: expected no SYCL sources, got some, which flambeau does not compile")
    header = "torch/extension.h" if is_python_module or no_implicit_headers else "torch/all.h"
    cpp, cuda = _pieces(cpp_sources) + _module_of(functions), _pieces(cuda_sources or ())
    if not no_implicit_headers:
        cpp.insert(0, f"#include <{header}>")
        cuda[:0] = _CUDA_HEADERS if cuda else ()
    folder = Path(build_directory or Path(get_default_build_root()) / name).absolute()
    files = _written(folder, {"main.cpp": cpp, "cuda.cu": cuda})
    parts = _parts(files, extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths)
    parts |= {"is_module": is_python_module, "is_executable": False}
    return _load(name, folder, verbose, parts, header if use_pch else None)
