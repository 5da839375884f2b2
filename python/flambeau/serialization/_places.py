"""Devices of storages in files: the names under which they are saved, and where they are restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._object.storage import Storage

Tagger = Callable[[Any], str | None]
Deserializer = Callable[[Any, str], Any]


def _tag(storage: Any) -> str:
    return str(storage.device)


def _restore(storage: Any, location: str) -> Any:
    return storage.to(_C.device(location))


_OWN = 10  # the priority of what is registered here
_packages: list[tuple[int, Tagger, Deserializer]] = [(_OWN, _tag, _restore)]


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Register functions that name the place of a storage in files and restore the storage there.

    Args:
        priority: the rank among registered functions; lower numbers are asked first. flambeau's own have 10.
        tagger: the function from a storage to the name of its place, or to None if it does not know it.
        deserializer: the function from a storage on the CPU and a name to the storage in that place, or to
            None.
    Returns: None.

    Example:
        >>> flambeau.serialization.register_package(50, lambda storage: None, lambda storage, name: None)
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """Return the name that the place of a storage has in files.

    Args:
        storage: the storage.
    Returns: the name, such as "cpu".
    Raises: RuntimeError if no registered function knows the storage.

    Example:
        >>> flambeau.serialization.location_tag(flambeau.zeros(2).untyped_storage())
        'cpu'
    """
    for _, tagger, _ in _packages:
        if location := tagger(storage):
            return location
    raise RuntimeError(f"save: no name for the place of {type(storage).__name__}")


def default_restore_location(storage: Any, location: str) -> Any:
    """Return a storage in the place that a file names.

    Args:
        storage: the storage on the CPU.
        location: the name, such as "cpu".
    Returns: the storage in that place.
    Raises: RuntimeError if no registered function knows the place.
    See also: `register_package`

    Example:
        >>> storage = flambeau.zeros(2).untyped_storage()
        >>> flambeau.serialization.default_restore_location(storage, "cpu").nbytes()
        8
    """
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found
    raise RuntimeError(f"load: cannot restore a storage at {location!r}")


def saved_location(storage: Any) -> str:
    """Return the name to write: of an added package, of an out-of-tree device, or else of the CPU."""
    if len(_packages) > 1 or is_private(storage.device.type):
        return location_tag(storage)
    return "cpu"


def _added(storage: Storage, location: str) -> Storage:
    """Ask the packages that were added, then the out-of-tree device; other storages stay on the CPU."""
    for _, tagger, deserializer in _packages:
        found = None if tagger is _tag else deserializer(storage, location)
        if found is not None:
            return _untyped(found)
    kind = location.split(":")[0] if isinstance(location, str) else ""
    if is_private(kind) and _C._privateuse1_device_count():
        return _untyped(_restore(storage, location))
    return storage


def is_private(kind: str) -> bool:
    """Whether a kind of device is that of an out-of-tree backend."""
    return kind in ("privateuseone", _C._get_privateuse1_backend_name())


def _untyped(storage: Any) -> Storage:
    return storage.untyped()


def placing(location: Any) -> Callable[[Storage, Any], Storage]:
    """Return what moves a storage to where `map_location` says."""
    if location is None:
        return _added
    if callable(location) and not isinstance(location, _C.device):  # a device is a decorator as well

        def chosen(storage: Storage, source: Any) -> Storage:
            found = location(storage, source)
            return _added(storage, source) if found is None else _untyped(found)

        return chosen
    if isinstance(location, dict):

        def mapped(storage: Storage, source: Any) -> Storage:
            if source not in location:
                return _added(storage, source)
            return _untyped(default_restore_location(storage, str(location[source])))

        return mapped
    name = str(_C.device(location)) if isinstance(location, _C.device) else str(location)
    return lambda storage, _: _untyped(default_restore_location(storage, name))
