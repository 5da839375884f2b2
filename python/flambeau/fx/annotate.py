"""Types for values of traced programs."""

from __future__ import annotations

from typing import Any

from flambeau.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:
    """Set the type of a traced value on its node; other values are returned unchanged.

    Raises: RuntimeError if the node has another type.
    """
    if not isinstance(val, Proxy):
        return val
    if val.node.type is not None and val.node.type != type:
        raise RuntimeError(
            f"annotate: {val.node} has type {val.node.type} already, so it cannot get type {type}"
        )
    val.node.type = type
    return val
