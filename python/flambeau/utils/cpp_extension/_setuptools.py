"""Extensions that setuptools builds: descriptions of them, and the command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from flambeau.utils.cpp_extension import _compilers, _ninja, _operators

__all__ = ["CUDAExtension", "CppExtension", "OperatorExtension", "build_extension"]


def _extension(name: str, sources: Sequence[str], device: str, kwargs: dict[str, Any]) -> Any:
    import setuptools  # type: ignore[import-untyped]

    libraries = [*_compilers.LIBRARIES, *(["cudart"] if device == "cuda" else [])]
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
    Returns: the description, with flambeau's headers and libraries.

    Example:
        >>> flambeau.utils.cpp_extension.CppExtension("my_ops", ["my_ops.cpp"]).libraries
        ['flambeau_api', 'flambeau']
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
        ['flambeau_api', 'flambeau', 'cudart']
    """
    return _extension(name, sources, "cuda", kwargs)


def OperatorExtension(
    package: str, native: str | Path, derivatives: str | Path | None = None, **kwargs: Any
) -> Any:
    """Describe the operators of an author's YAML file to setuptools.

    `BuildExtension` generates their code, compiles it, and puts the module ``_operators`` into the package.

    Args:
        package: the package that gets the module, such as ``"signals"``.
        native: the file of the operators, which begins with ``- extension: name``.
        derivatives: the file of the gradients that are given, if there is one.
        **kwargs: arguments of ``setuptools.Extension``.

    Returns: the description, with flambeau's headers and libraries.

    Example:
        >>> made = flambeau.utils.cpp_extension.OperatorExtension("signals", "signals.yaml")
        >>> made.name
        'signals._native'
    """
    extension = _extension(f"{package}.{_operators.NATIVE}", [], "cpu", kwargs)
    extension.operators = (Path(native), None if derivatives is None else Path(derivatives))
    extension.depends += [str(path) for path in extension.operators if path is not None]
    return extension


class _Building:
    """What `BuildExtension` adds to the command of setuptools."""

    compiler: Any
    extensions: list[Any]
    build_temp: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.use_ninja: bool = kwargs.pop("use_ninja", True)
        self.no_python_abi_suffix: bool = kwargs.pop("no_python_abi_suffix", False)
        self._flags: dict[str, list[str]] = {}
        self._source_flags: dict[str, tuple[str, ...]] = {}
        self._generated: dict[str, _operators.Generated] = {}  # by the name of the extension
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
            if files := getattr(extension, "operators", None):
                self._generate(extension, *files)
            self.build_extension(extension)  # type: ignore[attr-defined]
        self._place_modules()

    def _generate(self, extension: Any, native: Path, derivatives: Path | None) -> None:
        """Generate the code of an extension, and let the compiler see each file's flags."""
        folder = Path(self.build_temp).absolute() / f"operators_{extension.name}"
        made = _operators.generate(native, derivatives, folder)
        extension.sources = [*made.sources, *extension.sources]
        extension.depends += [str(path) for path in made.headers]
        extension.include_dirs.insert(0, str(made.folder))
        flags = self._flags.get("cxx", [])
        self._flags = {**self._flags, "cxx": [*made.flags, *flags]}
        self._source_flags = dict(zip(made.sources, made.source_flags, strict=True))
        self._generated[extension.name] = made

    def _place_modules(self) -> None:
        """Put each generated module beside the library that it loads."""
        for name, made in self._generated.items():
            place = Path(self.get_ext_fullpath(name)).parent  # type: ignore[attr-defined]
            for file in made.python_files:
                self.copy_file(str(file), str(place / file.name))  # type: ignore[attr-defined]

    def copy_extensions_to_source(self) -> None:
        """Copy libraries into the source tree, and generated modules with them."""
        super().copy_extensions_to_source()  # type: ignore[misc]
        self._place_modules()

    def get_outputs(self) -> list[str]:
        """Return the files that are built: libraries and generated modules."""
        outputs: list[str] = super().get_outputs()  # type: ignore[misc]
        for name, made in self._generated.items():
            place = Path(self.get_ext_fullpath(name)).parent  # type: ignore[attr-defined]
            outputs += [str(place / file.name) for file in made.python_files]
        return outputs

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
            words = [*_compilers.CXX_FLAGS, *self._flags.get("cxx", []), *self._source_flags.get(src, ())]
            compile_one(obj, src, ext, cc_args, [*extra, *words], pp)

        return compile_file


_DOC = """The command of setuptools that builds extensions: ``cmdclass={"build_ext": BuildExtension}``.

Args:
    *args: the distribution.
    **kwargs: `no_python_abi_suffix`: whether files are named ``name.so``, without the tag of the interpreter.
        `use_ninja` has no effect; setuptools compiles.

Example:
    >>> flambeau.utils.cpp_extension.BuildExtension.with_options(use_ninja=False).__name__
    'cls_with_options'
"""


@cache
def build_extension() -> type[Any]:
    """Return BuildExtension, whose base is known once setuptools is imported."""
    from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

    return type("BuildExtension", (_Building, build_ext), {"__doc__": _DOC, "__module__": __package__})
