"""Texts of error messages: `text {expression} text`, where values of expressions stand in their places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codegen.language.overloads import TENSOR, show, type_of
from codegen.model import BaseType, Expr, ListType, OptionalType
from codegen.source.diagnostics import Collector
from codegen.source.nodes import Text

_SHOWN = ("int", "float", "bool", "str", "Scalar", "ScalarType", "Device", "Tensor")
_LITERAL = re.compile(r"""\s*(f?)(?:"([^"\\\n]*)"|'([^'\\\n]*)')\s*""")

Part = str | tuple[int, int]  # a text, or begin and end of an expression


class Unbalanced(Exception):
    """A brace without its partner; the argument is its offset."""


def parts(value: str, begin: int, end: int) -> Iterator[Part]:
    """Yield the texts and expressions between two offsets of a value."""
    while begin < end:
        opening = value.find("{", begin, end)
        text = value[begin : end if opening < 0 else opening]
        if text:
            yield text
        if opening < 0:
            return
        closing = value.find("}", opening, end)
        if closing < 0:
            raise Unbalanced(opening)
        yield opening + 1, closing
        begin = closing + 1


def literals(value: str) -> list[Part] | None:
    """Return the parts of adjacent string literals and f-strings; None if the text is something else."""
    found: list[Part] = []
    at = 0
    while at < len(value):
        match = _LITERAL.match(value, at)
        if match is None:
            return None
        group = 2 if match.group(2) is not None else 3
        begin, end = match.span(group)
        try:
            found += parts(value, begin, end) if match.group(1) else [value[begin:end]]
        except Unbalanced:
            return None
        at = match.end()
    return found


def can_show(expr: Expr, text: Text, offset: int, collector: Collector) -> bool:
    """Whether a message can hold the value; reports that it cannot."""
    type_ = type_of(expr)
    elem = type_.elem if isinstance(type_, ListType) else type_
    if isinstance(type_, OptionalType) and type_.elem == TENSOR:  # an absent one is None
        elem = TENSOR
    if isinstance(elem, BaseType) and elem.name in _SHOWN:
        return True
    hint = "show value(x) where has_value(x) is not in doubt"
    collector.add(text.at(offset), "FB0306", f"a message cannot show a {show(type_)}", hint)
    return False
