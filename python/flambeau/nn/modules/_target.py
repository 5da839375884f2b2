"""Reads the arguments of `Module.to`: where to and in which dtype."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor

_FORMS = {
    "tensor": ("tensor", "non_blocking", "copy"),
    "dtype": ("dtype", "non_blocking", "copy"),
    "device": ("device", "dtype", "non_blocking", "copy"),
}
_SCALARS = {bool: flambeau.bool, int: flambeau.int64, float: flambeau.float64, complex: flambeau.complex128}
Target = tuple[Any, Any, bool, Any]


def target_of(*args: Any, **kwargs: Any) -> Target:
    """Return device, dtype, whether the copy may be asynchronous, and memory format; None is not a change.

    The forms are ``(device, dtype, non_blocking, copy)``, ``(dtype, non_blocking, copy)`` and
    ``(tensor, non_blocking, copy)``, each with ``memory_format=``.
    """
    given = dict(kwargs)
    memory_format = given.pop("memory_format", None)
    first = args[0] if args else None
    is_dtype = isinstance(first, flambeau.dtype | bool | float) or isinstance(first, type)
    form = "tensor" if isinstance(first, Tensor) or "tensor" in given else "dtype" if is_dtype else "device"
    names = _FORMS[form]
    doubled = set(names[: len(args)]) & set(given)
    if len(args) > len(names) or set(given) - set(names) or doubled:
        raise TypeError(f"Module.to: expected ({', '.join(names)}), got {_shown(args, kwargs)}")
    given |= dict(zip(names, args, strict=False))
    if form == "tensor":
        device, dtype = given["tensor"].device, given["tensor"].dtype
    else:
        device, dtype = given.get("device"), given.get("dtype")
    named = type(dtype) if form == "dtype" and isinstance(dtype, bool | float) else dtype
    dtype = _SCALARS.get(named, named) if isinstance(named, type) else named
    kinds = ((device, flambeau.device | str | int | None), (dtype, flambeau.dtype | None))
    flags = all(isinstance(given.get(name, False), bool) for name in ("non_blocking", "copy"))
    if not flags or not all(isinstance(value, kind) for value, kind in kinds):
        raise TypeError(f"Module.to: expected ({', '.join(names)}), got {_shown(args, kwargs)}")
    device = flambeau.device(device) if isinstance(device, str | int) else device
    return device, dtype, bool(given.get("non_blocking", False)), memory_format


def _shown(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    kinds = [type(x).__name__ for x in args] + [f"{k}={type(x).__name__}" for k, x in kwargs.items()]
    return f"({', '.join(kinds)})"
