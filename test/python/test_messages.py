"""Messages of errors raised in the Python package: each names what the user called and what is wrong with it.

The form is `<public name>: expected <what>, got <value>`, or `<public name>: <what is wrong>; <what to do>`.
`test/codegen/test_messages.py` checks messages of the YAML.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import flambeau
import pytest

PACKAGE = Path(flambeau.__file__).parent
HEAD = re.compile(r"(?P<name>(?:[\w.{}]|\(\)|, (?=[\w.]+[:,]))+(?:\([^:]*\))*)(?: \w+ \{\})?: ")
SPACES = (flambeau, flambeau.nn.functional, flambeau.Tensor, flambeau.linalg, flambeau.fft, flambeau.special)

# Exceptions whose text a protocol of Python fixes, or that name an abstract method.
EXEMPT_TYPES = {
    "AttributeError": "the text has the form that Python's own attribute errors have",
    "KeyError": "the text is the key",
    "ModuleNotFoundError": "the text has the form that import errors have",
    "NotImplementedError": "a subclass has to define the method",
    "Break": "a reason that `compile` puts into its message",
    "NotRebuilt": "a reason that `compile` puts into its message",
    "Unrecordable": "a reason that `compile` puts into its message",
    "NotAhead": "a reason that the counters of `compile` name",
}
# Files whose messages a caller completes with the public name.
COMPLETED = {
    "serialization/_opcodes.py": "`load` puts its name before the text",
    "serialization/_allowed.py": "`load` puts its name before the text",
    "distributed/rpc/_agent.py": "a call puts its name and the worker's before the reason",
    "distributed/rpc/_connection.py": "a call puts its name and the worker's before the reason",
    "distributed/rpc/_handshake.py": "a call puts its name and the worker's before the reason",
    "distributed/checkpoint/_metadata_file.py": "`load` puts its name before the text",
    "distributed/checkpoint/_storage_place.py": "`load` puts its name before the text",
    "compiler/capture/instructions.py": "the texts are those of Python's interpreter",
    "compiler/capture/values.py": "the texts are those of Python's interpreter",
    "compiler/capture/frames.py": "the texts are those of Python's generators",
    "compiler/capture/machine.py": "the texts are those of Python's generators",
    "compiler/capture/polyfills.py": "the texts are those of Python's functions",
    "_operators/": "test/codegen/test_messages.py checks the heads",
    "functional.py": "test/codegen/test_messages.py checks the heads",
    "nn/functional/": "test/codegen/test_messages.py checks the heads",
    "signal/": "test/codegen/test_messages.py checks the heads",
    "sparse/": "test/codegen/test_messages.py checks the heads",
}
# Files whose errors stay inside of a process that serves others.
WITHOUT_CALLER = {
    "distributed/_tcp_server.py": "what is wrong with a peer's request ends its connection",
    "distributed/rpc/_frames.py": "what is wrong with a peer's message ends its connection",
    "distributed/rpc/_tensor_table.py": "what is wrong with a peer's message ends its connection",
}
# Whole sentences of Python's own protocols.
SENTENCES = {
    "iteration over a 0-d tensor": "as iter() says it",
    "len() of a 0-d tensor": "as len() says it",
    "division by zero": "as Python's integers say it",
    "unhashable type: SymInt": "as hash() says it",
    "unhashable type: SymFloat": "as hash() says it",
}
# The form of the argument parser in C++, whose words programs and PyTorch's tests look for.
PARSED = re.compile(r"[\w{}]+\(\): argument '[\w{}]+' must be [\w{}]+, not \{\}")
ARGUMENT_ERRORS = ("ValueError", "TypeError", "IndexError")
# Messages that show the value in another place.
VALUE_ELSEWHERE = {
    "wrap: Unsupported type {}": "the value comes before the expectation",
    "ExecutionTraceObserver.start: expected a thread": "the state that was found is the opposite",
    "distributed: expected an initialized group": "the state that was found is the opposite",
    "{}: No backend type associated with device type {}": "the value comes before the expectation",
}
EXPECTED, GIVEN = re.compile(r"\bexpect(?:s|ed)\b", re.IGNORECASE), re.compile(r"\b(?:got|found|but)\b")
# Beside the forms that test/docs/test_phrasing.py refuses everywhere.
PHRASES = re.compile(r"\bis no\b|exclude[sd]? (?:each|it)|contradict")


class Raised(NamedTuple):
    """A raise statement: where it stands, the exception's class and the text, with {} for values."""

    path: str
    line: int
    kind: str
    text: str


