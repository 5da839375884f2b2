"""YAML with positions: every key, value and character of a scalar knows its line and column."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from codegen.model import Position
from codegen.source import text as source_text
from codegen.source.diagnostics import Collector

_Base: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is 10 times faster


class _Loader(_Base):  # type: ignore[misc]
    """Reads all values as text, because looking for numbers and dates would be wasted time."""

    def resolve(self, kind: type, value: str | None, implicit: object) -> str:
        """Return the tag of a node, which nothing reads."""
        return "tag:yaml.org,2002:str"


class _Refused(yaml.YAMLError):
    """YAML that can be read but is not allowed."""

    def __init__(self, position: Position, message: str, hint: str, code: str = "FB0001") -> None:
        super().__init__(message)
        self.position, self.message, self.hint, self.code = position, message, hint, code


_BANNER = re.compile(r"^# ==== (\w+) ====$", re.MULTILINE)


class SourceFile:
    """The text of a file, with its lines."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.lines = text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def position(self, offset: int) -> Position:
        """Return the place of a character offset."""
        return Position(self.name, *self.line_and_column(offset))

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Return line and column (from 1) of a character offset."""
        row = bisect_right(self._starts, offset) - 1
        return row + 1, offset - self._starts[row] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the character offset of a line and column that count from 0."""
        return self._starts[line] + column


class Place(Position):
    """The position of a character in a scalar, looked up when it is asked for: few ever are."""

    __slots__ = ("_offset", "_text")
    _text: Text
    _offset: int

    def __init__(self, text: Text, offset: int) -> None:
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "_offset", offset)

    @property
    def file(self) -> str:
        """The file's name."""
        return self._text.file

    @property
    def line(self) -> int:
        """Counted from 1."""
        return self._text.source_position(self._offset)[0]

    @property
    def column(self) -> int:
        """Counted from 1."""
        return self._text.source_position(self._offset)[1]


class Text:
    """A scalar's value; `at(i)` is the place of its i-th character in the file.

    Folding, indentation and escapes make a scalar's value differ from its source text; the map
    between them is computed on first use, and only for scalars that span lines or hold escapes.
    """

    __slots__ = ("_end", "_map", "_source", "_start", "_style", "is_made", "value")

    def __init__(self, source: SourceFile, node: yaml.ScalarNode, line_offset: int = 0) -> None:
        self.value: str = node.value
        self.is_made = False  # by the generator, in another one's place
        self._source = source
        self._style: str = node.style or ""
        self._start = source.offset(node.start_mark.line + line_offset, node.start_mark.column)
        self._end = source.offset(node.end_mark.line + line_offset, node.end_mark.column)
        self._map: list[int] | None = None

    @property
    def position(self) -> Position:
        """Where the scalar begins (its quote or block indicator)."""
        return self._source.position(self._start)

    @property
    def is_plain(self) -> bool:
        """Whether the scalar stands without quotes, where YAML ends it at some characters."""
        return self._style in ("", "plain")

    @property
    def length(self) -> int:
        """Characters that the scalar takes on its first line."""
        end = self._source.text.find("\n", self._start, self._end)
        return max(1, (self._end if end < 0 else end) - self._start)

    def at(self, offset: int) -> Position:
        """Return the place of character `offset` of the value."""
        return Place(self, offset)

    def source_position(self, offset: int) -> tuple[int, int]:
        """Return line and column of character `offset` of the value."""
        if self._map is None:
            self._map = self._align()
        clamped = min(max(offset, 0), len(self._map) - 1)
        return self._source.line_and_column(self._map[clamped])

    @property
    def file(self) -> str:
        """The name of the file that the scalar stands in."""
        return self._source.name

    def replaced(self, value: str) -> Text:
        """Return another value that stands in this one's place."""
        text: Text = object.__new__(Text)
        text.value, text._style, text.is_made = value, self._style, True
        text._source, text._start, text._end = self._source, self._start, self._end
        text._map = [self._start] * (len(value) + 1)
        return text

    def _align(self) -> list[int]:
        raw = self._source.text[self._start : self._end]
        if self._style in ("", "plain") and raw.rstrip() == self.value:
            return list(range(self._start, self._start + len(self.value) + 1))
        if self._style in ("|", ">"):
            return self._align_raw(raw, raw.find("\n") + 1)
        return self._align_raw(raw, 1 if self._style in ("'", '"') else 0)

    def _align_raw(self, raw: str, at: int) -> list[int]:
        """Walk value and source side by side; white space in the value matches any run of it."""
        out: list[int] = []
        for index, char in enumerate(self.value):
            if char in " \n":
                previous_blank = index > 0 and self.value[index - 1] in " \n"
                if not previous_blank or (at < len(raw) and raw[at] == char):
                    out.append(self._start + min(at, len(raw)))
                    at += 1
                else:
                    out.append(self._start + min(at, len(raw)))
                continue
            while at < len(raw) and raw[at] in " \n" and raw[at] != char:
                at += 1
            out.append(self._start + min(at, len(raw)))
            at += _width(raw, at, self._style)
        out.append(self._start + min(at, len(raw)))
        return out


