"""`extend FILE [DERIVATIVES]`: the code of an extension from an author's files, into a folder beside them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from codegen.model import Model
from codegen.reading.extension import Author
from codegen.reading.files import DERIVATIVES, NATIVE
from codegen.source.memory import digest
from codegen.writing import output


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="codegen --extend", description=__doc__)
    parser.add_argument("native", type=Path, metavar="FILE", help="the operators")
    parser.add_argument(
        "derivatives", type=Path, nargs="?", metavar="DERIVATIVES", help="gradients that are given"
    )
    parser.add_argument(
        "--output", type=Path, help="the folder that is written; default: generated/ beside FILE"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; verify the folder's MANIFEST")
    return parser.parse_args(argv)


def run(argv: list[str]) -> int:
    """Write what changed; nothing is loaded when the inputs are those of the last run."""
    options = _arguments(argv)
    start = time.perf_counter()
    author = Author(options.native, options.derivatives)
    folder = options.output or options.native.resolve().parent / "generated"
    if not _may_write(folder):
        print(
            f"extend: {folder} holds other files than outputs: name another folder by --output",
            file=sys.stderr,
        )
        return 1
    sources = _author_sources(author.native)
    stamp = _stamp(author, sources, folder)
    if not options.check and output.is_current(folder, (stamp,), with_manifest=True):
        print(f"{folder.name}: up to date")
        return 0
    files = _render(author, folder)
    if files is None:
        return 1
    if options.check:
        return output.verify(folder, files, "run `codegen --extend` again")
    folder.mkdir(parents=True, exist_ok=True)
    changes = output.write_files(folder, files)
    output.write_manifest(folder, files)
    output.write_stamp(folder, stamp, files)
    counts = f"{len(changes.written)} written, {len(changes.removed)} removed, {changes.unchanged} unchanged"
    print(f"{folder.name}: {len(files)} files: {counts} ({time.perf_counter() - start:.2f} s)")
    return 0


def _may_write(folder: Path) -> bool:
    """Whether a folder is new, empty, or holds outputs of an earlier run: other files would be lost."""
    return not folder.exists() or (folder / output.MANIFEST).is_file() or not any(folder.iterdir())


def _author_sources(native: Path) -> list[Path]:
    """Return the files that an author's entries can name: a change of one may be a mistake."""
    folder = native.resolve().parent
    return sorted((*folder.rglob("*.cpp"), *folder.glob("references.py")))


def _stamp(author: Author, sources: Iterable[Path], folder: Path) -> str:
    """Hash all that the outputs follow from."""
    inside = folder.resolve()
    own = [path for path in sources if not path.is_relative_to(inside)]
    names = (author.native, *([author.derivatives] if author.derivatives else []))
    return digest(output.input_hash((NATIVE, DERIVATIVES, *names, *own)), str(inside)).hex()


def _render(author: Author, folder: Path) -> dict[str, str] | None:
    from codegen.commands.check import print_text
    from codegen.load import load
    from codegen.reading.extension import read_library
    from codegen.source.diagnostics import Collector
    from codegen.targets import emit_library

    model, found = load(author=author)
    if model is None or found:
        print_text(found, sys.stderr)
        return None
    if not _has_operators(model):
        print(f"{author.native}: no operators in the file", file=sys.stderr)
        return None
    library = read_library(author.native, str(author.native), Collector())
    assert library is not None
    target = folder.resolve()
    kernels = [_relative(path, target) for path in library.sources]
    references = _relative(author.native.resolve().parent / "references.py", target / "tests")
    return emit_library(model, kernels, output.built_for(), references)


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _has_operators(model: Model) -> bool:
    return any(op.family == model.library for op in model.operators)
