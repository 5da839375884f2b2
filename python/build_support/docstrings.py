"""Reads the docstrings of the package: a summary, titled sections, an example.

Handwritten docstrings and the generated texts of operators have the same form; titles that mean the same
("Arguments" and "Args") are read as one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

TITLES = {
    "Overloads": "Overloads",
    "Formula": "Formula",
    "Args": "Args",
    "Arguments": "Args",
    "Attributes": "Attributes",
    "Returns": "Returns",
    "Yields": "Returns",
    "Shape": "Shape",
    "Shapes": "Shape",
    "Dtypes": "Dtypes",
    "Gradient": "Gradient",
    "Raises": "Raises",
    "Note": "Notes",
    "Notes": "Notes",
    "See also": "See also",
    "Source": "Source",
    "Example": "Example",
    "Examples": "Example",
}
_HEAD = re.compile(rf"({'|'.join(TITLES)}):(?:\s+(.*))?$")
_ARGUMENT = re.compile(r"((?:\*{0,2}\w+(?:, )?)+)(?: \(.*?\))?:(?:\s+|$)(.*)")
_ALIAS = re.compile(r"\balias of `([\w.]+)`", re.IGNORECASE)
_AS_FOR = re.compile(r"\s*As for `([\w.]+)`", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of one docstring.

    `sections` maps a title to its text without the indentation, `arguments` a parameter's name to its text.
    `body` is what stands between the summary and the first section.
    """

    summary: str
    body: str = ""
    sections: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)

    @property
    def alias_of(self) -> str | None:
        """The name that this one is an alias of, if the text says so."""
        found = _ALIAS.search(f"{self.summary} {self.body}")
        return found[1] if found else None

    @property
    def as_for(self) -> str | None:
        """The name whose arguments are these, where `Args` refers to it instead of listing them."""
        found = _AS_FOR.match(self.sections.get("Args", ""))
        return found[1] if found else None


def public_members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the classes and functions that a module shows, without what it imports for its own use."""
    listed = getattr(module, "__all__", None)
    home = module.__name__ if listed is None else "flambeau."
    for name in sorted(set(listed or [n for n in dir(module) if not n.startswith("_")])):
        value = getattr(module, name, None)
        place = getattr(value, "__module__", None) or ""
        if callable(value) and place.startswith(home) and not place.startswith("flambeau._C"):
            yield name, value


def parse(text: str | None) -> Docstring:
    """Return the parts of a docstring; signatures before the summary are left out.

    A line such as ``Shape: text`` opens a section, which ends before the next line at its indentation.
    """
    lines = inspect.cleandoc(text or "").split("\n")
    while lines and re.match(r"\w+\(.*\)$", lines[0]):
        del lines[0]
    paragraph, rest = _paragraph(lines)
    body: list[str] = []
    sections: dict[str, list[str]] = {}
    place = body
    for line in rest:
        head = _HEAD.match(line)
        if head:
            place = sections.setdefault(TITLES[head[1]], [])
            if head[2]:
                place.append(head[2])
            continue
        if line and not line.startswith(" "):
            place = sections.setdefault("Example", []) if line.startswith(">>>") else body
        place.append(line)
    texts = {title: _dedented(found) for title, found in sections.items()}
    return Docstring(
        " ".join(paragraph), "\n".join(body).strip(), texts, dict(_arguments(texts.get("Args", "")))
    )


def _paragraph(lines: list[str]) -> tuple[list[str], list[str]]:
    """Split lines behind the first paragraph."""
    start = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    end = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
    end = next((i for i in range(start, end) if _HEAD.match(lines[i])), end)
    return [line.strip() for line in lines[start:end]], lines[end:]


def _dedented(lines: list[str]) -> str:
    """Return lines without their common indentation; the first may stand beside the title."""
    first, rest = lines[:1], lines[1:]
    if first and first[0].startswith(" "):
        first, rest = [], lines
    return "\n".join([*first, *inspect.cleandoc("\n".join(["", *rest])).split("\n")]).strip()


def _arguments(section: str) -> Iterator[tuple[str, str]]:
    names: list[str] = []
    texts: list[str] = []
    for line in [*section.split("\n"), "end:"]:
        head = _ARGUMENT.match(line)
        if head:
            yield from ((name, " ".join(texts).strip()) for name in names)
            names, texts = head[1].split(", "), [head[2]]
        elif names:
            texts.append(line.strip())
