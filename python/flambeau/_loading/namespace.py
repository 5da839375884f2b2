"""The functions that the specification puts into a namespace."""

from __future__ import annotations

from typing import Any

from flambeau import _C


def functions_of(namespace: str) -> dict[str, Any]:
    """Return name -> function; a name that repeats the namespace is there without it as well."""
    table = getattr(_C, f"_{namespace}", None)
    found = {k: f for k, f in vars(table).items() if not k.startswith("__")} if table else {}
    return found | {k.removeprefix(f"{namespace}_"): f for k, f in found.items()}
