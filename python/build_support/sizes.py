"""Sizes of the handwritten sources: lines by layer, long files and functions, repeated runs of lines.

Run as a program it prints a table; `test/layers/test_sizes.py` holds the caps.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPP = frozenset((".h", ".cpp", ".cu", ".cuh"))
PYTHON = frozenset((".py",))
MOST_LINES_OF_A_FILE = 500  # docstrings are not counted
MOST_LINES_WITH_DOCSTRINGS = 600
MOST_LINES_OF_A_FUNCTION = 40
# A run of this many lines of code that occurs twice is a repetition.
LINES_OF_A_RUN = 8
# Repeated lines in all that may be. Lower them when the count falls.
MOST_REPEATED_LINES = {"C++": 40, "Python": 200}
# Folders, the longest first: a file is in the first that its path begins with.
LAYERS = (
    *(f"codegen/{room}" for room in "model source language reading deriving writing targets".split()),
    *("codegen/templates", "codegen/commands", "codegen"),
    *(f"aten/{layer}" for layer in "core dispatch cpu cuda ops autograd transforms".split()),
    *("c10", "python/csrc", "python/flambeau", "python/build_support"),
    *("test", "examples", "benchmarks", "docs"),
)

# Comments, literals and preprocessor lines: their braces mean nothing.
_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|R\"\(.*?\)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'"
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_SCOPE = re.compile(r"\b(?:namespace|struct|class|union|enum|extern)\b(?:[^()=]|alignas\([^{};]*\))*$")
# Lines that say what a file uses, or nothing.
_IMPORTED = re.compile(r"^from [\w.]+ import \([^)]*\)", re.MULTILINE)
_PREAMBLE = re.compile(r"(?:#|//|import |from |using |namespace |[\W_]*$)")


@dataclass(frozen=True, slots=True)
class Function:
    """Where a function begins and how long it is; a docstring is not counted."""

    head: str
    line: int
    lines: int


def cpp_functions(text: str) -> Iterator[Function]:
    """Yield each function of a C++ file; lambdas count for what holds them."""
    text = _SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    stack: list[tuple[bool, int, str]] = []  # is a function, where its head begins, its head
    begin = 0
    for match in re.finditer(r"[{};]", text):
        inside = any(is_function for is_function, _, _ in stack)
        if match.group() == "{":
            head = text[begin : match.start()]
            callable_head = "(" in head and not _SCOPE.search(head) and not head.rstrip().endswith("=")
            start = begin + len(head) - len(head.lstrip())
            stack.append((callable_head and not inside, start, head.strip()))
        elif match.group() == "}" and stack:
            is_function, start, head = stack.pop()
            if is_function:
                lines = text.count("\n", start, match.start()) + 1
                yield Function(head, text.count("\n", 0, start) + 1, lines)
        if not any(is_function for is_function, _, _ in stack):
            begin = match.end()


def python_functions(text: str) -> Iterator[Function]:
    """Yield each function of a Python file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(node.name, node.lineno, _length(node) - _docstring_length(node.body))


def docstring_lines(text: str) -> int:
    """Return how many lines the docstrings of a Python file have in all."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return sum(_docstring_length(node.body) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))


def _docstring_length(body: Sequence[ast.stmt]) -> int:
    first = body[0] if body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return _length(first) if first is not None and is_text else 0


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def functions_of(path: Path) -> Iterator[Function]:
    """Yield the functions of a source file."""
    read: Callable[[str], Iterator[Function]] = python_functions if path.suffix == ".py" else cpp_functions
    return read(path.read_text(encoding="utf-8"))


def handwritten(suffixes: Iterable[str] | None = None) -> list[Path]:
    """Return the tracked files, of some suffixes; of an archive without history all in the folders."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        files = [ROOT / name for name in listed.stdout.splitlines()]
    else:
        folders = sorted({layer.partition("/")[0] for layer in LAYERS})
        files = [p for folder in folders for p in (ROOT / folder).rglob("*")]
    wanted = None if suffixes is None else set(suffixes)
    return [p for p in files if p.is_file() and (wanted is None or p.suffix in wanted)]


def layer_of(path: Path) -> str | None:
    """Return the layer that a file is in."""
    name = path.relative_to(ROOT).as_posix()
    return next((layer for layer in LAYERS if name.startswith(f"{layer}/")), None)


