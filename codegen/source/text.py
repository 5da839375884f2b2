"""The text of a YAML file: texts that no YAML reader should receive are reported here.

Invisible characters, foreign encodings and parts of YAML that the specification does without (anchors,
aliases, tags, several documents) would otherwise show up as misleading mistakes elsewhere, or not at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import yaml

from codegen.model import Position
from codegen.source.diagnostics import Collector

LONGEST = 20_000  # characters of one value: six times the longest of the specification
# Invisible marks that change how a line is read, or which name it contains, are not allowed.
_ILLEGAL = re.compile(
    "[^\t\n -~\xa0-\xac\xae-\u200a\u2010-\u2027\u202f-\u205f\u2070-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0010ffff]"
)
_DOCUMENT = re.compile(r"^(?:---|\.\.\.)(?=\s|$)|^%", re.MULTILINE)
_FOREIGN = re.compile(r"(?:^ *|[:\-?] +|[,\[{] *)(?:[&*][\w-]+(?=[ \n,\]}]|$)|!(?=[\w!<]))", re.MULTILINE)
_WORDS = {yaml.AnchorToken: "anchor", yaml.AliasToken: "alias", yaml.TagToken: "tag"}
_UTF8_MARK, _UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def read_text(path: Path, name: str, collector: Collector) -> str | None:
    """Return the file's text; a byte that is not UTF-8 becomes a surrogate, which `damage` finds."""
    hint = "give a readable UTF-8 YAML file"
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or "it cannot be opened"
        collector.add(Position(name, 1, 1), "FB0005", f"cannot read {name}: {reason}", hint)
        return None
    if data.startswith(_UTF16_MARKS):
        collector.add(Position(name, 1, 1), "FB0005", f"cannot read {name}: it is UTF-16", "save it as UTF-8")
        return None
    if data.startswith(_UTF8_MARK):
        message = "the file begins with a byte order mark"
        collector.add(Position(name, 1, 1), "FB0001", message, "save it as UTF-8 without one")
    text = data.removeprefix(_UTF8_MARK).decode("utf-8", errors="surrogateescape")
    return _without_returns(text, name, collector)


def _without_returns(text: str, name: str, collector: Collector) -> str:
    at = text.find("\r\n")
    if at < 0:
        return text
    line = text.count("\n", 0, at)
    column = at - (text.rfind("\n", 0, at) + 1)
    message, hint = "lines end with CR LF", "save the file with LF line ends (git config core.autocrlf input)"
    collector.add(Position(name, line + 1, column + 1), "FB0001", message, hint)
    return text.replace("\r\n", "\n")


def one_document(text: str, name: str, collector: Collector) -> str:
    """Blank the lines that begin another document; the first may stand alone at the top."""
    found = list(_DOCUMENT.finditer(text))
    if found and found[0].group() == "---" and not _content(text[: found[0].start()]):
        text = text[: found[0].start()] + "   " + text[found[0].end() :]
        del found[0]
    for match in found[:1]:
        line = text.count("\n", 0, match.start()) + 1
        message = f"'{match.group()}' begins another document"
        collector.add(Position(name, line, 1), "FB0004", message, "remove the line: a file is one list", 3)
    for match in found:
        end = text.find("\n", match.start())
        end = len(text) if end < 0 else end
        text = text[: match.start()] + " " * (end - match.start()) + text[end:]
    return text


def _content(text: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.split("\n"))


def damaged_lines(text: str, name: str, collector: Collector) -> set[int]:
    """Report the first character that no YAML file holds; return the lines (from 0) of all of them."""
    lines: dict[int, int] = {}
    for match in _ILLEGAL.finditer(text):
        line = text.count("\n", 0, match.start())
        lines.setdefault(line, match.start() - (text.rfind("\n", 0, match.start()) + 1))
        if len(lines) > 100:  # not a text file
            break
    if lines:
        line, column = next(iter(lines.items()))
        char = text.split("\n", line + 1)[line][column]
        more = f", and others in {len(lines) - 1} more lines" if len(lines) > 1 else ""
        collector.add(Position(name, line + 1, column + 1), "FB0001", illegal(char) + more, _remedy(char))
    return set(lines)


def illegal(char: str) -> str:
    """Return what is wrong with a character."""
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"byte 0x{code - 0xDC00:02X} is not UTF-8"
    kind = "surrogate" if 0xD800 <= code <= 0xDFFF else "control character"
    kind = "invisible character" if unicodedata.category(char) in ("Cf", "Zl", "Zp") else kind
    return f"{kind} U+{code:04X}"


def _remedy(char: str) -> str:
    return "save the file as UTF-8" if 0xDC80 <= ord(char) <= 0xDCFF else "remove it"


def illegal_in_value(value: str) -> str | None:
    """Return what is wrong with a value that escapes made."""
    match = _ILLEGAL.search(value)
    return None if match is None else illegal(match.group())


def may_hold_foreign(text: str) -> bool:
    """Whether the text looks as if it held an anchor, an alias or a tag."""
    return _FOREIGN.search(text) is not None


def foreign(chunk: str, loader: type) -> Iterator[tuple[str, str, int, int]]:
    """Yield kind, name, line and column (from 0) of each anchor, alias and tag."""
    if not may_hold_foreign(chunk):
        return
    try:
        for token in yaml.scan(chunk, Loader=loader):
            if type(token) in _WORDS:
                value = getattr(token, "value", "")
                yield (
                    _WORDS[type(token)],
                    "".join(part or "" for part in value),  # a tag's is its handle and its suffix
                    token.start_mark.line,
                    token.start_mark.column,
                )
    except yaml.YAMLError:
        return  # reported where the chunk is read
