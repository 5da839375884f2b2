"""Mistakes in the YAML, with their position and remedy.

Codes are stable: scripts and editors may match on them. `docs/spec-language.md` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the answer that an earlier `check` gave is shown without the model
    from codegen.model import Position

CODES: dict[str, str] = {
    # FB00xx: the YAML file itself
    "FB0001": "broken YAML",
    "FB0002": "tab in the indentation",
    "FB0003": "duplicate key",
    "FB0004": "not the expected YAML structure",
    "FB0005": "file cannot be read",
    # FB01xx: keys of an entry
    "FB0101": "unknown key",
    "FB0102": "missing key",
    "FB0103": "value of the wrong kind",
    "FB0104": "unknown value",
    "FB0105": "not exactly one key that says how to compute",
    "FB0106": "key that does not belong to this kind of operator",
    "FB0107": "duplicate operator",
    "FB0108": "reserved name",
    "FB0109": "unknown backend",
    "FB0110": "test specification that tests nothing",
    "FB0111": "reference that does not resolve",
    "FB0112": "sample call that does not fit the schema",
    "FB0113": "error that is not an exception",
    "FB0114": "public operator without documentation",
    # FB02xx: schemas
    "FB0201": "broken schema syntax",
    "FB0202": "unknown type",
    "FB0203": "wrong alias annotation",
    "FB0204": "wrong out argument",
    "FB0205": "default that does not fit the type",
    "FB0206": "duplicate or misplaced argument",
    "FB0207": "in-place form that does not return self",
    "FB0208": "variant that the schema does not allow",
    "FB0209": "two forms with one name",
    "FB0210": "number of results that other keys contradict",
    # FB03xx: expressions
    "FB0301": "expression syntax",
    "FB0302": "unknown name",
    "FB0303": "unknown operator or primitive",
    "FB0304": "wrong number of arguments",
    "FB0305": "unknown argument name",
    "FB0306": "type mismatch",
    "FB0307": "construct outside the language",
    "FB0308": "primitive not defined for a dtype",
    "FB0309": "value that is never used",
    "FB0310": "composite that always calls itself",
    "FB0311": "part not defined for a dtype that the composite claims",
    "FB0312": "body with a path that does not return, or an unreachable statement",
    "FB0313": "batching rule that calls its own operator with the same tensors",
    # FB04xx: derivatives
    "FB0401": "derivative of an unknown operator",
    "FB0402": "missing derivative",
    "FB0403": "superfluous derivative",
    "FB0404": "derivative of a non-differentiable argument",
    "FB0405": "forward rule for a non-existent output",
    "FB0406": "wrong number of gradients",
    "FB0407": "duplicate derivative",
    "FB0408": "in-place call in a formula",
    "FB0409": "key that names neither an argument nor an output",
    # FB05xx: handwritten sources
    "FB0501": "kernel without a definition",
    "FB0502": "kernel that no entry declares",
    "FB0503": "shape rule without a definition",
    "FB0504": "view rule without a definition",
    "FB0505": "handwritten function of other types",
    # FB06xx: the primitive table
    "FB0601": "wrong row of the primitive table",
}


LONGEST = 400  # characters of a message, which may quote a value


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One mistake. `length` is the number of characters that the caret underlines."""

    file: str
    line: int
    column: int
    code: str
    message: str
    hint: str
    length: int = field(default=1, compare=False)
    # Operators, by the names and symbols that call them, whose mistakes may be what is wrong here.
    about: frozenset[str] = field(default=frozenset(), compare=False)
    group: str = field(default="", compare=False)  # diagnostics of one group are one mistake

    def as_json(self) -> dict[str, str | int]:
        """Return the fields that `check --format json` prints."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
        }


class Collector:
    """Gathers diagnostics; all stages of loading share one, so that one run reports everything."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}

    def add(
        self,
        at: Position,
        code: str,
        message: str,
        hint: str = "",
        length: int = 1,
        *,
        about: Iterable[str] = (),
        group: str = "",
    ) -> None:
        """Record one mistake; the same mistake at the same place counts once."""
        assert code in CODES, code
        message = message if len(message) <= LONGEST else f"{message[: LONGEST // 2]} ... {message[-40:]}"
        place = (at.file, at.line, at.column)
        diagnostic = Diagnostic(*place, code, message, hint, max(1, length), frozenset(about), group)
        self._found.setdefault(diagnostic)

    @property
    def found(self) -> tuple[Diagnostic, ...]:
        """All that was recorded, consequences included."""
        return tuple(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def sorted(self) -> list[Diagnostic]:
        """All diagnostics in file order."""
        return sorted(self._found)


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that `word` was probably meant to be."""
    room = max(2, len(word) // 2)  # difflib is slow; other lengths cannot be close
    return _closest(word, tuple(c for c in candidates if abs(len(c) - len(word)) <= room))


@cache
def _closest(word: str, candidates: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches  # 10 ms to import, only needed for a mistake

    matches = get_close_matches(word, candidates, n=1, cutoff=0.6)
    return matches[0] if matches else None


def edits_apart(one: str, other: str) -> int:
    """Return how many characters must be inserted, removed or replaced to make one word of the other."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        before, row = row, [i]
        for j, right in enumerate(other, 1):
            row.append(min(row[-1] + 1, before[j] + 1, before[j - 1] + (left != right)))
    return row[-1]


def did_you_mean(word: str, candidates: Iterable[str], listing: str = "") -> str:
    """Return "did you mean 'x'?", or the list of what is allowed when nothing is close."""
    known = list(candidates)
    match = closest(word, known)
    if match is not None:
        return f"did you mean '{match}'?"
    if listing and len(known) <= 24:
        return f"{listing}: {', '.join(known)}"
    return ""


def render_text(found: Iterable[Diagnostic], lines_of: Callable[[str], list[str]]) -> Iterator[str]:
    """Yield one block per diagnostic: location, message, source line, caret, remedy."""
    for d in found:
        yield f"{d.file}:{d.line}:{d.column}: {d.code}: {d.message}"
        lines = lines_of(d.file)
        if 0 < d.line <= len(lines):
            text = lines[d.line - 1]
            gutter = f"{d.line:>6} | "
            indent = "".join("\t" if c == "\t" else " " for c in text[: d.column - 1])
            room = max(1, len(text) - d.column + 1)
            yield gutter + text
            yield " " * (len(gutter) - 2) + "| " + indent + "^" + "~" * (min(d.length, room) - 1)
        if d.hint:
            yield f"        hint: {d.hint}"


def render_json(found: Iterable[Diagnostic]) -> str:
    """Return the JSON list that `check --format json` prints."""
    import json  # a check of sound files does without it

    return json.dumps([d.as_json() for d in found], indent=1)
