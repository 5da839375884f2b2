"""The documentation in an entry, in addition to what follows from its other keys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doc:
    """The `doc:` of an entry; an overload without one of its own has that of its base entry.

    `arguments` holds a text for each argument that the entry, its base or the glossary describes.
    """

    summary: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    returns: str = ""
    shapes: str = ""
    dtypes: str = ""
    formula: str = ""
    gradient: str = ""
    raises: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    example: str = ""