def too_long(path: Path) -> list[str]:
    """Return what is longer than the limits: the file, or functions in it."""
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    code = lines - docstring_lines(text) if path.suffix == ".py" else lines
    found = [f"{name}: {code} lines without docstrings"] if code > MOST_LINES_OF_A_FILE else []
    if lines > MOST_LINES_WITH_DOCSTRINGS:
        found.append(f"{name}: {lines} lines")
    for function in functions_of(path):
        if function.lines > MOST_LINES_OF_A_FUNCTION:
            head = " ".join(function.head.split())[:80]
            found.append(f"{name}:{function.line}: {head}: {function.lines} lines")
    return found


@dataclass(frozen=True, slots=True)
class Run:
    """Lines of code that an earlier place has too."""

    path: str
    line: int
    lines: int
    earlier: str  # path:line


def repeated_runs(files: Mapping[str, str]) -> Iterator[Run]:
    """Yield the runs of at least LINES_OF_A_RUN lines that stood before, in order of the files."""
    seen: dict[tuple[str, ...], str] = {}
    for path, text in files.items():
        text = _IMPORTED.sub(lambda match: "\n" * match.group().count("\n"), text)
        lines = ((i, line.strip()) for i, line in enumerate(text.splitlines(), 1))
        yield from _runs_of(path, [(i, line) for i, line in lines if not _PREAMBLE.match(line)], seen)


def _runs_of(path: str, code: Sequence[tuple[int, str]], seen: dict[tuple[str, ...], str]) -> Iterator[Run]:
    words = [text for _, text in code]
    begin = covered = 0  # of the run that is being followed: its first place, and the place behind it
    earlier = ""
    for at in range(len(code) - LINES_OF_A_RUN + 1):
        window = tuple(words[at : at + LINES_OF_A_RUN])
        known = seen.get(window)
        if known is None:
            seen[window] = f"{path}:{code[at][0]}"
            continue
        if at > covered or not covered:
            if covered:
                yield Run(path, code[begin][0], covered - begin, earlier)
            begin, earlier = at, known
        covered = at + LINES_OF_A_RUN
    if covered:
        yield Run(path, code[begin][0], covered - begin, earlier)


def runs_by_language() -> dict[str, list[Run]]:
    """Return the repeated runs of C++ and of Python; tests and examples may repeat what they show."""
    found: dict[str, list[Run]] = {}
    for language, suffixes in (("C++", CPP), ("Python", PYTHON)):
        paths = [p for p in handwritten(suffixes) if _is_product(p)]
        texts = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in sorted(paths)}
        found[language] = list(repeated_runs(texts))
    return found


def _is_product(path: Path) -> bool:
    return layer_of(path) not in (None, "test", "examples", "benchmarks", "docs")


def lines_by_layer() -> dict[str, tuple[int, int]]:
    """Return files and lines of each layer, and of both YAML files."""
    counted: dict[str, list[int]] = defaultdict(list)
    for path in handwritten(CPP | PYTHON | {".j2", ".yaml", ".md"}):
        layer = layer_of(path) or (path.name if path.suffix == ".yaml" else None)
        if layer is not None:
            counted[layer].append(len(path.read_text(encoding="utf-8").splitlines()))
    order = sorted(counted, key=lambda layer: (layer.partition("/")[0], layer))
    return {layer: (len(counted[layer]), sum(counted[layer])) for layer in order}


def report() -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'layer':<24}{'files':>7}{'lines':>9}"
    for layer, (files, lines) in lines_by_layer().items():
        yield f"{layer:<24}{files:>7}{lines:>9}"
    long = [line for path in handwritten(CPP | PYTHON) for line in too_long(path)]
    yield (
        f"{len(long)} files over {MOST_LINES_OF_A_FILE} lines or functions over {MOST_LINES_OF_A_FUNCTION}"
    )
    yield from (f"  {line}" for line in long)
    for language, runs in runs_by_language().items():
        lines = sum(run.lines for run in runs)
        cap = MOST_REPEATED_LINES[language]
        what = f"repeated runs of {LINES_OF_A_RUN} lines or more"
        yield f"{language}: {len(runs)} {what}, {lines} lines; the cap is {cap}"
        for run in sorted(runs, key=lambda run: -run.lines)[:10]:
            yield f"  {run.path}:{run.line}: {run.lines} lines as {run.earlier}"


if __name__ == "__main__":
    print("\n".join(report()))