_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)


def _width(raw: str, at: int, style: str) -> int:
    """Source characters that stand for one character of the value."""
    if style == "'" and raw.startswith("''", at):
        return 2
    if style == '"':
        escape = _ESCAPE.match(raw, at)
        if escape:
            return escape.end() - at
    return 1


@dataclass(frozen=True, slots=True)
class Sequence:
    """A YAML list."""

    items: tuple[Node, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Mapping:
    """A YAML mapping in file order, duplicate keys already reported and dropped."""

    items: tuple[tuple[Text, Node], ...]
    position: Position
    following: Mapping | None = None  # an entry whose '- ' is missing
    _by_key: dict[str, Node] = field(init=False, compare=False, repr=False)
    _repaired: set[str] = field(init=False, compare=False, repr=False, default_factory=set)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_key", {text.value: node for text, node in self.items})

    def get(self, key: str) -> Node | None:
        """Return the value of `key`."""
        return self._by_key.get(key)

    def repair(self, wrong: str, meant: str, value: Node) -> None:
        """Let the value of a misspelt key, which has been reported, be found under the right one."""
        self._repaired.add(wrong)
        self._by_key.setdefault(meant, value)

    def is_repaired(self, key: str) -> bool:
        """Whether the key was misspelt and has been reported."""
        return key in self._repaired

    def key(self, key: str) -> Text | None:
        """Return the key itself, for its position."""
        for text, _ in self.items:
            if text.value == key:
                return text
        return None


Node = Text | Sequence | Mapping


def plain(node: Node | None) -> object:
    """Return a node as hashable Python data."""
    if node is None:
        return None
    if isinstance(node, Text):
        return node.value
    if isinstance(node, Mapping):
        return tuple([(key.value, plain(value)) for key, value in node.items])
    return tuple([plain(item) for item in node.items])


def texts(node: Node | None) -> Iterator[Text]:
    """Yield all keys and values of a node."""
    if isinstance(node, Text):
        yield node
    elif isinstance(node, Mapping):
        for key, value in node.items:
            yield key
            yield from texts(value)
    elif node is not None:
        for item in node.items:
            yield from texts(item)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file's entries, and the text of those that YAML could not read."""

    entries: list[Node]
    unreadable: tuple[str, ...]
    place: Position
    sections: frozenset[str] = frozenset()  # the families that have a banner
    places: tuple[Position, ...] = ()  # where entries begin, readable or not
    is_absent: bool = False  # nothing of the file is known


def load_entries(path: Path, name: str, collector: Collector) -> Loaded:
    """Read a file that holds a list; a mistake in one entry leaves the others readable."""
    text = source_text.read_text(path, name, collector)
    if text is None:
        return Loaded([], (), Position(name, 1, 1), is_absent=True)
    source = SourceFile(name, source_text.one_document(text, name, collector))
    damaged = source_text.damaged_lines(source.text, name, collector)
    if not damaged and not _holds_foreign(source):
        try:
            nodes = _entries(source, source.text, 0, collector)
            return _loaded(nodes, (), source)
        except (yaml.YAMLError, RecursionError):
            pass
    nodes = []
    unreadable: list[str] = []
    anchors: set[str] = set()
    for first_line, chunk in _chunks(source):
        if damaged and not damaged.isdisjoint(range(first_line, first_line + chunk.count("\n") + 1)):
            unreadable.append(chunk)
            continue
        try:
            _refuse_foreign(source, chunk, first_line, anchors, collector)
            nodes += _entries(source, chunk, first_line, collector)
        except (yaml.YAMLError, RecursionError) as error:
            _report(source, error, first_line, chunk, collector)
            unreadable.append(chunk)
    return _loaded(nodes, tuple(unreadable), source)


def _loaded(nodes: list[Node], unreadable: tuple[str, ...], source: SourceFile) -> Loaded:
    starts = [i + 1 for i, line in enumerate(source.lines) if line.startswith("-")]
    places = [Position(source.name, line, 1) for line in starts]
    return Loaded(
        nodes,
        unreadable,
        Position(source.name, 1, 1),
        frozenset(_BANNER.findall(source.text)),
        (*places, *(node.position for node in nodes)),
        is_absent=not nodes,
    )


def _holds_foreign(source: SourceFile) -> bool:
    """Whether an entry holds an anchor, alias or tag; C++ that looks so does not count."""
    if not source_text.may_hold_foreign(source.text):
        return False
    return any(True for _, chunk in _chunks(source) for _ in source_text.foreign(chunk, _Loader))


def _refuse_foreign(
    source: SourceFile, chunk: str, shift: int, anchors: set[str], collector: Collector
) -> None:
    """Report an anchor, alias or tag; the aliases of a reported anchor are the same mistake."""
    for kind, name, line, column in source_text.foreign(chunk, _Loader):
        known = name in anchors
        anchors.add(name)
        if not known:
            message = f"the specification does without YAML's {kind} '{name}'"
            hint = "write the value itself, in quotes if it begins with & * or !"
            raise _Refused(Position(source.name, line + shift + 1, column + 1), message, hint)
        raise _Refused(Position("", 0, 0), "", "")


def _chunks(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Split at the lines that begin an entry."""
    starts = [i for i, line in enumerate(source.lines) if line.startswith("-")]
    if not starts or starts[0] != 0:
        starts.insert(0, 0)
    for begin, end in zip(starts, [*starts[1:], len(source.lines)], strict=True):
        yield begin, "\n".join(source.lines[begin:end])


def _entries(source: SourceFile, text: str, line_offset: int, collector: Collector) -> list[Node]:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
    finally:
        loader.dispose()
    if root is None:
        return []
    node = _convert(source, root, line_offset, collector)
    if isinstance(node, Sequence):
        return [entry for item in node.items for entry in _unfold(item)]
    where = node.position
    hint = "begin each entry with '- '"
    collector.add(where, "FB0004", "expected a list of entries", hint)
    return []


def _unfold(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.following if isinstance(node, Mapping) else None


def _convert(source: SourceFile, node: yaml.Node, shift: int, collector: Collector) -> Node:
    if isinstance(node, yaml.ScalarNode):
        text = Text(source, node, shift)
        if node.style == '"' or len(node.value) > source_text.LONGEST:
            _check_value(text)
        return text
    mark = node.start_mark
    position = Position(source.name, mark.line + shift + 1, mark.column + 1)
    if isinstance(node, yaml.SequenceNode):
        items = tuple(_convert(source, item, shift, collector) for item in node.value)
        return Sequence(items, position)
    assert isinstance(node, yaml.MappingNode)
    return _mapping(source, node, shift, collector, position)


def _check_value(text: Text) -> None:
    """Refuse characters that escapes can make and no expression or name may contain, and empty values."""
    problem = source_text.illegal_in_value(text.value)
    if problem is not None:
        raise _Refused(text.position, f"the value holds a {problem}", "remove the escape")
    if len(text.value) > source_text.LONGEST:
        message = f"a value of {len(text.value)} characters; at most {source_text.LONGEST} are read"
        raise _Refused(text.position, message, "move what it holds into operators or handwritten sources")


def _mapping(
    source: SourceFile, node: yaml.MappingNode, shift: int, collector: Collector, position: Position
) -> Mapping:
    """Convert key by key. The first key again means that the '- ' of the next entry is missing."""
    pairs: list[tuple[Text, Node]] = []
    seen: dict[str, Text] = {}
    for index, (key_node, value_node) in enumerate(node.value):
        key = _convert(source, key_node, shift, collector)
        if not isinstance(key, Text):
            message = "expected a plain key, got a list or mapping"
            raise _Refused(key.position, message, "quote a key that holds [ or {", "FB0004")
        if key.value == "<<":
            message = "the specification does without YAML's merge key '<<'"
            raise _Refused(key.position, message, "write the keys themselves")
        first = seen.setdefault(key.value, key)
        if first is not key:
            is_entry = first is pairs[0][0]
            hint = f"remove one; the first is in line {first.position.line}"
            hint = "begin the next entry with '- '; or " * is_entry + hint
            message = f"duplicate key '{key.value}'"
            collector.add(key.position, "FB0003", message, hint, len(key.value))
            if is_entry:
                rest = yaml.MappingNode(node.tag, node.value[index:], node.start_mark, node.end_mark)
                following = _mapping(source, rest, shift, collector, key.position)
                return Mapping(tuple(pairs), position, following)
            continue
        pairs.append((key, _convert(source, value_node, shift, collector)))
    return Mapping(tuple(pairs), position)


def _report(
    source: SourceFile, error: yaml.YAMLError | RecursionError, shift: int, chunk: str, collector: Collector
) -> None:
    if isinstance(error, _Refused):
        if error.message:
            collector.add(error.position, error.code, error.message, error.hint)
        return
    if isinstance(error, RecursionError):
        line = next((i for i, text in enumerate(chunk.split("\n")) if "[[[" in text or "{{{" in text), 0)
        at = Position(source.name, shift + line + 1, 1)
        collector.add(at, "FB0001", "broken YAML: nested too deeply", "close the brackets")
        return
    tab = next((i for i, text in enumerate(chunk.split("\n")) if re.match(r" *\t", text)), None)
    if tab is not None:
        row = tab + shift
        at = Position(source.name, row + 1, source.lines[row].index("\t") + 1)
        collector.add(at, "FB0002", "tab in the indentation", "YAML indents with spaces only")
        return
    problem = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None) or ""
    mark = getattr(error, "problem_mark", None)
    if mark is None or any(words in context for words in _OPENED):  # the mistake is where it began
        mark = getattr(error, "context_mark", None) or mark
    line = min((mark.line if mark else 0) + shift, len(source.lines) - 1)
    message = f"broken YAML: {problem} {context}".rstrip()
    at = Position(source.name, line + 1, (mark.column if mark else 0) + 1)
    collector.add(at, "FB0001", message, _yaml_hint(problem, context, source.lines[line]))


_OPENED = ("quoted scalar", "flow sequence", "flow mapping", "simple key")
_SAME_COLUMN = "keys of one entry start in the same column, two spaces after '- '"


def _yaml_hint(problem: str, context: str, line: str) -> str:
    if "escape" in problem:
        return r"write the character itself, or a backslash as \\"
    if "quoted scalar" in context:
        return "close the quote"
    if "flow" in context:
        return "close the bracket, and quote values in it that contain , : [ ] { }"
    if "simple key" in context:
        return "write 'key: value', with a space after the colon"
    if "mapping values are not allowed" in problem:
        return "quote a value that contains ': '; check the indentation of this line and the one before"
    if line.lstrip().startswith("- "):
        return "entries begin with '- ' in the first column"
    if "cannot start any token" in problem or "alias" in problem + context:
        return "quote a value that begins with one of % @ ` & * ! | > [ {"
    return _SAME_COLUMN
