"""`check`: validate both YAML files; exit 0 when they are sound, 1 otherwise."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from codegen.diagnostics import Diagnostic, render_json, render_text
from codegen.load import DERIVATIVES, NATIVE, ROOT, read_files


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="codegen check", description=__doc__)
    parser.add_argument("--native-functions", type=Path, default=NATIVE, metavar="FILE")
    parser.add_argument("--derivatives", type=Path, default=DERIVATIVES, metavar="FILE")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    return parser.parse_args(argv)


def run(argv: list[str]) -> int:
    """Print every mistake, or a summary when there is none."""
    options = _arguments(argv)
    read = read_files(options.native_functions, options.derivatives)
    if options.format == "json":
        print(render_json(read.found))
    elif read.found:
        print_text(read.found, sys.stdout)
    else:
        counts = f"{len(read.drafts)} operators, {read.forms} forms, {len(read.primitives)} primitives"
        print(f"ok: {counts}")
    return 1 if read.found else 0


def print_text(found: Sequence[Diagnostic], stream: TextIO) -> None:
    """Print diagnostics with their source lines and a count."""
    cache: dict[str, list[str]] = {}

    def lines_of(name: str) -> list[str]:
        if name not in cache:
            path = ROOT / name
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            cache[name] = text.split("\n")
        return cache[name]

    for line in render_text(found, lines_of):
        print(line, file=stream)
    noun = "mistake" if len(found) == 1 else "mistakes"
    print(f"{len(found)} {noun}", file=stream)