def text_of(node: ast.expr) -> str | None:
    """Return the text of a constant or an f-string, with {} for each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
    return None


def raised(source: str, path: str) -> Iterator[Raised]:
    """Every raise of a class whose first argument is a constant or an f-string."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args):
            continue
        kind = ast.unparse(node.exc.func).rpartition(".")[2]
        text = text_of(node.exc.args[0])
        if text is not None and kind[0].isupper():
            yield Raised(path, node.lineno, kind, text)


@functools.cache
def package() -> tuple[Raised, ...]:
    """All raises of the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return tuple(r for p in paths for r in raised(p.read_text(), p.relative_to(PACKAGE).as_posix()))


@functools.cache
def handwritten() -> tuple[Raised, ...]:
    """All raises of the package except those of completed files and exempt types."""
    found = (r for r in package() if not r.path.startswith((*COMPLETED, *WITHOUT_CALLER)))
    return tuple(r for r in found if r.kind not in EXEMPT_TYPES and r.text not in SENTENCES)


@functools.cache
def defined_names() -> frozenset[str]:
    """Names of the functions, methods, classes, module constants and modules of the package."""
    paths = list(PACKAGE.rglob("*.py"))
    found = {path.stem for path in paths} | {path.parent.name for path in paths}
    for path in paths:
        tree = ast.parse(path.read_text())
        found |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        assigned = (n for n in tree.body if isinstance(n, ast.Assign))
        found |= {t.id for n in assigned for t in n.targets if isinstance(t, ast.Name)}
    return frozenset(found)


def is_public(name: str) -> bool:
    """Whether the head of a message is the name of a function, class or module; {} stands for any."""
    names = re.sub(r"\([^:]*\)", "", name).split(", ")
    return all(
        "{}" in one
        or one.rpartition(".")[2] in defined_names()
        or any(hasattr(space, one.rpartition(".")[2]) for space in SPACES)
        for one in names
    )


def has_head(text: str) -> bool:
    """Whether a message begins with a public name and a colon."""
    head = HEAD.match(text)
    return head is not None and is_public(head["name"])


def is_expectation(text: str) -> bool:
    """Whether a message says what was expected and what was given."""
    return PARSED.fullmatch(text) is not None or ("expected" in text.lower() and "got" in text)


def test_each_message_begins_with_a_public_name():
    assert len(handwritten()) > 600
    assert [r for r in handwritten() if not has_head(r.text)] == []


def test_errors_about_arguments_say_what_was_expected_and_given():
    about = [r for r in handwritten() if r.kind in ARGUMENT_ERRORS]
    assert len(about) > 350
    assert [r for r in about if not is_expectation(r.text)] == []


@functools.cache
def everywhere() -> tuple[Raised, ...]:
    """All raises of the package whose exception is not an AssertionError, which checks the project itself."""
    found = (r for r in package() if not r.path.startswith(tuple(WITHOUT_CALLER)))
    return tuple(r for r in found if r.kind != "AssertionError" and r.kind not in EXEMPT_TYPES)


def test_what_was_expected_is_followed_by_what_was_given():
    expecting = [r for r in everywhere() if EXPECTED.search(r.text)]
    assert len(expecting) > 700
    known = tuple(VALUE_ELSEWHERE)
    assert [r for r in expecting if not GIVEN.search(r.text) and not r.text.startswith(known)] == []


def test_no_message_has_a_refused_phrase():
    assert [r for r in handwritten() if PHRASES.search(r.text)] == []


@pytest.mark.parametrize("key", [*EXEMPT_TYPES, *COMPLETED, *WITHOUT_CALLER, *SENTENCES, *VALUE_ELSEWHERE])
def test_no_exemption_is_idle(key):
    assert any(r.kind == key or r.text.startswith(key) or r.path.startswith(key) for r in package())


def test_messages_of_another_form_are_found():
    assert not has_head("expected a list, got {}")
    assert not has_head("no such thing anywhere: expected a list, got {}")
    assert not is_expectation("Linear: in_features must be positive")
    assert has_head("vmap({})(<inputs>): expected a Tensor, got {}") and has_head("{}: expected 1, got {}")
    (found,) = raised("def f(x):\n    raise m.Error(f'f: expected 1, got {x}')\n", "f.py")
    assert found == ("f.py", 2, "Error", "f: expected 1, got {}")
