"""The C++ of an extension that registers it: <name>/operators.cpp, and its loops by instruction set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from codegen.deriving import slots
from codegen.language import spelling
from codegen.model import Model
from codegen.writing import library_spelling
from codegen.writing.policies import policies
from codegen.writing.render import File, render

# Instruction set -> what the compiler is told (CMakeLists.txt has the same for flambeau's own loops).
ISA_FLAGS = {
    "x86_64": ("-march=x86-64", "-mtune=generic"),
    "v3": ("-march=x86-64-v3",),
    "v4": ("-march=x86-64-v4", "-mprefer-vector-width=256"),
}
GENERIC = "generic"  # of other processors
MARKER = "flambeau operators built for: "


def emit(model: Model, outputs: Iterable[str], built_for: str) -> Iterator[File]:
    """Yield the file that registers all operators, and one per instruction set for each file of loops.

    `outputs` are the files of the other targets; `built_for` names the flambeau that they fit.
    """
    paths = [f"{model.library}/{path}" for path in outputs]
    entries = slots.forms(slots.own(model))
    yield render(
        "library.cpp.j2",
        "operators.cpp",
        library=model.library,
        scope=library_spelling.scope(model),
        headers=library_spelling.runtime_headers(model, ()),
        sources=tuple(sorted(p for p in paths if "/aten/" in p and p.endswith(".cpp"))),
        structs=tuple(spelling.struct_name(form.name) for _, form in entries),
        policies=policies(slots.own(model)),
        built_for=MARKER + built_for,
    )
    for path in sorted(p for p in paths if "/cpu/" in p):
        for isa in (*ISA_FLAGS, GENERIC):
            name = f"loops/{PurePosixPath(path).stem}_{isa}.cpp"
            yield render("library_loops.cpp.j2", name, isa=isa, source=path)
