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
    """Add a way to name the place of a storage in files, and to restore the storage there.

    Args:
        priority: lower numbers are asked first; the devices of this package have 10.
        tagger: gives a storage's name, or None for another one's storage.
        deserializer: gives the storage to use in place of a storage on the CPU and its name, or None.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """Return the name that a storage's place has in files.

    Raises: RuntimeError if no registered function knows the storage.
    """
    for _, tagger, _ in _packages:
        if location := tagger(storage):
            return location
    raise RuntimeError(f"save: no name for the place of {type(storage).__name__}")


def default_restore_location(storage: Any, location: str) -> Any:
    """Return the storage in the place that a file names.

    Raises: RuntimeError if no registered function knows the place.
    """
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found
    raise RuntimeError(f"load: cannot restore a storage at {location!r}")


def saved_location(storage: Any) -> str:
    """Return the name to write: that of an added package, else the CPU, where the bytes come from."""
    if len(_packages) > 1:
        return location_tag(storage)
    return "cpu"


def _added(storage: Storage, location: str) -> Storage:
    """Ask the packages that were added; storages of others stay on the CPU."""
    for _, tagger, deserializer in _packages:
        found = None if tagger is _tag else deserializer(storage, location)
        if found is not None:
            return _untyped(found)
    return storage


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
