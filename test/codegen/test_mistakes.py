"""Every mistake an author makes: code, line, column and remedy, written beside the mistake itself.

A case stands in mistakes/*.case below a line `=== title`. Its YAML is added to the fixture's (`alone`
in the title: it replaces it). A line `#   ^ FB0101 phrase` expects a diagnostic with this code at the
caret's column of the line above it, whose message or hint holds the phrase; `#@1 FB0101 phrase` gives the
column as a number. `--- derivatives` and `--- path` begin further files. Exactly the expected diagnostics
must be found.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from codegen.load import load
from codegen.source.diagnostics import CODES, Diagnostic

HERE = Path(__file__).parent
FIXTURE = HERE / "fixture"
EXPECT = re.compile(r"^(?:#|//)(?:@(?P<column>\d+)|(?P<indent> *)\^) (?P<code>FB\d{4}) (?P<phrase>.+)$")


@dataclass
class Case:
    title: str
    files: dict[str, list[str]] = field(default_factory=dict)
    expected: list[tuple[str, int, int, str, str]] = field(default_factory=list)

    @property
    def alone(self) -> bool:
        return "(alone)" in self.title


def read_cases(path: Path) -> list[Case]:
    cases: list[Case] = []
    name = "native"
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("=== "):
            cases.append(Case(f"{path.stem}: {line[4:]}"))
            name = "native"
        elif line.startswith("--- "):
            name = line[4:]
        elif match := EXPECT.match(line):
            prefix = 1 if line.startswith("#") else 2
            column = int(match["column"]) if match["column"] else len(match["indent"]) + prefix + 1
            row = len(cases[-1].files[name])
            cases[-1].expected.append((name, row, column, match["code"], match["phrase"]))
        elif cases:
            cases[-1].files.setdefault(name, []).append(line)
    return cases


CASES = [case for path in sorted(HERE.glob("mistakes/*.case")) for case in read_cases(path)]


def run_case(case: Case, folder: Path) -> tuple[list[Diagnostic], dict[str, int]]:
    """Write the case's files over a copy of the fixture; return diagnostics and line offsets."""
    root = folder / "root"
    shutil.copytree(FIXTURE, root)
    offsets: dict[str, int] = {}
    for name, lines in case.files.items():
        whole = {"native": "native_functions.yaml", "derivatives": "derivatives.yaml"}
        path = root / whole.get(name, name)
        head = path.read_text() + "\n" if name in whole and not case.alone else ""
        if case.alone:
            (root / "derivatives.yaml").write_text("")
            shutil.rmtree(root / "aten", ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + "\n".join(lines) + "\n")
        offsets[name] = head.count("\n")
    _, found = load(root / "native_functions.yaml", root / "derivatives.yaml", root)
    return found, offsets


def file_of(name: str) -> str:
    return {"native": "native_functions.yaml", "derivatives": "derivatives.yaml"}.get(name, name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_mistake_is_answered_where_it_stands(case: Case, tmp_path: Path):
    found, offsets = run_case(case, tmp_path)
    shown = "\n".join(f"{d.file}:{d.line}:{d.column} {d.code} {d.message} | {d.hint}" for d in found)
    places = {(d.line, d.column, d.code): d for d in found}
    for name, row, column, code, phrase in case.expected:
        place = (row + offsets[name], column, code)
        assert place in places, f"expected {file_of(name)}:{place} in\n{shown}"
        diagnostic = places.pop(place)
        assert diagnostic.file.endswith(file_of(name))
        assert phrase in f"{diagnostic.message} | {diagnostic.hint}", shown
        assert diagnostic.hint, "a diagnostic without a remedy"
    assert not places, f"not expected:\n{shown}"
    assert case.expected


def test_the_fixture_itself_is_sound():
    model, found = load(FIXTURE / "native_functions.yaml", FIXTURE / "derivatives.yaml", FIXTURE)
    assert not found
    assert model is not None


def test_every_code_has_a_case():
    # FB0005 needs an unreadable file, FB0601 another table: test_command_line.py tests them.
    # FB0114 is of our files alone: test_documentation.py tests it.
    tested = {code for case in CASES for *_, code, _ in case.expected}
    assert set(CODES) - tested == {"FB0005", "FB0114", "FB0601"}


def test_enough_mistakes():
    assert len(CASES) >= 35
