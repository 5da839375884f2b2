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
_state = {"fill": True}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Require the same results in every run.

    Args:
        mode: whether to require them.
        warn_only: warn where an operator cannot promise them, instead of raising RuntimeError.
    Returns: nothing.
    Raises: TypeError if an argument is not a bool.

    Example:
        >>> flambeau.use_deterministic_algorithms(True)
        >>> flambeau.are_deterministic_algorithms_enabled()
        True
        >>> flambeau.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"use_deterministic_algorithms(): argument '{name}' must be bool, not {type(value).__name__}"
            )
    _C._set_deterministic_mode((1 if warn_only else 2) if mode else 0)


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether the same results are required in every run.

    Returns: True after ``use_deterministic_algorithms(True)``, with or without `warn_only`.

    Example:
        >>> flambeau.are_deterministic_algorithms_enabled()
        False
    """
    return _C._deterministic_mode() > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether operators that cannot promise the same results warn instead of raising.

    Returns: True after ``use_deterministic_algorithms(True, warn_only=True)``.

    Example:
        >>> flambeau.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return _C._deterministic_mode() == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set both flags of `use_deterministic_algorithms` by one number or name.

    Args:
        debug_mode: 0 or ``"default"``: nothing is required; 1 or ``"warn"``: operators that cannot promise
            the same results warn; 2 or ``"error"``: they raise.
    Returns: nothing.
    Raises: TypeError if the mode is neither a number nor text; RuntimeError for any other number or text.

    Example:
        >>> flambeau.set_deterministic_debug_mode("warn")
        >>> flambeau.get_deterministic_debug_mode()
        1
        >>> flambeau.set_deterministic_debug_mode(0)
    """
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
    _C._set_deterministic_mode(int(debug_mode))


def get_deterministic_debug_mode() -> int:
    """Return the mode that `set_deterministic_debug_mode` or `use_deterministic_algorithms` set.

    Returns: 0 (nothing is required), 1 (warnings) or 2 (errors).

    Example:
        >>> flambeau.get_deterministic_debug_mode()
        0
    """
    return _C._deterministic_mode()


def set_fill_uninitialized(fill: bool) -> None:
    """Whether deterministic algorithms fill memory that nobody has written to."""
    _state["fill"] = fill
    _C._set_fills_uninitialized(fill)


def fills_uninitialized() -> bool:
    """Return what `set_fill_uninitialized` set; True at first."""
    return bool(_state["fill"])
