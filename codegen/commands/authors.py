"""The option `--extend FILE [DERIVATIVES]`: an author's files beside those of flambeau."""

from __future__ import annotations

import argparse
from pathlib import Path

from codegen.reading.extension import Author


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a command take an author's files."""
    parser.add_argument(
        "--extend",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="the operators of an extension, and their derivatives if there are any",
    )


def author_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Author | None:
    """Return the files that were given; exit with a message for more than two."""
    if not options.extend:
        return None
    if len(options.extend) > 2:
        parser.error(f"--extend: expected a file, or two with derivatives, got {len(options.extend)}")
    return Author(*options.extend)
