"""Both YAML files -> the complete model, or every mistake in them."""

from __future__ import annotations

from pathlib import Path

from codegen.deriving.autodiff import complete
from codegen.model import Model
from codegen.reading.extension import Author
from codegen.reading.files import DERIVATIVES, NATIVE, read_files
from codegen.source.diagnostics import Diagnostic


def load(
    native: Path = NATIVE,
    derivatives: Path = DERIVATIVES,
    root: Path | None = None,
    keep_going: bool = False,
    author: Author | None = None,
) -> tuple[Model | None, list[Diagnostic]]:
    """Load and validate; the model is None when there is any mistake.

    `keep_going`: give a model of the operators without mistakes instead of none. `author`: the files of an
    extension, whose operators stand beside those of flambeau.
    """
    read = read_files(native, derivatives, root, author=author)
    if (read.found and not keep_going) or not read.drafts:
        return None, read.found
    library = "" if read.library is None else read.library.name
    return complete(Model(read.operators, read.primitives, library)), read.found
