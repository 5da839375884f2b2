"""A version that is a string and can be compared with strings and tuples, by PEP 440."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]

_FORM = re.compile(
    r"\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?:-(?P<post_implicit>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*",
    re.IGNORECASE,
)
_PHASE = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_LOWEST, _HIGHEST = (-1,), (9,)


def _order(text: str) -> tuple[Any, ...]:
    """Return the sort key of a version. Raises: ValueError if the text is not a version."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(f"TorchVersion: expected a version such as '2.13.0', got {text!r}")
    part = form.groupdict()
    release = [int(n) for n in part["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    is_post = part["post"] or part["post_implicit"]
    if part["pre"]:
        pre: tuple[int, ...] = (_PHASE[part["pre"].lower()], int(part["pre_n"] or 0))
    else:  # 1.0.dev1 comes before 1.0a1, which comes before 1.0
        pre = _LOWEST if part["dev"] and not is_post else _HIGHEST
    post = int(part["post_implicit"] or part["post_n"] or 0) if is_post else -1
    dev = (int(part["dev_n"] or 0),) if part["dev"] else (float("inf"),)
    local = re.split("[-_.]", (part["local"] or "").lower()) if part["local"] else []
    # Within a local version numbers come after words.
    order = tuple((1, int(n), "") if n.isdigit() else (0, 0, n) for n in local)
    return int(part["epoch"] or 0), tuple(release), pre, post, dev, order


def _text(other: Any) -> str | None:
    """Return the text of the other operand of a comparison, or None."""
    if isinstance(other, tuple | list):
        return ".".join(str(part) for part in other)
    return str(other) if isinstance(other, str) or hasattr(other, "release") else None


class TorchVersion(str):
    """Version as a string whose comparisons follow PEP 440.

    Example:
        >>> flambeau.torch_version.TorchVersion("2.13.0") >= (1, 10)
        True
        >>> flambeau.torch_version.TorchVersion("2.9") < "2.13"
        True
    """

    __slots__ = ()

    def _compare(self, other: Any, name: str) -> Any:
        text = _text(other)
        if text is None:
            return NotImplemented
        try:
            mine, theirs = _order(str(self)), _order(text)
        except ValueError:  # as strings, if one of them is not a version
            return getattr(str, name)(str(self), text)
        return getattr(tuple, name)(mine, theirs)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "__le__")

    def __eq__(self, other: object) -> Any:
        return self._compare(other, "__eq__")

    def __ne__(self, other: object) -> Any:
        return self._compare(other, "__ne__")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "__ge__")

    __hash__ = str.__hash__
