"""What `help()` shows of functions and methods, a data file of the package: package/_operator_texts.txt.

A line with the key of the names that the texts belong to and their number, a line of nine digits and a
newline for the offset of each text in bytes, then the texts, each ended by a zero byte, and a last newline.
"""

from __future__ import annotations

from collections.abc import Iterator

from codegen.deriving.signatures import functions, methods
from codegen.model import Model
from codegen.writing.describe import help_text
from codegen.writing.python_spelling import key_of_texts
from codegen.writing.render import File


def emit(model: Model) -> Iterator[File]:
    """Yield the texts: an edit of documentation compiles nothing."""
    found = (*functions(model), *methods(model))
    texts = [help_text(c, model) + "\0" for c in found]
    header = f"{key_of_texts(found)} {len(texts)}\n"
    at = len(header) + 10 * len(texts)
    lines = []
    for text in texts:
        lines.append(f"{at:09d}\n")
        at += len(text.encode())
    yield File("package/_operator_texts.txt", header + "".join(lines) + "".join(texts) + "\n")
