"""Whether algorithms must be deterministic: flags that programs set and read.

No kernel here adds in an order that changes from run to run, so that nothing has to be refused; what
is left is memory that nobody has written to, which is filled where deterministic algorithms are on.
"""

from __future__ import annotations

from flambeau import _C

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
]

_MODES = ("default", "warn", "error")
_state = {"mode": 0, "fill": True}


def _settle() -> None:
    _C._set_fills_uninitialized(_state["mode"] > 0 and bool(_state["fill"]))


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for the same results in every run.

    Args:
        mode: whether to ask.
        warn_only: warn where an operator cannot promise them, instead of raising RuntimeError.
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"use_deterministic_algorithms(): argument '{name}' must be bool, not {type(value).__name__}"
            )
    _state["mode"] = (1 if warn_only else 2) if mode else 0
    _settle()


def are_deterministic_algorithms_enabled() -> bool:
    """Whether the same results are asked for in every run."""
    return _state["mode"] > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether operators that cannot promise them warn instead of raising."""
    return _state["mode"] == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set both flags: 0 or "default" none, 1 or "warn" warnings, 2 or "error" errors."""
    if not isinstance(debug_mode, int | str):
        raise TypeError(
            "set_deterministic_debug_mode: expected debug_mode to be str or int, got "
            f"{type(debug_mode).__name__}"
        )
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "set_deterministic_debug_mode: invalid value of debug_mode: expected 'default', 'warn' "
                f"or 'error', got {debug_mode!r}"
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            "set_deterministic_debug_mode: invalid value of debug_mode: expected a number from 0 to "
            f"2, got {debug_mode}"
        )
    _state["mode"] = int(debug_mode)
    _settle()


def get_deterministic_debug_mode() -> int:
    """Return 0 (nothing is asked for), 1 (warnings) or 2 (errors)."""
    return _state["mode"]


def set_fill_uninitialized(fill: bool) -> None:
    """Whether deterministic algorithms fill memory that nobody has written to."""
    _state["fill"] = fill
    _settle()


def fills_uninitialized() -> bool:
    """Return what `set_fill_uninitialized` set; True at first."""
    return bool(_state["fill"])
