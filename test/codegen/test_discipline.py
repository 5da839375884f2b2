"""House rules of the generator that a reader should not have to check."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from codegen.load import load

ROOT = Path(__file__).parents[2]
CODEGEN = ROOT / "codegen"
TEMPLATES = sorted((CODEGEN / "templates").rglob("*.j2"))
MODULES = sorted(p for p in CODEGEN.rglob("*.py"))
IMPORTABLE = {"jinja2", "yaml"}


def names_of(path: Path) -> set[str]:
    """Every identifier-like word in the string literals of a module, docstrings left out."""
    tree = ast.parse(path.read_text())
    docstrings = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            docstrings.add(id(body[0].value))
    words: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words.add(node.value)
    return words


@cache
def operator_names() -> frozenset[str]:
    model, _ = load(keep_going=True)
    assert model is not None
    bases = (op.schema.name.base for op in model.operators)
    return frozenset([*bases, *(form.name for op in model.operators for form in op.forms)])


# Operators' names that are also words of another language -> that language.
WORDS = {
    "combines of reductions and infix operators of lists": "sum prod max min any all repeat",
    "keys, kinds and values of the specification": "view empty real complex linear slice where random",
    "primitives whose algebra the simplifier knows": (
        "add sub mul div neg pow eq ne where reciprocal logical_not conj"
    ),
    "commands of the generator": "diff",
    "Python's special methods": "add sub mul pow neg matmul eq ne lt le gt ge",
    "C++ (std) and other people's libraries (yaml's alias, copy)": "std alias copy",
}
ALLOWED = {word for words in WORDS.values() for word in words.split()}


def test_every_allowed_word_is_still_needed():
    used = {word for path in MODULES for word in names_of(path)} & operator_names()
    assert used >= ALLOWED, f"strike from WORDS: {ALLOWED - used}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_operator_is_named_in_python(path: Path):
    """A fact about an operator is a field of the YAML, never a case in the generator."""
    found = (names_of(path) & operator_names()) - ALLOWED
    assert not found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_are_the_generators_own(path: Path):
    import sys

    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            modules = [node.module or ""]
        for module in modules:
            top = module.split(".")[0]
            assert top == "codegen" or top in IMPORTABLE or top in sys.stdlib_module_names, module
            if path.parent.name == "targets" and module.startswith("codegen.targets"):
                pytest.fail(f"targets never import each other: {module}")


def ends_statements(text: str) -> bool:
    """Whether a module holds text that ends a C++ statement."""
    nodes = ast.walk(ast.parse(text))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return any(re.search(r"[\w)\]}\"'];$", text) for text in texts)


def test_statements_of_cpp_stand_in_writing_and_templates_alone():
    holding = {p.relative_to(CODEGEN).parts[0] for p in MODULES if ends_statements(p.read_text())}
    assert holding == {"writing"}
    assert ends_statements("line = f'return {name}(x);'")


# Modules that ask objects of other libraries for attributes -> those libraries.
FOREIGN_OBJECTS = {
    "source/nodes.py": "PyYAML",
    "source/text.py": "PyYAML",
    "language/host_functions.py": "PyYAML",
    "reading/oracle_names.py": "NumPy and SciPy",
    "reading/sample_check.py": "Python's builtins",
}


def asks_for_attributes(text: str) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return any(isinstance(func, ast.Name) and func.id in ("hasattr", "getattr") for func in calls)


def test_no_decision_hangs_on_whether_an_object_has_an_attribute():
    """Classes of the model are told apart by isinstance, which mypy checks."""
    asking = {p.relative_to(CODEGEN).as_posix() for p in MODULES if asks_for_attributes(p.read_text())}
    assert asking == set(FOREIGN_OBJECTS)
    assert asks_for_attributes("x = getattr(op.body, 'dynamic', None)")


@pytest.mark.parametrize("path", sorted((CODEGEN / "targets").glob("*.py")), ids=lambda p: p.stem)
def test_targets_are_short(path: Path):
    """A target joins what `deriving` and `writing` decide; decisions are not made in it."""
    assert len(path.read_text().splitlines()) <= 150


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_templates_hold_no_logic(path: Path):
    """Only for, plain if, attribute access and extends; every decision is taken in a Decl."""
    jinja2 = pytest.importorskip("jinja2")
    from jinja2 import nodes

    text = path.read_text()
    first = text.splitlines()[0]
    assert first.startswith("{#") and "input" in first, "the first line names the input type"
    assert len(text.splitlines()) <= 80
    tree = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).parse(text)
    refused = (
        (nodes.Assign, nodes.AssignBlock, nodes.Macro, nodes.CallBlock, nodes.Call, nodes.Getitem)
        + (nodes.BinExpr, nodes.Filter, nodes.FilterBlock, nodes.Test, nodes.CondExpr)
        + (nodes.Include, nodes.Import, nodes.FromImport)
    )
    for kind in refused:
        assert not list(tree.find_all(kind)), kind.__name__
    for loop in tree.find_all(nodes.For):
        assert loop.test is None and not loop.recursive
    assert nesting(tree) <= 2


def nesting(node: object, depth: int = 0) -> int:
    from jinja2 import nodes

    assert isinstance(node, nodes.Node)
    inner = depth + isinstance(node, nodes.For | nodes.If)
    return max([inner, *(nesting(child, inner) for child in node.iter_child_nodes())])


def test_templates_name_no_operator():
    words = re.compile(r"\b[a-z_]\w*\b")
    names = {n for n in operator_names() if len(n) > 4 and "." not in n}
    common = ALLOWED
    for path in TEMPLATES:
        text = re.sub(r"\{#.*?#\}|\{\{.*?\}\}|\{%.*?%\}", "", path.read_text(), flags=re.DOTALL)
        assert not (set(words.findall(text)) & names) - common, path.name


def test_the_environment_refuses_unknown_names():
    source = (CODEGEN / "writing" / "render.py").read_text()
    assert "StrictUndefined" in source
