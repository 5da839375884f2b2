"""Which operators scripted programs cannot use: none."""

from __future__ import annotations


def execWrapper(code: str, glob: dict[str, object], loc: dict[str, object]) -> None:
    """Run one's own code in given scopes."""
    exec(code, glob, loc)
