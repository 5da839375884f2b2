"""The operators that scripted programs cannot use. There are none."""

from __future__ import annotations


def execWrapper(code: str, glob: dict[str, object], loc: dict[str, object]) -> None:
    """Run one's own code in given scopes."""
    exec(code, glob, loc)
