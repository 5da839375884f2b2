"""FileCheck: expectations about a text, in the order in which they must be met."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

_COMMENT = re.compile(
    r"#\s*(CHECK(?:-NOT|-SAME|-NEXT|-DAG|-REGEX|-SOURCE-HIGHLIGHTED)?|CHECK-COUNT-(\d+)(-EXACTLY)?): ([^\n]*)"
)


@dataclass
class _Check:
    kind: str
    text: str
    count: int = 1
    exactly: bool = False

    @property
    def label(self) -> str:
        number = f"-{self.count}" if self.kind == "CHECK-COUNT" else ""
        return f"{self.kind}{number}: {self.text}"


def _fail(problem: str, text: str, check: _Check) -> None:
    raise RuntimeError(f"FileCheck.run: {problem}\nText:\n{text}\nCheck: {check.label}")


def _find(text: str, check: _Check, begin: int) -> tuple[int, int]:
    """Return where the check's text stands at or after a place; RuntimeError if nowhere."""
    if check.kind == "CHECK-REGEX":
        if found := re.compile(check.text).search(text, begin):
            return found.span()
        _fail(f'Expected to find regex "{check.text}" after position {begin}', text, check)
    place = text.find(check.text, begin)
    if place < 0:
        _fail(f'Expected to find "{check.text}" after position {begin}', text, check)
    return place, place + len(check.text)


def _absent(text: str, word: str, begin: int, end: int, check: _Check) -> None:
    if (place := text.find(word, begin, end)) >= 0:
        _fail(f"Expected to not find {word!r} in positions {begin} to {end}, got it at {place}", text, check)


def _is_marked(text: str, begin: int, end: int) -> bool:
    """Whether the line below has ~ under these characters, and not beside them."""
    start = text.rfind("\n", 0, begin) + 1
    below = text.find("\n", end)
    if below < 0:
        return False
    first, last = below + 1 + begin - start, below + 1 + end - start
    inside = last < len(text) and set(text[first:last]) == {"~"}
    return inside and text[last] != "~" and (first == below + 1 or text[first - 1] != "~")


def _find_marked(text: str, check: _Check, begin: int) -> tuple[int, int]:
    found = _find(text, check, begin)
    while not _is_marked(text, *found):
        place = text.find(check.text, found[1])
        if place < 0:
            _fail(f'Expected to find "{check.text}" highlighted by ~ below it', text, check)
        found = place, place + len(check.text)
    return found


class FileCheck:
    """Expectations that `run` checks against a text, each from where the one before was met.

    >>> FileCheck().check("conv").check_not("relu").check("linear").run("conv linear relu")
    """

    def __init__(self) -> None:
        self._checks: list[_Check] = []

    def _add(self, kind: str, text: str, count: int = 1, exactly: bool = False) -> Self:
        self._checks.append(_Check(kind, text, count, exactly))
        return self

    def check(self, text: str, /) -> Self:
        """Expect a text."""
        return self._add("CHECK", text)

    def check_not(self, text: str, /) -> Self:
        """Expect that a text is not between the checks before and after, or the ends."""
        return self._add("CHECK-NOT", text)

    def check_same(self, text: str, /) -> Self:
        """Expect a text with no end of line before it."""
        return self._add("CHECK-SAME", text)

    def check_next(self, text: str, /) -> Self:
        """Expect a text in the next line."""
        return self._add("CHECK-NEXT", text)

    def check_count(self, text: str, count: int, exactly: bool = False, /) -> Self:
        """Expect a text `count` times; with `exactly`, not once more before the next check."""
        if count == 0 and not exactly:
            raise RuntimeError("FileCheck.check_count: expected count > 0 or exactly=True, got 0 and False")
        self._add("CHECK-COUNT", text, count, exactly)
        return self._add("CHECK-NOT", text) if exactly else self

    def check_dag(self, text: str, /) -> Self:
        """Expect a text; neighbours of this kind may come in any order."""
        return self._add("CHECK-DAG", text)

    def check_source_highlighted(self, text: str, /) -> Self:
        """Expect a text that is underlined by ~ in the line below."""
        return self._add("CHECK-SOURCE-HIGHLIGHTED", text)

    def check_regex(self, text: str, /) -> Self:
        """Expect a match of a regular expression."""
        return self._add("CHECK-REGEX", text)

    def run(self, checks_file: Any, test_file: Any = None) -> None:
        """Check a text or graph; of two arguments the first has the checks as comments, ``# CHECK: text``.

        Raises: RuntimeError at the first check that is not met, or if there is none.
        """
        for given in (checks_file, test_file):
            if not isinstance(given, str) and not hasattr(given, "nodes") and given is not None:
                raise TypeError(f"FileCheck.run: expected a str or a Graph, got {type(given).__name__}")
        if test_file is not None:
            self._read(str(checks_file))
        if not self._checks:
            raise RuntimeError("FileCheck.run: No checks have been added")
        self._compare(str(checks_file if test_file is None else test_file))

    def _read(self, text: str) -> None:
        for line in text.split("\n"):
            found = _COMMENT.search(line)
            if found is None and re.search(r"#\s*CHECK", line):
                raise RuntimeError(f"FileCheck.run: Could not parse check in {line!r}")
            if found and found[2]:
                self.check_count(found[4], int(found[2]), found[3] is not None)
            elif found:
                self._add(found[1], found[4])

    def _compare(self, text: str) -> None:
        place, forbidden, i = 0, [], 0
        while i < len(self._checks):
            check = self._checks[i]
            group = [check]
            if check.kind == "CHECK-NOT":
                forbidden.append(check)
                i += 1
                continue
            while check.kind == "CHECK-DAG" and [c.kind for c in self._checks[i + len(group) :][:1]] == [
                "CHECK-DAG"
            ]:
                group.append(self._checks[i + len(group)])
            begin, end = self._met(text, group, place)
            for other in forbidden:
                _absent(text, other.text, place, begin, other)
            place, forbidden, i = end, [], i + len(group)
        for other in forbidden:
            _absent(text, other.text, place, len(text), other)

    def _met(self, text: str, group: list[_Check], place: int) -> tuple[int, int]:
        """Return where the checks of a group are met: the first begin and the last end."""
        check = group[0]
        if check.kind == "CHECK-DAG":
            spans = [_find(text, each, place) for each in group]
            return min(begin for begin, _ in spans), max(end for _, end in spans)
        if check.kind == "CHECK-COUNT":
            begin = end = place
            for i in range(check.count):
                found = _find(text, check, end)
                begin, end = found[0] if i == 0 else begin, found[1]
            return begin, end
        if check.kind == "CHECK-SOURCE-HIGHLIGHTED":
            return _find_marked(text, check, place)
        begin, end = _find(text, check, place)
        if check.kind == "CHECK-SAME":
            _absent(text, "\n", place, begin, check)
        if check.kind == "CHECK-NEXT":
            line = _find(text, _Check("CHECK-NEXT", "\n"), place)[1]
            _absent(text, "\n", line, begin, check)
        return begin, end
