"""Types for values of traced programs."""

from __future__ import annotations

from typing import Any

from flambeau.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:
    """Give a value a type, which its node stores; values that are not traced are returned unchanged.

    Raises: RuntimeError if the node has another type.
    """
    if not isinstance(val, Proxy):
        return val
    if val.node.type is not None and val.node.type != type:
        raise RuntimeError(
            f"annotate: {val.node} has type {val.node.type} already, and is now to be of {type}"
        )
    val.node.type = type
    return val
