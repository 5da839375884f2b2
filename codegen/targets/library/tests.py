"""The tests that an author runs: tests/test_<name>.py, beside the records of its operators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from codegen.deriving import slots
from codegen.model import Model
from codegen.writing.render import File, render


def emit(model: Model, references: str) -> Iterator[File]:
    """Yield the file for pytest; `references` is the path from it to the author's module of references."""
    own = slots.own(model)
    is_used = any("references." in (op.test.reference or "") for op in own)
    yield render(
        "library_tests.py.j2",
        f"tests/test_{model.library}.py",
        library=model.library,
        file=PurePath(own[0].position.file).name,
        references=references if is_used else "",
    )
