"""Descriptions of arguments that several classes share: written once, read in each class's docstring."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

_T = TypeVar("_T")
_PLACE = re.compile(r"^( *)\{(\w+)\}$", re.MULTILINE)


def described_by(texts: Mapping[str, str]) -> Callable[[_T], _T]:
    """Return a decorator that replaces each line ``{name}`` of a docstring by that argument's description.

    Args:
        texts: the description of each shared argument, by name.
    """

    def described(documented: _T) -> _T:
        if documented.__doc__:  # absent under `python -OO`
            documented.__doc__ = _PLACE.sub(lambda m: f"{m[1]}{m[2]}: {texts[m[2]]}", documented.__doc__)
        return documented

    return described
