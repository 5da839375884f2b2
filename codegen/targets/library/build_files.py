"""What is compiled for an extension, and how: sources.json, read by Python and CMake."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from codegen.model import Model
from codegen.writing.render import File

# Arithmetic follows the same rules as in flambeau's own kernels (CMakeLists.txt). Names stay inside the
# file, so that two extensions may have kernels of one name.
FLAGS = (
    "-O2",
    "-DNDEBUG",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fwrapv",
    "-fopenmp-simd",
    "-Wno-unknown-pragmas",
)
LOOP_FLAGS = ("-fno-thread-jumps", "-fno-exceptions", "-fno-asynchronous-unwind-tables")


@dataclass(frozen=True, slots=True)
class SourceDecl:
    """One file, and its flags beside those of all files; `isa`: the instruction set of loops."""

    path: str
    flags: tuple[str, ...] = ()
    isa: str = ""


def emit(
    model: Model, outputs: Iterable[str], kernels: Iterable[str], isas: Mapping[str, tuple[str, ...]]
) -> Iterator[File]:
    """Yield the list; `kernels` are the author's sources, relative to the outputs."""
    sources = tuple(_sources(model, tuple(outputs), tuple(kernels), isas))
    table = {
        "library": model.library,
        "flags": FLAGS,
        "sources": [{"path": s.path, "flags": s.flags, "isa": s.isa} for s in sources],
    }
    yield File("sources.json", json.dumps(table, indent=1) + "\n")


def _sources(
    model: Model, outputs: tuple[str, ...], kernels: tuple[str, ...], isas: Mapping[str, tuple[str, ...]]
) -> Iterator[SourceDecl]:
    yield SourceDecl(f"{model.library}/operators.cpp")
    for path in sorted(outputs):
        if path.startswith(f"{model.library}/autograd/") and path.endswith(".cpp"):
            yield SourceDecl(path, ("-Os",))
        elif path.startswith(f"{model.library}/loops/"):
            isa = next((name for name in isas if path.endswith(f"_{name}.cpp")), "generic")
            yield SourceDecl(path, (*isas.get(isa, ()), *LOOP_FLAGS), isa)
    for path in kernels:
        yield SourceDecl(path)
