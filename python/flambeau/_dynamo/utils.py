"""Questions about compilation that libraries ask."""

from __future__ import annotations

from collections import Counter, defaultdict

# Category -> what happened -> how often: "stats", "graph_break", "unimplemented".
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def is_compile_supported(device_type: str) -> bool:
    """Whether programs can be compiled for a device: False."""
    return False
