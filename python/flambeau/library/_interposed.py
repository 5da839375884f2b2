"""Kernels in Python that take the place of compiled ones, for one operator and dispatch key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C

Function = Callable[..., Any]

# Purposes, as in python/csrc/python_kernels.cpp.
_KEY, _AUTOGRAD, _AUTOCAST, _EXPLICIT, _IMPLICIT = range(5)
_ANY = -1
_COMPOSITE = {
    "CompositeImplicitAutograd": _IMPLICIT,
    "CompositeExplicitAutograd": _EXPLICIT,
    "CompositeExplicitAutogradNonFunctional": _EXPLICIT,
}


def number_of(key: str) -> int:
    """Return the dispatcher's number of a key; -1 for keys that no call has here."""
    from flambeau._surface.dispatch_keys import OURS

    bit = 0 if key in ("PrivateUse2", "PrivateUse3") else _C._dispatch_key_bit(OURS.get(key, key))
    return bit.bit_length() - 1


def place_of(key: str) -> tuple[int, int] | None:
    """Return the purpose and the backend of a key; None for keys that no call has here.

    >>> place_of("AutogradCPU"), place_of("Autograd"), place_of("AutogradXLA")
    ((1, 0), (1, -1), None)
    """
    if key in _COMPOSITE:
        return _COMPOSITE[key], _ANY
    if key == "Autograd":
        return _AUTOGRAD, _ANY
    for prefix, purpose in (("Autograd", _AUTOGRAD), ("Autocast", _AUTOCAST)):
        if key.startswith(prefix):
            number = number_of(key.removeprefix(prefix))
            return None if number < 0 else (purpose, number)
    number = number_of(key)
    return None if number < 0 else (_KEY, number)


# Entry -> the keys of its kernels in Python, by registration.
_registered: dict[str, dict[int, str]] = {}


def registered(entry: str) -> list[str]:
    """Return the keys for which an operator of the specification has kernels in Python."""
    return list(_registered.get(entry, {}).values())


class Interposition:
    """One kernel in Python at one operator of the specification, until `remove`.

    Args:
        entry: the operator's name in the dispatcher, such as "add.Tensor".
        key: the dispatch key.
        function: the kernel; None lets calls pass to the next key.
        with_keyset: whether the kernel receives the key set first.
    """

    def __init__(self, entry: str, key: str, function: Function | None, with_keyset: bool) -> None:
        self.entry, self._number = entry, 0
        _registered.setdefault(entry, {})[id(self)] = key
        place = place_of(key)
        if place is not None:
            given = _with_set(function) if with_keyset and function is not None else function
            self._number = _C._add_kernel(entry, *place, given, with_keyset)

    def remove(self) -> None:
        """Restore the kernel that was active before."""
        _registered[self.entry].pop(id(self), None)
        if self._number:
            _C._remove_kernel(self.entry, self._number)
        self._number = 0


def _with_set(function: Function) -> Function:
    from flambeau._surface.dispatch_keys import set_of_bits

    def kernel(bits: int, /, *args: Any, **kwargs: Any) -> Any:
        return function(set_of_bits(bits), *args, **kwargs)

    return kernel


def add_fallback(key: str, function: Function | None, with_keyset: bool) -> Callable[[], None]:
    """Set the kernel of all operators that have none for the key; returns what removes it."""
    from flambeau._surface.dispatch_keys import set_of_bits
    from flambeau.ops import overload_of

    number = number_of(key)
    if number < 0 or function is None:
        return lambda: None
    given = function

    def fallback(entry: str, bits: int, /, *args: Any, **kwargs: Any) -> Any:
        leading = (set_of_bits(bits),) if with_keyset else ()
        return given(*leading, overload_of(entry), *args, **kwargs)

    _C._set_fallback(number, fallback)
    return lambda: _C._set_fallback(number, None)
