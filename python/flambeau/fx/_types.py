"""Annotations as text."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any

from flambeau.fx._names import identifier, module_of, with_root

AddGlobal = Callable[[str, Any], str]


def _plain_name(annotation: Any) -> str | None:
    """The dotted name of an annotation, or None if it has no name."""
    if not isinstance(annotation, type) or isinstance(annotation, types.GenericAlias):
        return None
    if annotation.__module__ == "builtins":
        return annotation.__qualname__
    return f"{with_root(module_of(annotation))}.{annotation.__qualname__}"


def type_text(annotation: Any) -> str:
    """Write an annotation in readable form.

    >>> type_text(list[int]), type_text(None)
    ('list[int]', 'None')
    """
    if annotation is None or annotation is type(None):
        return "None"
    if annotation is ...:
        return "..."
    if isinstance(annotation, types.FunctionType):
        return annotation.__name__
    return _plain_name(annotation) or repr(annotation)


def type_expression(annotation: Any, add_global: AddGlobal) -> str:
    """Write an annotation as an expression of generated code.

    Args:
        annotation: the type.
        add_global: adds an object to the code's globals, under a name similar to the given one.
    """
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, str):
        return repr(annotation)
    origin = typing.get_origin(annotation)
    if isinstance(annotation, types.UnionType):
        return " | ".join(type_expression(part, add_global) for part in annotation.__args__)
    arguments = getattr(annotation, "__args__", None)
    if origin is not None and arguments and all(_is_simple(part) for part in arguments):
        if origin is typing.Union:
            head = add_global("typing_Union", typing.Union)
        elif isinstance(annotation, types.GenericAlias):
            head = type_expression(origin, add_global)
        else:
            generic = getattr(typing, getattr(annotation, "_name", None) or "", None)
            if generic is None:
                return add_global(identifier(repr(annotation)), annotation)
            head = add_global(f"typing_{annotation._name}", generic)
        inside = ["..." if part is ... else type_expression(part, add_global) for part in arguments]
        return f"{head}[{', '.join(inside)}]"
    name = _plain_name(annotation)
    return add_global(name if name is not None else identifier(repr(annotation)), annotation)


def _is_simple(part: Any) -> bool:
    return (
        part is ...
        or part is None
        or isinstance(part, type)
        or typing.get_origin(part) is not None
        or (part is Any)
    )
