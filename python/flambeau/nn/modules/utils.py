"""Sizes that may be given once for all dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from flambeau._loading.lazy import attributes


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix off the names of a state dict, in place, as off those of a wrapped model.

    Args:
        state_dict: its names without the prefix stay; the versions in its ``_metadata`` are renamed as well.
        prefix: with the dot at its end.
    """
    for name in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[name[len(prefix) :]] = state_dict.pop(name)
    metadata: dict[str, Any] = getattr(state_dict, "_metadata", {})
    for name in list(metadata):
        if name and name in (prefix[:-1], prefix.replace(".", "")):
            metadata[""] = metadata.pop(name)
        elif name.startswith(prefix):
            metadata[name[len(prefix) :]] = metadata.pop(name)


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")

__getattr__, __dir__ = attributes(__name__)
