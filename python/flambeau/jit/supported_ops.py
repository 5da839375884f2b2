"""The operators that scripted programs can use: all of them, since scripts run as Python."""

from __future__ import annotations

from flambeau import _C


def _get_tensor_ops() -> list[str]:
    """The schemas of operators, sorted."""
    return sorted(_C._operator_schemas())
