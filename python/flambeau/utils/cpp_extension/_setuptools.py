"""Extensions that setuptools builds: descriptions of them, and the command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from flambeau.utils.cpp_extension import _compilers, _ninja

__all__ = ["CUDAExtension", "CppExtension", "build_extension"]


def _extension(name: str, sources: Sequence[str], device: str, kwargs: dict[str, Any]) -> Any:
    import setuptools  # type: ignore[import-untyped]

    libraries = ["flambeau", *(["cudart"] if device == "cuda" else [])]
    own = _compilers.library_paths(device)
    return setuptools.Extension(
        name,
        [str(source) for source in sources],
        include_dirs=[*kwargs.pop("include_dirs", []), *_compilers.include_paths(device)],
        library_dirs=[*kwargs.pop("library_dirs", []), *own],
        libraries=[*kwargs.pop("libraries", []), *libraries],
        runtime_library_dirs=[*kwargs.pop("runtime_library_dirs", []), *own[:1]],
        language=kwargs.pop("language", "c++"),
        **kwargs,
    )


def CppExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """Describe an extension in C++ to setuptools.

    Args:
        name: the name of the module, with its package.
        sources: the files.
        *args: not used.
        **kwargs: arguments of ``setuptools.Extension``; ``extra_compile_args`` may be a dict with the keys
            "cxx" and "nvcc".
    Returns: the description, with flambeau's headers and library.

    Example:
        >>> flambeau.utils.cpp_extension.CppExtension("my_ops", ["my_ops.cpp"]).libraries
        ['flambeau']
    """
    return _extension(name, sources, "cpu", kwargs)


def CUDAExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """Describe an extension in C++ and CUDA to setuptools.

    Args:
        name: the name of the module, with its package.
        sources: the files; those ending in ``.cu`` are compiled by nvcc.
        *args: not used.
        **kwargs: arguments of ``setuptools.Extension``, as for `CppExtension`.
    Returns: the description, with the headers and libraries of flambeau and of the CUDA toolkit.

    Example:
        >>> flambeau.utils.cpp_extension.CUDAExtension("my_ops", ["my_ops.cu"]).libraries
        ['flambeau', 'cudart']
    """
    return _extension(name, sources, "cuda", kwargs)


class _Building:
    """What `BuildExtension` adds to the command of setuptools."""

    compiler: Any
    extensions: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.use_ninja: bool = kwargs.pop("use_ninja", True)
        self.no_python_abi_suffix: bool = kwargs.pop("no_python_abi_suffix", False)
        self._flags: dict[str, list[str]] = {}
        super().__init__(*args, **kwargs)

    @classmethod
    def with_options(cls, **options: Any) -> type[Any]:
        """Return the command with other defaults."""

        class cls_with_options(cls):  # type: ignore[valid-type, misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **{**options, **kwargs})

        return cls_with_options

    def build_extensions(self) -> None:
        """Compile each extension with its own flags."""
        self.compiler.src_extensions += list(_ninja.CUDA_SUFFIXES)
        self.compiler._compile = self._compiler_of(self.compiler._compile)
        for extension in self.extensions:
            given = extension.extra_compile_args
            both = list(given or ())
            self._flags = given if isinstance(given, dict) else {"cxx": both, "nvcc": both}
            name = extension.name.rpartition(".")[2]
            extension.define_macros += [
                ("TORCH_EXTENSION_NAME", name),
                ("TORCH_API_INCLUDE_EXTENSION_H", None),
            ]
            extension.extra_compile_args = []
            self.build_extension(extension)  # type: ignore[attr-defined]

    def get_ext_filename(self, fullname: str) -> str:
        """Return the name of the file, without the interpreter's tag if that was asked for."""
        name: str = super().get_ext_filename(fullname)  # type: ignore[misc]
        parts = name.split(".")
        if not self.no_python_abi_suffix or len(parts) < 3:
            return name
        return ".".join([*parts[:-2], parts[-1]])

    def _compiler_of(self, compile_one: Callable[..., None]) -> Callable[..., None]:
        """Wrap the compiler's step for one file: CUDA files go to nvcc."""

        def compile_file(
            obj: str, src: str, ext: str, cc_args: list[str], extra: list[str], pp: list[str]
        ) -> None:
            if ext in _ninja.CUDA_SUFFIXES:
                words = [*_compilers.NVCC_FLAGS, *self._flags.get("nvcc", [])]
                self.compiler.spawn([_compilers.nvcc(), *pp, "-c", src, "-o", obj, *words])
                return
            words = [*_compilers.CXX_FLAGS, *self._flags.get("cxx", [])]
            compile_one(obj, src, ext, cc_args, [*extra, *words], pp)

        return compile_file


_DOC = """The command of setuptools that builds extensions: ``cmdclass={"build_ext": BuildExtension}``.

Args:
    dist: the distribution.
    use_ninja: no effect; setuptools compiles.
    no_python_abi_suffix: whether files are named ``name.so``, without the tag of the interpreter.

Example:
    >>> flambeau.utils.cpp_extension.BuildExtension.with_options(use_ninja=False).__name__
    'cls_with_options'
"""


@cache
def build_extension() -> type[Any]:
    """Return BuildExtension, whose base is known once setuptools is imported."""
    from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

    return type("BuildExtension", (_Building, build_ext), {"__doc__": _DOC, "__module__": __package__})
