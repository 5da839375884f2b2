"""Settings of ahead-of-time autograd that programs change."""

from __future__ import annotations

from typing import Any

from flambeau.compiler._settings import patcher

# How much memory the values that compiled graphs save for backward may take. 1: operators on single
# elements are computed again where that saves memory. 0: everything that gives the same values again.
# Between: products and other operators too, until what is saved lies this far between the two.
activation_memory_budget = 1.0

patch: Any = patcher(__name__)
