"""Typed access to the keys of a YAML mapping; every wrong value is reported at its position."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from codegen.language.schema import DTYPE_NAMES, FOREIGN_DTYPES
from codegen.model import Position
from codegen.reading import keys
from codegen.source.diagnostics import Collector, closest, did_you_mean
from codegen.source.nodes import Mapping as Node
from codegen.source.nodes import Sequence, Text

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CATEGORY = {"integral": ("int", "uint"), "floating": ("float", "bfloat"), "complex": ("complex",)}
_SHAPES = {Text: "text", Sequence: "list", Node: "map"}
_SHOWN = {
    "text": "one value",
    "list": "a list",
    "lists": "a list of lists",
    "maps": "a list of mappings",
    "map": "a mapping",
}


def is_identifier(text: str) -> bool:
    """Whether the text is a name in C++ and Python."""
    return _IDENTIFIER.fullmatch(text) is not None


class Fields:
    """The keys of one mapping."""

    def __init__(self, node: Node, collector: Collector) -> None:
        self.node = node
        self.collector = collector

    def key_position(self, key: str) -> Position:
        """Where a key stands; the mapping itself when it is absent."""
        text = self.node.key(key)
        return self.node.position if text is None else text.position

    def scalar(self, key: str) -> Text | None:
        """Return a scalar value."""
        node = self.node.get(key)
        return node if isinstance(node, Text) else None

    def text(self, key: str) -> str | None:
        """Return a scalar's text."""
        node = self.scalar(key)
        return None if node is None else node.value

    def map(self, key: str) -> Fields | None:
        """Return a mapping value."""
        node = self.node.get(key)
        return Fields(node, self.collector) if isinstance(node, Node) else None

    def texts(self, key: str) -> tuple[Text, ...]:
        """Return the items of a list of scalars."""
        node = self.node.get(key)
        if not isinstance(node, Sequence):
            return ()
        return tuple(self._scalars(node, key))

    def _scalars(self, node: Sequence, key: str) -> Iterable[Text]:
        for item in node.items:
            if isinstance(item, Text):
                yield item
            else:
                message = f"{key}: expected one value per item"
                self.collector.add(item.position, "FB0103", message, "write [a, b, c]")

    def maps(self, key: str) -> tuple[Fields, ...]:
        """Return a mapping, or the mappings of a list."""
        node = self.node.get(key)
        if isinstance(node, Node):
            return (Fields(node, self.collector),)
        if not isinstance(node, Sequence):
            return ()
        for item in node.items:
            if not isinstance(item, Node):
                message = f"{key}: expected a mapping per item"
                self.collector.add(item.position, "FB0103", message, "write [{key: value}, ...]")
        return tuple(Fields(item, self.collector) for item in node.items if isinstance(item, Node))

    def lists(self, key: str) -> tuple[tuple[Text, ...], ...]:
        """Return nested lists of scalars."""
        node = self.node.get(key)
        if not isinstance(node, Sequence):
            return ()
        found: list[tuple[Text, ...]] = []
        for item in node.items:
            if isinstance(item, Sequence):
                found.append(tuple(self._scalars(item, key)))
            else:
                message = f"{key}: expected a list of lists"
                self.collector.add(item.position, "FB0103", message, "write [[a, b], [c]]")
        return tuple(found)

    def choice(self, key: str, allowed: tuple[str, ...]) -> str | None:
        """Return a value out of `allowed`."""
        text = self.scalar(key)
        if text is None or self.known(key, text, allowed):
            return None if text is None else text.value
        return None

    def choices(self, key: str, allowed: tuple[str, ...]) -> tuple[tuple[str, Text], ...] | None:
        """Return a list of values out of `allowed`; None when the key is absent."""
        if not isinstance(self.node.get(key), Sequence):
            return None
        return tuple((t.value, t) for t in self.texts(key) if self.known(key, t, allowed))

    def known(self, key: str, text: Text, allowed: Iterable[str]) -> bool:
        """Check one value; report an unknown one."""
        values = tuple(allowed)
        if text.value in values:
            return True
        message = f"{key}: unknown value '{text.value}'"
        hint = did_you_mean(text.value, values, "allowed")
        dtype = FOREIGN_DTYPES.get(text.value, text.value)
        if key == "dtypes" and dtype in DTYPE_NAMES:
            category = next((c for c, start in _CATEGORY.items() if dtype.startswith(start)), "bool")
            hint = f"dtypes lists categories: '{category}' holds {dtype}"
        self.collector.add(text.position, "FB0104", message, hint, text.length)
        return False


