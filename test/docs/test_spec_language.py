"""docs/spec-language.md names every word of the language; the tables of the generator say which there are."""

import re
from pathlib import Path

import pytest

from codegen.__main__ import COMMANDS
from codegen.language.host_functions import host_functions
from codegen.language.tensor_expr import PROPERTIES
from codegen.reading import keys

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spec-language.md"
WORDS = {
    "keys": [*keys.ENTRY, *keys.REDUCE, *keys.SWITCH, *keys.TEST, *keys.DERIVATIVE],
    "values": [*keys.VARIANTS, *keys.NAMESPACES, *keys.DTYPE_RULES, *keys.CATEGORIES, *keys.TAGS],
    "kernels": [*keys.BACKENDS, *keys.COMBINES, *keys.EMPTY],
    "formulas": [*keys.FORWARD_RULES, *keys.NO_GRADIENT],
    "reserved names": list(keys.RESERVED_ARGS),
    "host functions": list(host_functions()),
    "properties": list(PROPERTIES),
    "commands": [f"codegen {name}" for name in COMMANDS],
}


def code_of(page: str) -> str:
    """Everything that the page writes as code."""
    fenced = re.findall(r"^```.*?^```", page, re.DOTALL | re.MULTILINE)
    inline = re.findall(r"`[^`]+`", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE))
    return "\n".join([*fenced, *inline])


@pytest.mark.parametrize("kind", WORDS)
def test_the_page_names_every_word(kind: str):
    code = code_of(PAGE.read_text())
    missing = [word for word in WORDS[kind] if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", code)]
    assert missing == []


def test_infix_operators_are_those_of_the_page():
    code = code_of(PAGE.read_text())
    assert [symbol for symbol in keys.INFIX if symbol not in code] == []


def test_every_row_of_a_table_belongs_to_one():
    """A blank line within a table makes text of the rows below it."""
    orphans = []
    for page in sorted(PAGE.parent.rglob("*.md")):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for block in re.split(r"\n\s*\n", text):
            rows = [line for line in block.splitlines() if line.startswith("|")]
            if rows and not (len(rows) > 1 and re.fullmatch(r"\|[-:| ]+\|", rows[1])):
                orphans.append(f"{page.name}: {rows[0][:60]}")
    assert orphans == []
