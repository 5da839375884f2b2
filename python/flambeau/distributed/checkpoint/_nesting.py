"""Nested state dicts as flat ones, whose keys join the parts of a path by dots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flambeau._C import Tensor

Path = tuple[Any, ...]


def _is_leaf(value: Any) -> bool:
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    return all(_is_leaf(item) and not isinstance(item, Tensor) for item in value)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if path and _is_leaf(value):
        yield path, value
        return
    entries = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, item in entries:
        yield from _leaves(item, (*path, str(key) if isinstance(value, Mapping) else key))


def flatten(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the flat dict, and the path of each of its keys.

    Mappings are flat, and so are lists that hold tensors or mappings. Keys become text.
    Raises: ValueError if two paths give one key.
    """
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for path, value in _leaves(state_dict, ()):
        key = ".".join(map(str, path))
        if key in flat:
            raise ValueError(
                f"state_dict: expected paths with different names, got {key!r} for {paths[key]} and {path}"
            )
        flat[key], paths[key] = value, path
    return flat, paths


def set_leaf(state_dict: Any, path: Path, value: Any) -> None:
    """Set the value at a path, whose parts may be text for keys of other types."""
    for part in path[:-1]:
        state_dict = state_dict[_own_key(state_dict, part)]
    state_dict[_own_key(state_dict, path[-1])] = value


def _own_key(container: Any, part: Any) -> Any:
    if isinstance(container, list) or part in container:
        return part
    return next((key for key in container if str(key) == part), part)
