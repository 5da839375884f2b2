"""Forms of English that the house style refuses, in handwritten code, messages and pages.

Definitions and messages name the actor and use the field's word ("except", "default", "cumulative").
"""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Form -> what to write instead.
REFUSED = {
    r"(?<!none )(?<!each )(?<!all )(?<!one )(?<!either )of which\b": "a sentence of its own, or 'whose'",
    r"\bthat which\b": "the noun",
    r"\b[Ww]hoever\b": "the actor's name",
    r"\bbut along\b": "'except'",
    r"\bNone unless\b": "'Default: None', or 'None without'",
    r"\bis said by\b": "who reports it, in the active voice",
    r"\bis its price\b": "what is slower, and why",
    r"\bof no others?\b": "what it depends on",
    r"\bNothing of this\b": "what does happen",
    r"\b[Ww]hat stands? behind\b": "the value, the function or the tensor, by its name",
    r"\b(?:its|their) kin\b": "'and others', or the names",
    r"\b(?:a|any|less|more|no) say\b": "'takes part in', 'has the lower priority'",
    r"\blets? go of\b": "'releases'",
    r"\bfurther on\b": "'later', or the distance",
    r"\b(?:has|have) no use for\b": "'does not need', or 'does not apply to'",
    r"\bas ever\b": "'as usual', or what happens",
    r"\btold once\b": "'in one table'",
    r"\bin the wild\b": "'existing programs'",
    r"\bnot to blame\b": "which mistake is not reported",
    r"\bwhat (?:it|each|another one) hands on\b": "'its result'",
    r"\bsays otherwise\b": "the condition: 'if `x` is None'",
    r"\bnobody (?:sees|wrote)\b": "the adjective: 'invisible', 'uninitialized'",
    r"\bthings with\b": "the noun: 'collections of'",
}
PATTERN = re.compile("|".join(f"(?:{form})" for form in REFUSED))
SUFFIXES = (".py", ".pyi", ".h", ".cpp", ".cu", ".cuh", ".md", ".j2")


def handwritten() -> list[Path]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    files = [ROOT / name for name in names if name.endswith(SUFFIXES)]
    return [p for p in files if p.is_file() and p != Path(__file__).resolve()]


def refused(text: str) -> list[tuple[int, str]]:
    """Line and words of each refused form."""
    lines = enumerate(text.splitlines(), start=1)
    return [(number, found[0]) for number, line in lines for found in PATTERN.finditer(line)]


def test_handwritten_text_has_no_refused_form():
    files = handwritten()
    if not files:
        pytest.skip("needs a checkout")
    assert len(files) > 500
    assert [(str(p.relative_to(ROOT)), *hit) for p in files for hit in refused(p.read_text())] == []


@pytest.mark.parametrize(
    "line",
    [
        "Sizes must match but along dimension 0",
        "// a list of which one is sparse",
        "# The error is said by the operator.",
        "None unless given",
        "// What stands behind a wrapper.",
        "`double` and their kin make new parameters",
        "operands that have no say in the dtype",
        "// Whoever writes calls make_writable.",
    ],
)
def test_a_refused_form_is_found(line):
    assert refused(line)


def test_plain_forms_pass():
    assert refused("several outputs, none of which may change; all of which are equal") == []
