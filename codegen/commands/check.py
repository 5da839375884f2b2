"""`check`: validate both YAML files; exit 0 when they are sound, 1 otherwise."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from codegen.commands.authors import add_option, author_of
from codegen.reading.oracle_names import installed
from codegen.source.diagnostics import Diagnostic, render_json, render_text
from codegen.source.memory import Memory, digest
from codegen.writing.output import ROOT, input_hash

NATIVE, DERIVATIVES = (ROOT / f"{name}.yaml" for name in ("native_functions", "derivatives"))


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="codegen check", description=__doc__)
    parser.add_argument("--native-functions", type=Path, default=NATIVE, metavar="FILE")
    parser.add_argument("--derivatives", type=Path, default=DERIVATIVES, metavar="FILE")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    add_option(parser)
    options = parser.parse_args(argv)
    options.author = author_of(parser, options)
    return options


def run(argv: list[str]) -> int:
    """Print every mistake, or a summary when there is none; of files that were sound before, at once."""
    options = _arguments(argv)
    if options.author is not None:
        return _check_author(options)
    ours = (options.native_functions, options.derivatives) == (NATIVE, DERIVATIVES)
    memory = Memory("checked", ()) if ours else None
    found: Sequence[Diagnostic] = ()

    def check() -> str | None:
        nonlocal found
        # Importing these takes longer than a check that has nothing to do.
        from codegen.reading.files import counts, read_files
        from codegen.reading.known import Known

        read = read_files(options.native_functions, options.derivatives, known=Known(), documented=ours)
        found = read.found
        return None if found else f"ok: {counts(read.drafts, read.primitives)}"

    summary = check() if memory is None else memory.recall(_key(), check)
    if memory is not None:
        memory.keep()
    _print(options.format, summary, found)
    return 1 if found else 0


def _check_author(options: argparse.Namespace) -> int:
    """Check an author's files; those of flambeau are taken as sound."""
    from codegen.reading.files import counts, read_files

    read = read_files(options.native_functions, options.derivatives, author=options.author)
    own = [draft for draft in read.drafts if read.library and draft.family == read.library.name]
    summary = None if read.found else f"ok: {counts(own, {})}".replace(", 0 primitives", "")
    _print(options.format, summary, read.found)
    return 1 if read.found else 0


def _key() -> bytes:
    """Hash all that the answer follows from: both files, the generator, the sources, references, packages."""
    references = sorted((ROOT / "test" / "ops").glob("*references.py"))
    versions = (str(installed(name)) for name in ("numpy", "scipy"))
    return digest(input_hash((NATIVE, DERIVATIVES, *references)), *versions)


def _print(form: str, summary: str | None, found: Sequence[Diagnostic]) -> None:
    if form == "json":
        print(render_json(found))
    elif found or summary is None:
        print_text(found, sys.stdout)
    else:
        print(summary)


def print_text(found: Sequence[Diagnostic], stream: TextIO) -> None:
    """Print diagnostics with their source lines and a count."""
    cache: dict[str, list[str]] = {}

    def lines_of(name: str) -> list[str]:
        if name not in cache:
            path = ROOT / name if (ROOT / name).is_file() else Path(name)
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            cache[name] = text.split("\n")
        return cache[name]

    for line in render_text(found, lines_of):
        print(line, file=stream)
    noun = "mistake" if len(found) == 1 else "mistakes"
    print(f"{len(found)} {noun}", file=stream)
