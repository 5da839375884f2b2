"""What `help()` shows of functions and methods: torchgen_out/python/texts.cpp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving.signatures import functions, methods
from codegen.language import spelling
from codegen.model import Model
from codegen.writing.describe import help_text
from codegen.writing.python_spelling import symbol_of
from codegen.writing.render import File, render


@dataclass(frozen=True, slots=True)
class TextDecl:
    """What `help()` shows of one function or method."""

    symbol: str
    text: str


def emit(model: Model) -> Iterator[File]:
    """Yield the texts: an edit of documentation compiles this file alone."""
    texts = tuple(
        TextDecl(symbol_of(c.namespace, c.name), spelling.quoted(help_text(c, model)))
        for c in (*functions(model), *methods(model))
    )
    yield render("python_texts.cpp.j2", "python/texts.cpp", texts=texts)
