"""Source text of functions, as `flambeau.jit` and programs read it."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent
from typing import Any, NamedTuple


def get_source_lines_and_file(obj: Any, error_msg: str | None = None) -> tuple[list[str], int, str | None]:
    """Return the lines of a function or class, the number of the first one, and the file.

    Raises: OSError if the source cannot be found; `error_msg` is added to the text.
    """
    try:
        file = inspect.getsourcefile(obj)
        lines, first = inspect.getsourcelines(obj)
    except OSError as error:
        text = f"expected a function whose source can be read, got {obj}"
        raise OSError(f"{text}. {error_msg}" if error_msg else text) from error
    return lines, first, file


def normalize_source_lines(sourcelines: list[str]) -> list[str]:
    """Return the lines of a function; no line is indented less than its ``def``."""
    start = next((i for i, line in enumerate(sourcelines) if line.lstrip().startswith("def")), None)
    if start is None:
        return sourcelines
    margin = sourcelines[start].partition("def")[0]
    after = [margin + line.removeprefix(margin) for line in sourcelines[start + 1 :]]
    before = [margin + line.removeprefix(margin) for line in sourcelines[:start]]
    return [*before, sourcelines[start], *after]


class SourceContext:
    """Where source text comes from."""

    def __init__(
        self,
        source: str | None,
        filename: str | None,
        file_lineno: int,
        leading_whitespace_len: int,
        uses_true_division: bool = True,
        funcname: str | None = None,
    ) -> None:
        self.source, self.filename, self.file_lineno = source, filename, file_lineno
        self.leading_whitespace_len = leading_whitespace_len
        self.uses_true_division, self.funcname = uses_true_division, funcname


def make_source_context(*args: Any) -> SourceContext:
    """Return the context of source text."""
    return SourceContext(*args)


class ParsedDef(NamedTuple):
    """A function as a syntax tree, with its source."""

    ast: ast.Module
    ctx: SourceContext
    source: str
    filename: str | None
    file_lineno: int


def parse_def(fn: Any) -> ParsedDef:
    """Return a function as a syntax tree.

    Raises: RuntimeError if the source holds more than the one function.
    """
    lines, first, file = get_source_lines_and_file(fn)
    source = "".join(normalize_source_lines(lines))
    flat = dedent(source)
    tree = ast.parse(flat)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise RuntimeError(f"parse_def: expected a single function in {file}:{first}, got other code")
    margin = len(source.split("\n", 1)[0]) - len(flat.split("\n", 1)[0])
    return ParsedDef(tree, SourceContext(source, file, first, margin, True, fn.__name__), source, file, first)
