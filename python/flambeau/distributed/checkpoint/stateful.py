"""Objects with a state that `save` takes and `load` sets."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

from flambeau._C import Tensor

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


def stateful_keys(state_dict: dict[str, Any]) -> list[str]:
    """Return the keys of objects with a state, in one order on all ranks: objects may communicate."""
    found = [k for k, v in state_dict.items() if isinstance(v, Stateful) and not isinstance(v, Tensor)]
    return sorted(found, key=str)


def with_states(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a state dict with the states of its objects in their places."""
    states = {key: state_dict[key].state_dict() for key in stateful_keys(state_dict)}
    return {key: states.get(key, value) for key, value in state_dict.items()}
