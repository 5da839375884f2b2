"""The operators of an extension in Python: python/_operators.py, and its stub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from codegen.deriving import slots
from codegen.deriving.signatures import functions
from codegen.model import Model
from codegen.writing.library_python import function
from codegen.writing.render import File, render
from codegen.writing.stub_spelling import IMPORTS, stub


def emit(model: Model) -> Iterator[File]:
    """Yield the module and its stub."""
    found = sorted(functions(model), key=lambda callable_: callable_.name)
    public = [callable_ for callable_ in found if not callable_.name.startswith("_")]
    file = PurePath(slots.own(model)[0].position.file).name
    yield render(
        "library_module.py.j2",
        "python/_operators.py",
        library=model.library,
        file=file,
        names=tuple(callable_.name for callable_ in public),
        functions=tuple(function(callable_, model) for callable_ in found),
    )
    yield render(
        "functions.pyi.j2",
        "python/_operators.pyi",
        name="_operators",
        file=file,
        imports=IMPORTS,
        functions=tuple(stub(callable_, model) for callable_ in found),
    )
