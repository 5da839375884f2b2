"""Loader of codegen/primitives.yaml: one row describes a scalar function completely."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from codegen.language.pyexpr import INFIX_SYMBOLS
from codegen.language.scalar_expr import DOMAINS, InfixTable, ScalarParser
from codegen.model import BaseType, Expr, Position, Primitive
from codegen.source.diagnostics import Collector, did_you_mean
from codegen.source.nodes import Mapping, Node, Sequence, Text, load_entries

TABLE = Path(__file__).parents[1] / "primitives.yaml"
KEYS = (
    "name args infix result domains cpp cuda opencl opencl_complex partials operator oracle interval"
    " vectorises lanes include integer_divisor math"
).split()
REQUIRED = ("name", "args", "result", "domains", "cpp", "partials", "oracle", "interval")
_INFINITIES = {".inf": float("inf"), "-.inf": float("-inf")}


class _Row:
    """One row while it is read: typed access with diagnostics."""

    def __init__(self, node: Mapping, collector: Collector) -> None:
        self.node = node
        self.collector = collector

    def error(self, at: Position, message: str, hint: str) -> None:
        self.collector.add(at, "FB0601", message, hint)

    def text(self, key: str) -> str | None:
        node = self.node.get(key)
        if isinstance(node, Text):
            return node.value
        if node is not None:
            self.error(node.position, f"{key}: expected a text", "write one scalar value")
        return None

    def items(self, key: str) -> tuple[Node, ...]:
        node = self.node.get(key)
        if isinstance(node, Sequence):
            return node.items
        if node is not None:
            self.error(node.position, f"{key}: expected a list", "write [a, b]")
        return ()

    def words(self, key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        found: list[str] = []
        for item in self.items(key):
            word = item.value if isinstance(item, Text) else ""
            if word not in allowed:
                hint = did_you_mean(word, allowed, "allowed")
                self.error(item.position, f"{key}: unknown value '{word}'", hint)
            found.append(word)
        return tuple(found)

    def interval(self) -> tuple[tuple[float, float], ...]:
        found: list[tuple[float, float]] = []
        for item in self.items("interval"):
            bounds = item.items if isinstance(item, Sequence) else ()
            values = [_number(b.value) for b in bounds if isinstance(b, Text)]
            if len(values) != 2 or values[0] is None or values[1] is None:
                self.error(item.position, "interval: expected [low, high]", "write two numbers")
                continue
            found.append((values[0], values[1]))
        return tuple(found)


def _number(text: str) -> float | None:
    try:
        return _INFINITIES.get(text) or float(text)
    except ValueError:
        return None


_SOUND: dict[bytes, dict[str, Primitive]] = {}


def load_primitives(collector: Collector, path: Path = TABLE) -> dict[str, Primitive]:
    """Read the table, once per process as long as its text is the same and sound."""
    text = path.read_bytes()
    if text not in _SOUND:
        before = len(collector)
        primitives = _load(collector, path)
        if len(collector) > before:
            return primitives
        _SOUND[text] = primitives
    return dict(_SOUND[text])


def _load(collector: Collector, path: Path) -> dict[str, Primitive]:
    """Read the table; partial derivatives are parsed once all names are known."""
    nodes = load_entries(path, f"codegen/{path.name}", collector).entries
    rows = [_Row(node, collector) for node in nodes if isinstance(node, Mapping)]
    primitives: dict[str, Primitive] = {}
    for row in rows:
        primitive = _primitive(row)
        if primitive.name in primitives:
            row.error(row.node.position, f"duplicate primitive '{primitive.name}'", "remove one")
        primitives[primitive.name] = primitive
    table = InfixTable(primitives)
    for row, primitive in zip(rows, list(primitives.values()), strict=False):
        partials = _partials(row, primitive, table)
        primitives[primitive.name] = replace(primitive, partials=partials)
    return primitives


def _primitive(row: _Row) -> Primitive:
    for key, _ in row.node.items:
        if key.value not in KEYS:
            hint = did_you_mean(key.value, KEYS, "keys")
            row.error(key.position, f"unknown key '{key.value}'", hint)
    for name in REQUIRED:
        if row.node.get(name) is None:
            row.error(row.node.position, f"missing key '{name}'", "see the head of the table")
    infix = row.text("infix")
    if infix is not None and infix not in INFIX_SYMBOLS:
        row.error(row.node.position, f"unknown infix '{infix}'", "use a Python operator")
    args = row.words("args", ("same", "bool"))
    cpp = row.text("cpp") or ""
    interval = row.interval()
    if len(interval) != len(args):
        row.error(row.node.position, "interval: expected one per argument", "see the head")
    return Primitive(
        name=row.text("name") or "",
        arity=len(args),
        args=args,
        infix=infix,
        result=row.text("result") or "same",
        domains=row.words("domains", DOMAINS),
        cpp=cpp,
        cuda=row.text("cuda") or cpp,
        opencl=row.text("opencl"),
        opencl_complex=row.text("opencl_complex"),
        partials=(),
        operator=row.text("operator"),
        oracle=row.text("oracle") or "",
        interval=interval,
        vectorises=row.text("vectorises") != "false",
        lanes=row.text("lanes") == "true",
        include=row.text("include"),
        math=row.text("math"),
        integer_divisor=None
        if row.text("integer_divisor") is None
        else int(row.text("integer_divisor") or 0),
    )


def _partials(row: _Row, primitive: Primitive, table: InfixTable) -> tuple[Expr | None, ...]:
    items = row.items("partials")
    if len(items) != primitive.arity:
        message = f"{primitive.name}: expected {primitive.arity} partials, got {len(items)}"
        row.error(row.node.position, message, "one per argument; null where there is none")
    types = {"same": BaseType("Tensor"), "bool": BaseType("bool")}
    variables = {f"x{i}": types.get(kind, types["same"]) for i, kind in enumerate(primitive.args)}
    parser = ScalarParser(table, variables, row.collector, f"a partial of {primitive.name}")
    found: list[Expr | None] = []
    for item in items:
        silent = not isinstance(item, Text) or item.value in ("null", "~", "")
        found.append(None if silent or not isinstance(item, Text) else parser.parse(item))
    return tuple(found)
