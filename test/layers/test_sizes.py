"""Handwritten files and functions are short, in C++ and in Python. There is no exception list."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES_OF_A_FILE = 500
MOST_LINES_OF_A_FUNCTION = 40
CPP = {".h", ".cpp", ".cu", ".cuh"}

# Comments, literals and preprocessor lines: their braces mean nothing.
SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|R\"\(.*?\)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'"
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(r"\b(?:namespace|struct|class|union|enum|extern)\b(?:[^()=]|alignas\([^{};]*\))*$")


def handwritten(suffixes: set[str]) -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        files = [ROOT / name for name in listed.stdout.splitlines()]
    else:  # an archive without its history
        folders = ("c10", "aten", "codegen", "python", "test", "examples", "benchmarks")
        files = [p for folder in folders for p in (ROOT / folder).rglob("*")]
    return [p for p in files if p.suffix in suffixes and p.is_file()]


def cpp_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield head, first line and number of lines of each function; lambdas count for what holds them."""
    text = SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    stack: list[tuple[bool, int, str]] = []  # is a function, where its head begins, its head
    begin = 0
    for match in re.finditer(r"[{};]", text):
        inside = any(is_function for is_function, _, _ in stack)
        if match.group() == "{":
            head = text[begin : match.start()]
            callable_head = "(" in head and not SCOPE.search(head) and not head.rstrip().endswith("=")
            start = begin + len(head) - len(head.lstrip())
            stack.append((callable_head and not inside, start, head.strip()))
        elif match.group() == "}" and stack:
            is_function, start, head = stack.pop()
            if is_function:
                yield head, text.count("\n", 0, start) + 1, text.count("\n", start, match.start()) + 1
        if not any(is_function for is_function, _, _ in stack):
            begin = match.end()


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield name, first line and number of lines of each function; its docstring is not counted."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = first.end_lineno - first.lineno + 1 if is_text else 0
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1 - docstring


def too_long(path: Path) -> list[str]:
    text, name = path.read_text(), path.relative_to(ROOT).as_posix()
    functions = python_functions if path.suffix == ".py" else cpp_functions
    lines = len(text.splitlines())
    found = [f"{name}: {lines} lines"] if lines > MOST_LINES_OF_A_FILE else []
    for head, line, length in functions(text):
        if length > MOST_LINES_OF_A_FUNCTION:
            found.append(f"{name}:{line}: {' '.join(head.split())[:80]}: {length} lines")
    return found


@pytest.mark.parametrize("suffixes", [CPP, {".py"}], ids=["C++", "Python"])
def test_files_and_functions_are_short(suffixes):
    files = handwritten(suffixes)
    assert len(files) > 50, "the search has lost the sources"
    assert [line for path in files for line in too_long(path)] == []


def test_functions_of_cpp_are_seen():
    text = """
    #define OPEN {
    namespace a { // {
    struct alignas(16) S { int f() const { return '{'; } };
    constexpr int table[] = {g(1), 2};
    template <typename T>
    S::S(int x) : x_(x) {
      auto body = [&](int y) {
        return "}";
      };
    }
    }
    """
    assert [(head.split("(")[0].split()[-1], length) for head, _, length in cpp_functions(text)] == [
        ("f", 1),
        ("S::S", 6),
    ]


def test_a_long_function_would_be_found():
    body = "".join(f"  f({i});\n" for i in range(MOST_LINES_OF_A_FUNCTION))
    ((_, line, length),) = cpp_functions(f"\nvoid f(int n) {{\n{body}}}\n")
    assert (line, length) == (2, MOST_LINES_OF_A_FUNCTION + 2)
