"""Objects with a state that `save` takes and `load` sets."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """Object whose state is saved and loaded.

    Example:
        >>> from flambeau.distributed.checkpoint.stateful import Stateful
        >>> isinstance(flambeau.nn.Linear(1, 1), Stateful)
        True
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the state."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
