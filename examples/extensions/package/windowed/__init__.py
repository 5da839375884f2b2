"""Sums over a sliding window."""

import flambeau

from windowed._native import window_sum

__all__ = ["window_sum"]
