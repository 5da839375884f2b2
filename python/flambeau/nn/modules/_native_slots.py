"""Attributes and calls of modules in C, for classes that keep Module's ``__getattr__`` and ``__call__``."""

from __future__ import annotations

from flambeau import _C
from flambeau.nn.modules.hooks import HookedModule, everywhere


class NativeSlots:
    """Lets C find the members of modules and run their calls; results are the same.

    A class with ``__getattr__`` or ``__call__`` of its own keeps it. Assigning one to a class ends the
    effect for it and its subclasses: code that assigns one for a while calls `use` afterwards.

    Args:
        root: the class whose functions C stands for, as they are now.
    """

    def __init__(self, root: type[HookedModule]) -> None:
        self._functions = root.__getattr__, root.__call__  # type: ignore[attr-defined]
        self.use(root)

    def use(self, cls: type) -> None:
        """Start the effect for `cls` and its subclasses."""
        _C._use_module_slots(cls, *self._functions, everywhere)
