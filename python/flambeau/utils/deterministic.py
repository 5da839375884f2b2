"""``fill_uninitialized_memory``: whether deterministic algorithms fill what ``empty`` and ``resize_`` give.

NaN for floating and complex numbers, the largest value for integers. True at first.
"""

from __future__ import annotations

import sys
from types import ModuleType

from flambeau._state import determinism


class _Module(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether such memory is filled."""
        return determinism.fills_uninitialized()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value: bool) -> None:
        determinism.set_fill_uninitialized(value)


sys.modules[__name__].__class__ = _Module
