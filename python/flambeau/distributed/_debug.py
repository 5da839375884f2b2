"""How much distributed communication checks and says."""

from __future__ import annotations

import enum
import os

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


class DebugLevel(enum.Enum):
    """How much is checked.

    Example:
        >>> flambeau.distributed.DebugLevel.OFF.name
        'OFF'
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


DebugLevel.__module__ = "flambeau.distributed"
_NAME = "TORCH_DISTRIBUTED_DEBUG"


def _of_environment() -> DebugLevel:
    text = os.environ.get(_NAME, "OFF").upper()
    if text not in DebugLevel.__members__:
        raise ValueError(
            f"set_debug_level_from_env: expected OFF, INFO or DETAIL in {_NAME}, got {text}: The value of "
            f"{_NAME} must be OFF, INFO, or DETAIL"
        )
    return DebugLevel[text]


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """Return how much is checked, as TORCH_DISTRIBUTED_DEBUG or `set_debug_level` says.

    Returns: the level.

    Example:
        >>> flambeau.distributed.get_debug_level().name
        'OFF'
    """
    global _level
    if _level is None:
        _level = _of_environment()
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Set how much is checked.

    Args:
        level: the level.
    Returns: None.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.set_debug_level(dist.DebugLevel.OFF)
    """
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Set how much is checked from TORCH_DISTRIBUTED_DEBUG.

    Returns: None.
    Raises: ValueError for another text than OFF, INFO and DETAIL.

    Example:
        >>> flambeau.distributed.set_debug_level_from_env()
    """
    global _level
    _level = _of_environment()
