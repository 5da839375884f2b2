"""The ninja file of one extension, and running it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
    source_flags: tuple[tuple[str, ...], ...] = ()  # further ones of each source; none: there are none

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
    defines = [f"-DTORCH_EXTENSION_NAME={plan.name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    folders = [*plan.includes, *_compilers.include_paths("cuda" if plan.with_cuda else "cpu")]
    return [
        *defines,
        *(f"-I{folder}" for folder in plan.includes),
        *(word for folder in folders[len(plan.includes) :] for word in ("-isystem", folder)),
        "-isystem",
        _compilers.python_include(),
    ]


def _link(plan: Plan) -> str:
    words = [] if plan.is_executable else ["-shared"]
    for folder in _compilers.library_paths("cuda" if plan.with_cuda else "cpu"):
        words += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    words += ["-lflambeau", *(["-lcudart"] if plan.with_cuda else [])]
    return f"{_words(words)} {_flags(plan.ldflags)}"


def text_of(plan: Plan) -> str:
    """Return the content of build.ninja."""
    common = _words(_common(plan))
    lines = [
        "ninja_required_version = 1.3",
        f"cxx = {_flags([_compilers.get_cxx_compiler()])}",
        f"cflags = {common} {_words(_compilers.CXX_FLAGS)} {_flags(plan.cflags)}",
        f"ldflags = {_link(plan)}",
        "rule compile",
        "  command = $cxx -MMD -MF $out.d $cflags -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "rule link",
        "  command = $cxx $in $ldflags -o $out",
    ]
    if plan.with_cuda:
        lines += [
            f"nvcc = {_words([_compilers.nvcc()])}",
            f"cuda_cflags = {common} {_words(_compilers.NVCC_FLAGS)} {_flags(plan.cuda_cflags)}",
            "rule cuda_compile",
            "  command = $nvcc --generate-dependencies-with-compile --dependency-output $out.d $cuda_cflags "
            "-c $in -o $out",
            "  depfile = $out.d",
            "  deps = gcc",
        ]
    objects = []
    for number, source in enumerate(plan.sources):
        is_cuda = source.endswith(CUDA_SUFFIXES)
        made = f"{Path(source).stem}_{number}.{'cuda.o' if is_cuda else 'o'}"
        objects.append(_path(made))
        lines.append(f"build {_path(made)}: {'cuda_compile' if is_cuda else 'compile'} {_path(source)}")
        if plan.source_flags and plan.source_flags[number]:
            lines.append(f"  cflags = $cflags {_words(plan.source_flags[number])}")
    lines.append(f"build {_path(plan.output.name)}: link {' '.join(objects)}")
    lines.append(f"default {_path(plan.output.name)}")
    return "\n".join(lines) + "\n"


def run(plan: Plan, verbose: bool) -> None:
    """Build what is not up to date; RuntimeError with the compiler's text if that fails."""
    file = plan.folder / "build.ninja"
    text = text_of(plan)
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
    program = _compilers.ninja()
    assert program is not None
    jobs = os.environ.get("MAX_JOBS", "")
    command = [program, "-v", *(["-j", jobs] if jobs.isdigit() else [])]
    result = subprocess.run(
        command,
        cwd=plan.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if verbose:
        print(result.stdout, flush=True)
    if result.returncode:
        raise RuntimeError(f"load: Error building extension '{plan.name}': {result.stdout}")
