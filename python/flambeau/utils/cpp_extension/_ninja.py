"""The ninja file of one extension, and running it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flambeau import _C, version
from flambeau.utils.cpp_extension import _compilers

CUDA_SUFFIXES = (".cu", ".cuh")


@dataclass(frozen=True)
class Plan:
    """What is compiled into one file, and how."""

    name: str
    sources: tuple[str, ...]
    cflags: tuple[str, ...]
    cuda_cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    includes: tuple[str, ...]
    folder: Path
    is_module: bool  # a Python module
    is_executable: bool
    source_flags: tuple[
        tuple[str, ...], ...
    ] = ()  # additional flags of each source; empty if no source has any
    precompiled: tuple[Path, str] | None = None  # a folder, and the header that is there in compiled form

    @property
    def with_cuda(self) -> bool:
        """Whether a source is compiled by nvcc."""
        return any(source.endswith(CUDA_SUFFIXES) for source in self.sources)

    @property
    def output(self) -> Path:
        """The file that is linked."""
        return self.folder / (self.name if self.is_executable else f"{self.name}.so")


def _words(words: Sequence[str]) -> str:
    """Quote words for the shell, and for ninja."""
    return " ".join(shlex.quote(word) for word in words).replace("$", "$$")


def _flags(words: Sequence[str]) -> str:
    """Flags as the caller wrote them; one string may hold several."""
    return " ".join(words).replace("$", "$$")


def _path(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _common(plan: Plan) -> list[str]:
    # Another version of flambeau makes another command, so that ninja compiles again.
    built_for = f"-DFLAMBEAU_BUILT_FOR={version.__version__}-{_C._spec_hash}"
    defines = ["-DTORCH_API_INCLUDE_EXTENSION_H", built_for]
    folders = [*plan.includes, *_compilers.include_paths("cuda" if plan.with_cuda else "cpu")]
    return [
        *defines,
        *(f"-I{folder}" for folder in plan.includes),
        *(word for folder in folders[len(plan.includes) :] for word in ("-isystem", folder)),
        "-isystem",
        _compilers.python_include(),
    ]


def compile_flags(plan: Plan) -> str:
    """Return the flags of all C++ sources, apart from the name of the extension."""
    return f"{_words(_common(plan))} {_words(_compilers.CXX_FLAGS)} {_flags(plan.cflags)}"


def compiled_form(folder: Path, header: str) -> Path:
    """Return the file that g++ reads in the place of a header if the folder is searched first."""
    return folder / f"{header}.gch"


def _link(plan: Plan) -> str:
    words = [] if plan.is_executable else ["-shared"]
    for folder in _compilers.library_paths("cuda" if plan.with_cuda else "cpu"):
        words += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    words += [*(f"-l{name}" for name in _compilers.LIBRARIES), *(["-lcudart"] if plan.with_cuda else [])]
    return f"{_words(words)} {_flags(plan.ldflags)}"


def text_of(plan: Plan) -> str:
    """Return the content of build.ninja."""
    name = f"-DTORCH_EXTENSION_NAME={plan.name}"
    first = _words([f"-I{plan.precompiled[0]}"]) + " " if plan.precompiled else ""
    lines = [
        "ninja_required_version = 1.3",
        f"cxx = {_flags([_compilers.get_cxx_compiler()])}",
        f"cflags = {name} {first}{compile_flags(plan)}",
        f"ldflags = {_link(plan)}",
        "rule compile",
        "  command = $cxx -MD -MF $out.d $cflags -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "rule link",
        "  command = $cxx $in $ldflags -o $out",
    ]
    if plan.with_cuda:
        lines += [
            f"nvcc = {_words([_compilers.nvcc()])}",
            f"cuda_cflags = {name} {_words(_common(plan))} {_words(_compilers.NVCC_FLAGS)} "
            f"{_flags(plan.cuda_cflags)}",
            "rule cuda_compile",
            "  command = $nvcc --generate-dependencies-with-compile --dependency-output $out.d $cuda_cflags "
            "-c $in -o $out",
            "  depfile = $out.d",
            "  deps = gcc",
        ]
    objects = []
    header = f" | {_path(str(compiled_form(*plan.precompiled)))}" if plan.precompiled else ""
    for number, source in enumerate(plan.sources):
        is_cuda = source.endswith(CUDA_SUFFIXES)
        made = f"{Path(source).stem}_{number}.{'cuda.o' if is_cuda else 'o'}"
        objects.append(_path(made))
        rule, needed = ("cuda_compile", "") if is_cuda else ("compile", header)
        lines.append(f"build {_path(made)}: {rule} {_path(source)}{needed}")
        if plan.source_flags and plan.source_flags[number]:
            lines.append(f"  cflags = $cflags {_words(plan.source_flags[number])}")
    lines.append(f"build {_path(plan.output.name)}: link {' '.join(objects)}")
    lines.append(f"default {_path(plan.output.name)}")
    return "\n".join(lines) + "\n"


def run(plan: Plan, verbose: bool) -> None:
    """Build what is not up to date; RuntimeError with the compiler's text if that fails."""
    run_file(plan.folder, text_of(plan), f"extension '{plan.name}'", verbose)


def run_file(folder: Path, text: str, what: str, verbose: bool) -> None:
    """Run ninja on a file of this text; RuntimeError with the compiler's text if that fails."""
    file = folder / "build.ninja"
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
    program = _compilers.ninja()
    assert program is not None
    jobs = os.environ.get("MAX_JOBS", "")
    command = [program, "-v", *(["-j", jobs] if jobs.isdigit() else [])]
    result = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if verbose:
        print(result.stdout, flush=True)
    if result.returncode:
        raise RuntimeError(f"load: Error building {what}: {result.stdout}")
