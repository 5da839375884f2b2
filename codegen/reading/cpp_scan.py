"""A quick reader of handwritten C++: which functions are defined at namespace scope, with which types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codegen.model import Position
from codegen.source.memory import Memory, digest

# A definition begins in the first column: `void softmax_cpu(`; a declaration ends with `;`.
_HEAD = re.compile(r"^([\w:<>,*&\[\] ]+[ &*>])?([A-Za-z_]\w*)\(", re.MULTILINE)
_NAMESPACE = re.compile(
    r"^(?:inline )?namespace\b *([\w:]*) *\{|^\}  // (?:namespace|anonymous)", re.MULTILINE
)
_KEYWORDS = ("if", "for", "while", "switch", "return", "sizeof", "static_assert", "defined")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_ALIASES = {"ArrayRef<int64_t>": "IntArrayRef", "ArrayRef<Tensor>": "TensorList"}


@dataclass(frozen=True, slots=True)
class Definition:
    """A function defined at namespace scope, not in an anonymous namespace."""

    name: str
    namespace: str
    position: Position
    returns: str
    types: tuple[str, ...]  # of the parameters, normal form


# The same as plain data: what Memory keeps.
Plain = tuple[str, str, int, int, str, tuple[str, ...]]


def definitions(path: Path, shown: str, memory: Memory) -> list[Definition]:
    """Return the functions that a C++ file defines; of a text that was read before, what was found then."""
    text = path.read_text(encoding="utf-8", errors="replace")
    plain: list[Plain] = memory.recall(digest(text), lambda: _scan(text))
    return [
        Definition(name, namespace, Position(shown, line, column), returns, types)
        for name, namespace, line, column, returns, types in plain
    ]


def _scan(text: str) -> list[Plain]:
    events = [(m.start(), m, True) for m in _NAMESPACE.finditer(text)]
    events += [(m.start(), m, False) for m in _HEAD.finditer(text)]
    stack: list[str] = []
    found: list[Plain] = []
    for offset, match, is_namespace in sorted(events, key=lambda event: event[0]):
        if is_namespace:
            if match.group().startswith("}"):
                del stack[-1:]
            else:
                stack.append(match.group(1))
        elif "" not in stack and (end := _body_after(text, match)):
            line = text.count("\n", 0, offset) + 1
            column = match.start(2) - text.rfind("\n", 0, match.start(2))
            types = tuple(parameter_types(text[match.end() : end]))
            returns = normal_type(match.group(1) or "")
            found.append((match.group(2), "::".join(stack), line, column, returns, types))
    return found


def _body_after(text: str, match: re.Match[str]) -> int | None:
    """Return where the parameter list closes, if a body follows."""
    head = match.group()
    if match.group(2) in _KEYWORDS or head.startswith(("static ", "using ", "return ", "#")):
        return None
    if " " not in head:
        return None  # a macro or a call: definitions name their return type
    end = _closing(text, match.end() - 1)
    opens = re.match(r"\s*(?:const|noexcept)?\s*\{", text[end + 1 : end + 40])
    return end if opens else None


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        if text[i] == "(":
            depth += 1
        elif text[i] == ")":
            depth -= 1
            if depth == 0:
                return i
    return len(text)


def parameter_types(text: str) -> Iterator[str]:
    """Yield the normal form of each parameter's type."""
    text = _COMMENT.sub(" ", text)
    depth, begin = 0, 0
    parts: list[str] = []
    for i, char in enumerate(text):
        depth += (char in "<({[") - (char in ">)}]")
        if char == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    parts.append(text[begin:])
    for part in parts:
        declared = part.split("=")[0].strip()
        if declared:
            yield normal_type(_without_name(declared))


def _without_name(declared: str) -> str:
    """Remove a parameter's name; `int64_t` and `const Tensor&` have none."""
    match = re.fullmatch(r"(.*[\s&*>])([A-Za-z_]\w*)", declared, re.DOTALL)
    return match.group(1) if match and match.group(1).strip() not in ("", "const") else declared


def normal_type(text: str) -> str:
    """Spell equal types equally: spaces, namespaces, aliases, a const that is not part of the signature."""
    text = re.sub(r"\b(?:flambeau|c10)::|\[\[\w+\]\]", "", text)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" ?([&*<>,]) ?", r"\1", text)
    if text.startswith("const ") and not text.endswith(("&", "*")):
        text = text.removeprefix("const ")
    for long, short in _ALIASES.items():
        text = text.replace(long, short)
    return text
