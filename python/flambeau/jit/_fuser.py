"""Switches of operator fusion. They are stored and have no effect: nothing fuses operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_settings: dict[str, Any] = {"onednn": False, "strategy": [("STATIC", 2), ("DYNAMIC", 10)]}


def enable_onednn_fusion(enabled: bool) -> None:
    """Store whether oneDNN may fuse operators; the setting has no effect, because nothing is fused.

    Args:
        enabled: what `onednn_fusion_enabled` returns from now on.
    Returns: None.

    Example:
        >>> flambeau.jit.enable_onednn_fusion(True)
        >>> flambeau.jit.onednn_fusion_enabled()
        True
        >>> flambeau.jit.enable_onednn_fusion(False)
    """
    _settings["onednn"] = enabled


def onednn_fusion_enabled() -> bool:
    """Return the setting that `enable_onednn_fusion` stored.

    Returns: a bool; initially False.

    Example:
        >>> flambeau.jit.onednn_fusion_enabled()
        False
    """
    return bool(_settings["onednn"])


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Store how often a fuser may specialise on sizes; the setting has no effect, because nothing is fused.

    Args:
        strategy: pairs of a kind, "STATIC" or "DYNAMIC", and a count.
    Returns: the strategy that was stored before.
    Raises: RuntimeError for any other kind.

    Example:
        >>> before = flambeau.jit.set_fusion_strategy([("DYNAMIC", 3)])
        >>> flambeau.jit.set_fusion_strategy(before)
        [('DYNAMIC', 3)]
    """
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise RuntimeError(f"set_fusion_strategy: expected STATIC or DYNAMIC, got {kind!r}")
    before = _settings["strategy"]
    _settings["strategy"] = list(strategy)
    return before


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Run a block; the argument has no effect, because programs are not optimised.

    Args:
        should_optimize: accepted for compatibility.
    Returns: a context manager.

    Example:
        >>> with flambeau.jit.optimized_execution(False):
        ...     flambeau.ones(1) + 1
        tensor([2.])
    """
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Check the name of a fuser and run a block; nothing is fused.

    Args:
        name: "fuser0", "fuser1", "fuser2" or "fuser3".
    Returns: a context manager.
    Raises: ValueError for any other name, when the block is entered.

    Example:
        >>> with flambeau.jit.fuser("fuser1"):
        ...     flambeau.ones(1) + 1
        tensor([2.])
    """
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3"):
        raise ValueError(
            f"jit.fuser: unrecognized fuser: expected 'fuser0', 'fuser1', 'fuser2' or 'fuser3', got {name!r}"
        )
    yield


class strict_fusion:
    """Context manager without effect.

    In PyTorch, a compiled program fails if an operator in the block is not fused. Here programs run as
    Python, and nothing is fused.

    Example:
        >>> with flambeau.jit.strict_fusion():
        ...     flambeau.ones(1) + 1
        tensor([2.])
    """

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def last_executed_optimized_graph() -> None:
    """Return None, because no optimiser runs graphs.

    Returns: None.

    Example:
        >>> print(flambeau.jit.last_executed_optimized_graph())
        None
    """
