"""Switches of operator fusion. They are stored and have no effect: nothing fuses operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_settings: dict[str, Any] = {"onednn": False, "strategy": [("STATIC", 2), ("DYNAMIC", 10)]}


def enable_onednn_fusion(enabled: bool) -> None:
    """Remember whether oneDNN is to fuse operators; nothing is fused."""
    _settings["onednn"] = enabled


def onednn_fusion_enabled() -> bool:
    """Return what `enable_onednn_fusion` was told."""
    return bool(_settings["onednn"])


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Remember how often to specialise on sizes, and return what was remembered; nothing is fused.

    Raises: RuntimeError for another kind than "STATIC" and "DYNAMIC".
    """
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise RuntimeError(f"set_fusion_strategy: expected STATIC or DYNAMIC, got {kind!r}")
    before = _settings["strategy"]
    _settings["strategy"] = list(strategy)
    return before


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing: there are no optimisations to switch."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Check the name of a fuser and ignore it: nothing fuses operators.

    Raises: ValueError for an unknown name.
    """
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3"):
        raise ValueError(
            f"jit.fuser: unrecognized fuser: expected 'fuser0', 'fuser1', 'fuser2' or 'fuser3', got {name!r}"
        )
    yield


class strict_fusion:
    """Do nothing: in a compiled program, all operators of the block would have to be fused."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def last_executed_optimized_graph() -> None:
    """Return None: there is no optimiser that could have run a graph."""