def repair_keys(
    fields: Fields, table: Mapping[str, keys.Key], names: Iterable[str] = (), group: str = ""
) -> None:
    """Report each misspelt key, and read it as the closest absent key."""
    known = {*table, *names}
    for key, value in fields.node.items:
        if key.value in known:
            continue
        absent = [name for name in known if fields.node.get(name) is None]
        foreign = keys.FOREIGN_KEYS.get(key.value)
        guess = foreign if foreign in absent else closest(key.value, sorted(absent))
        if guess is not None:
            _unknown_key(fields, key, known, group)
            fields.node.repair(key.value, guess, value)


def comma(text: Text) -> str:
    """Return the group of the diagnostics about the pieces of a value that was not quoted."""
    return f"comma {text.file}:{text.position.line}"


def _unknown_key(fields: Fields, key: Text, known: Collection[str], group: str) -> None:
    foreign = keys.FOREIGN_KEYS.get(key.value)
    hint = (
        f"did you mean '{foreign}'?"
        if foreign is not None and foreign in known
        else did_you_mean(key.value, sorted(known), "keys")
    )
    hint = hint or "remove it; docs/spec-language.md lists the keys of each kind of entry"
    message = f"unknown key '{key.value}'"
    length, joined = len(key.value), group and group + key.value
    if not key.value.isidentifier():  # what a comma has cut off
        hint = "quote the value before it: inside {...} a comma ends a value"
        joined = comma(key)
    fields.collector.add(key.position, "FB0101", message, hint, length, group=joined)


def check_keys(
    fields: Fields,
    table: Mapping[str, keys.Key],
    kind: str | None = None,
    names: Iterable[str] | None = None,
    group: str = "",
) -> None:
    """Report unknown, missing and misplaced keys, and values of the wrong kind.

    `names` are further keys that are allowed: the arguments of the operator; `group` joins diagnostics
    about a name that is none of them.
    """
    further = set(names or ())
    repair_keys(fields, table, further, group)
    for key, value in fields.node.items:
        spec = table.get(key.value)
        if spec is None:
            if key.value not in further and not fields.node.is_repaired(key.value):
                _unknown_key(fields, key, [*table, *further], group)
        elif spec.kinds and kind is not None and kind not in spec.kinds:
            message = f"'{key.value}' does not belong to a {kind} operator"
            hint = f"it goes with {', '.join(spec.kinds)}"
            fields.collector.add(key.position, "FB0106", message, hint, len(key.value))
        else:
            _check_shape(fields, key, value, spec)
    for name, spec in table.items():
        if spec.required and fields.node.get(name) is None:
            message = f"missing key '{name}'"
            fields.collector.add(fields.node.position, "FB0102", message, f"{name}: {spec.doc}")


def _check_shape(fields: Fields, key: Text, value: Text | Sequence | Node, spec: keys.Key) -> None:
    have = _SHAPES[type(value)]
    wanted = ["list" if w in ("lists", "maps") else w for w in spec.shape.split("|")]
    if "any" in wanted or have in wanted:
        return
    expected = " or ".join(_SHOWN[w] for w in spec.shape.split("|"))
    message = f"{key.value}: expected {expected}, got {_SHOWN[have]}"
    hint = f"{key.value}: {spec.doc}"
    if isinstance(value, Text) and wanted == ["list"]:
        hint = f"write {key.value}: [{value.value if is_identifier(value.value) else '...'}]"
    fields.collector.add(value.position, "FB0103", message, hint)
