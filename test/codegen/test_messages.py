"""Messages of operators: each begins with the name of an operator that users can call."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flambeau
import pytest

from codegen.load import load
from codegen.model.operators import Check, Operator
from codegen.model.statements import Raise

HEAD = re.compile(r"(?P<name>[a-z_{}][\w.{}]*)(\(\))?: ")
SPACES = (flambeau, flambeau.nn.functional, flambeau.Tensor, flambeau.linalg, flambeau.fft, flambeau.special)


def parts_of(value: Any) -> Iterator[Check | Raise]:
    """Every check and every raise in a part of the model."""
    if isinstance(value, Check | Raise):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from parts_of(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from parts_of(getattr(value, field.name))


def shown(message: tuple[Any, ...]) -> str:
    return "".join(part if isinstance(part, str) else "{}" for part in message)


@functools.cache
def operators() -> tuple[Operator, ...]:
    model, _ = load(keep_going=True)
    assert model is not None
    return tuple(model.operators)


def messages() -> list[tuple[str, str]]:
    """Operator and message, with ``{}`` where a value is shown."""
    found = [(op.schema.name.base, shown(part.message)) for op in operators() for part in parts_of(op)]
    return sorted(set(found))


def is_callable(name: str, bases: set[str]) -> bool:
    """Whether a name, as a message has it, is that of something to call."""
    flat = name.replace(".", "_")
    if "{" in name or {flat, f"_{flat}"} & bases:
        return True
    *modules, last = name.split(".")
    spaces = [functools.reduce(getattr, modules, flambeau)] if modules else SPACES
    return any(hasattr(space, last) for space in spaces)


def test_each_message_begins_with_an_operator():
    found = messages()
    bases = {op.schema.name.base for op in operators()}
    assert len(found) > 400
    bad = []
    for base, text in found:
        head = HEAD.match(text)
        if head is None or not is_callable(head["name"], bases):
            bad.append((base, text))
    assert bad == []


def test_a_message_without_its_operator_would_be_found():
    assert HEAD.match("dim {} was named, but the tensor has none") is None
    assert HEAD.match("Subtraction, the `-` operator: expected") is None
    assert HEAD.match(".det: expected square matrices") is None
    assert not is_callable("feature", set()) and is_callable("linalg.solve", {"linalg_solve"})


EXPECTED, GIVEN = re.compile(r"\bexpect(?:s|ed)\b", re.IGNORECASE), re.compile(r"\b(?:got|found|but)\b")
# Whole messages that programs match on, and states in which no argument is at fault.
OTHER_FORMS = {
    "copy_: Cannot copy out of meta tensor": "PyTorch's words",
    "is_nonzero: Boolean value of Tensor with": "PyTorch's words",
    "index: The shape of the mask": "NumPy's and PyTorch's words",
    "linalg.qr: its gradient needs Q": "no argument of the call is at fault",
    "linalg.qr: not differentiable": "no argument of the call is at fault",
}


def is_expectation(text: str) -> bool:
    return bool(EXPECTED.search(text) and GIVEN.search(text))


def test_each_message_says_what_was_expected_and_given():
    bad = [(op, text) for op, text in messages() if not is_expectation(text)]
    assert [row for row in bad if not row[1].startswith(tuple(OTHER_FORMS))] == []
    assert not is_expectation("sum: expected a number") and not is_expectation("sum: got 3")


@pytest.mark.parametrize("start", OTHER_FORMS)
def test_no_exemption_is_idle(start: str):
    assert any(text.startswith(start) and not is_expectation(text) for _, text in messages())


# --- operators written in Python ----------------------------------------------------------------------

PACKAGE = Path(flambeau.__file__).parent
WRITTEN = ("_operators/*.py", "functional.py", "nn/functional/*.py", "signal/*.py", "sparse/*.py")
PYTHON_HEAD = re.compile(r"[A-Za-z_{][\w.{}' ]*(\(\))?: |\{|[a-z_]+\(\)|module '")


def raised_texts(source: str) -> Iterator[str]:
    """First arguments of the exceptions that a module raises, with ``{}`` where a value is shown."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = node.exc.args[0]
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            if isinstance(text, ast.JoinedStr | ast.Constant):
                yield "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)


def test_operators_written_in_python_name_themselves():
    files = [path for pattern in WRITTEN for path in PACKAGE.glob(pattern)]
    found = [(path.name, text) for path in files for text in raised_texts(path.read_text())]
    assert len(found) > 150
    assert [row for row in found if not PYTHON_HEAD.match(row[1])] == []


def test_a_python_message_without_its_operator_would_be_found():
    (text,) = raised_texts("def f(x):\n    raise ValueError(f'expected a list, got {x}')\n")
    assert text == "expected a list, got {}" and not PYTHON_HEAD.match(text)
