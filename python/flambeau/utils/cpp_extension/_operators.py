"""Extensions that are generated from an author's YAML files."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from flambeau.utils.cpp_extension import _compilers, _folders, _ninja

MODULE = "_operators"
NATIVE = "_native"
# Library -> the module of this process, and the digest of what it was compiled from.
_loaded: dict[str, tuple[str, ModuleType]] = {}


@dataclass(frozen=True)
class Generated:
    """What the generator has written for an extension."""

    library: str
    folder: Path
    sources: tuple[str, ...]
    flags: tuple[str, ...]
    source_flags: tuple[tuple[str, ...], ...]  # of each source

    @property
    def python_files(self) -> tuple[Path, ...]:
        """The module and its stub."""
        return tuple(self.folder / "python" / f"{MODULE}{suffix}" for suffix in (".py", ".pyi"))

    @property
    def headers(self) -> tuple[Path, ...]:
        """All generated C++: most of it is included by a few sources."""
        found = (self.folder / self.library).rglob("*")
        return tuple(sorted(path for path in found if path.suffix in (".h", ".cpp")))


def generate(native: Path, derivatives: Path | None, folder: Path) -> Generated:
    """Run the generator; RuntimeError with its messages for files with mistakes."""
    files = [str(native.absolute()), *([str(derivatives.absolute())] if derivatives else [])]
    command = [sys.executable, "-m", "flambeau.codegen", "--extend", *files, "--output", str(folder)]
    package = str(_compilers.PACKAGE.parent)
    result = subprocess.run(command, capture_output=True, text=True, env=_environment(package))
    if result.returncode:
        raise RuntimeError(f"{native}: the generator found mistakes\n{result.stderr}{result.stdout}")
    return read(folder)


def _environment(package: str) -> dict[str, str]:
    """Let the process find the flambeau that runs this one."""
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": package if not path else os.pathsep.join((package, path))}


def read(folder: Path) -> Generated:
    """Read the list of what is compiled on this processor."""
    table: dict[str, Any] = json.loads((folder / "sources.json").read_text(encoding="utf-8"))
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    rows = [row for row in table["sources"] if not row["isa"] or (row["isa"] != "generic") == is_x86]
    return Generated(
        library=table["library"],
        folder=folder,
        sources=tuple(str((folder / row["path"]).resolve()) for row in rows),
        flags=tuple(table["flags"]),
        source_flags=tuple(tuple(row["flags"]) for row in rows),
    )


def load_operators(
    native: str | Path,
    derivatives: str | Path | None = None,
    build_directory: str | Path | None = None,
    extra_cflags: Sequence[str] | None = None,
    verbose: bool = False,
) -> Any:
    """Generate, compile and import the operators of an author's YAML file.

    Only files that have changed since the last call are generated and compiled again. The operators are also
    in ``flambeau.ops.<name>``, where ``<name>`` is the extension's namespace.

    Args:
        native: the file of the operators, which begins with ``- extension: name``.
        derivatives: the file of the gradients that are given, if there is one.
        build_directory: the folder for the files. Default: one in `get_default_build_root`.
        extra_cflags: flags for the C++ compiler.
        verbose: whether the commands and their output are printed.

    Returns: the module that has the operators as functions.

    Raises:
        RuntimeError: the files have mistakes, the compiler reports an error, ninja is not installed, or this
            process has loaded other operators of the same name.
        FileNotFoundError: a file does not exist.

    Example:
        >>> module = flambeau.utils.cpp_extension.load_operators("my_ops.yaml")  # doctest: +SKIP
    """
    own, gradients = Path(native).absolute(), Path(derivatives).absolute() if derivatives else None
    for path in (own, gradients):
        if path is not None and not path.is_file():
            raise FileNotFoundError(f"load_operators: expected a file, got {path}, which does not exist")
    _compilers.verify_ninja_availability()
    folder = Path(
        build_directory or Path(_folders.get_default_build_root()) / f"operators_{own.stem}"
    ).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with _folders.locked(folder):
        made = generate(own, gradients, folder / "generated")
        target = folder / made.library
        target.mkdir(exist_ok=True)
        plan = plan_of(made, folder, tuple(extra_cflags or ()))
        digest = _digest(plan, made)
        known = _loaded.get(made.library)
        if known is not None and known[0] != digest:
            raise RuntimeError(
                f"load_operators: expected the operators of {made.library} that this process has loaded, "
                f"got others of {own}: start a new process"
            )
        if known is None:
            _ninja.run(plan, verbose)
            _place(made, plan.output, target)
    if known is None:
        known = _loaded[made.library] = (digest, _imported(made.library, target))
    return known[1]


def plan_of(made: Generated, folder: Path, cflags: tuple[str, ...]) -> _ninja.Plan:
    """Return how the library of an extension is compiled."""
    return _ninja.Plan(
        name=NATIVE,
        sources=made.sources,
        cflags=(*made.flags, *cflags),
        cuda_cflags=(),
        ldflags=(),
        includes=(str(made.folder),),
        folder=folder,
        is_module=False,
        is_executable=False,
        source_flags=made.source_flags,
    )


def _digest(plan: _ninja.Plan, made: Generated) -> str:
    digest = hashlib.sha256(_ninja.text_of(plan).encode())
    digest.update((made.folder / "MANIFEST").read_bytes())
    for source in made.sources:
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()


def _place(made: Generated, library: Path, target: Path) -> None:
    """Put the files of the module side by side; a loaded library must not be written to."""
    for file in (library, *made.python_files):
        place = target / file.name
        if not place.exists() or place.read_bytes() != file.read_bytes():
            temporary = place.with_name(f"{place.name}.new")
            shutil.copyfile(file, temporary)
            temporary.replace(place)


def _imported(library: str, folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{library}.{MODULE}", folder / f"{MODULE}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
