"""Nested state dicts as flat ones, whose keys join the parts of a path by dots."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from flambeau._C import Tensor

Path = tuple[Any, ...]


def _is_leaf(value: Any) -> bool:
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    return all(_is_leaf(item) and not isinstance(item, Tensor) for item in value)


def _has_no_tensor(value: Any) -> bool:
    if isinstance(value, Mapping | list):
        return all(map(_has_no_tensor, value.values() if isinstance(value, Mapping) else value))
    return not isinstance(value, Tensor)


def _leaves(value: Any, path: Path, is_leaf: Callable[[Any], bool]) -> Iterator[tuple[Path, Any]]:
    if path and (is_leaf(value) or not isinstance(value, Mapping | list)):
        yield path, value
        return
    entries = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, item in entries:
        yield from _leaves(item, (*path, str(key) if isinstance(value, Mapping) else key), is_leaf)


def flatten(
    state_dict: Mapping[str, Any], is_leaf: Callable[[Any], bool] = _is_leaf
) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the flat dict, and the path of each of its keys.

    Mappings are flat, and so are lists that hold tensors or mappings. Keys become text.
    Raises: ValueError if two paths give one key.
    """
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for path, value in _leaves(state_dict, (), is_leaf):
        key = ".".join(map(str, path))
        if key in flat:
            raise ValueError(
                f"state_dict: expected paths with different names, got {key!r} for {paths[key]} and {path}"
            )
        flat[key], paths[key] = value, path
    return flat, paths


def flatten_as_saved(
    state_dict: Mapping[str, Any], known: Container[str]
) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the flat dict, with containers as one value where the checkpoint holds them so.

    PyTorch 2.3 and earlier saved a mapping or a list without tensors as one value.
    """
    flat, paths = flatten(state_dict)
    if all(key in known for key in flat):
        return flat, paths
    older, older_paths = flatten(state_dict, _has_no_tensor)
    whole = {key: path for key, path in older_paths.items() if key in known and key not in flat}
    inner = [key for key, path in paths.items() if any(path[: len(p)] == p for p in whole.values())]
    for key in inner:
        del flat[key], paths[key]
    return flat | {key: older[key] for key in whole}, paths | whole


_DEEPEST = 200  # nested containers
_GAPS = 1_000  # places of a list that may be empty, and ten for each that is not


def parts_of(fqn: str, path: Any) -> Path:
    """Return a path that metadata have. Raises: ValueError if it is none."""
    found = tuple(path) if isinstance(path, tuple | list) else ()
    is_path = all(type(part) is str or (type(part) is int and part >= 0) for part in found)
    if not 0 < len(found) <= _DEEPEST or not is_path or type(found[0]) is not str:
        raise ValueError(f"load: expected a path for {fqn!r} in the metadata, got another value")
    return found


def nested(flat: Mapping[str, Any], paths: Mapping[str, Path]) -> dict[str, Any]:
    """Return the nested dict whose values have these paths; numbers are places in lists.

    Places of lists that no path has hold None. Raises: ValueError if a path leads through a value.
    """
    tree: dict[Any, Any] = {}
    leaves: set[Path] = set()
    for key, path in paths.items():
        if path in leaves:
            raise ValueError(
                f"load: expected one value at {path} in the metadata, got another one for {key!r}"
            )
        leaves.add(path)
        place = tree
        for count, part in enumerate(path[:-1], 1):
            if path[:count] in leaves:
                raise ValueError(f"load: expected containers on the way to {key!r}, got a value")
            place = place.setdefault(part, {})
        if path[-1] in place:
            raise ValueError(f"load: expected a value at {path} in the metadata, got a container")
        place[path[-1]] = flat[key]
    result: dict[str, Any] = _with_lists(tree, (), leaves)
    return result


def _with_lists(tree: Any, path: Path, leaves: set[Path]) -> Any:
    if path in leaves:
        return tree
    items = {part: _with_lists(item, (*path, part), leaves) for part, item in tree.items()}
    if not path or not any(type(part) is int for part in items):
        return items
    if not all(type(part) is int for part in items):
        raise ValueError(f"load: expected names or places at {path} in the metadata, got both")
    if max(items) > _GAPS + 10 * len(items):
        raise ValueError(f"load: expected places at {path} without large gaps, got {max(items)}")
    return [items.get(i) for i in range(max(items) + 1)]


def set_leaf(state_dict: Any, path: Path, value: Any) -> None:
    """Set the value at a path, whose parts may be text for keys of other types."""
    for part in path[:-1]:
        state_dict = state_dict[_own_key(state_dict, part)]
    state_dict[_own_key(state_dict, path[-1])] = value


def _own_key(container: Any, part: Any) -> Any:
    if isinstance(container, list) or part in container:
        return part
    return next((key for key in container if str(key) == part), part)
