"""Metadata for the nodes that are made within a block."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

__all__ = [
    "NodeSource",
    "NodeSourceAction",
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "get_graph_provenance_json",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

_F = TypeVar("_F", bound=Callable[..., Any])

current_meta: dict[str, Any] = {}
current_replay_node: Any = None
should_preserve_node_meta = False


class NodeSourceAction(Enum):
    """How a pass made a node from others."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """The origin of a node: another node, the pass that made it, and the action of the pass."""

    def __init__(self, node: Any, pass_name: str = "", action: Any = None) -> None:
        self.pass_name = pass_name
        actions = action if isinstance(action, list) else [action] if action is not None else []
        self.action: list[NodeSourceAction] = actions
        self.name = node.name if node is not None else ""
        self.target = str(node.target) if node is not None else ""
        self.graph_id = id(node.graph) if node is not None else -1
        self.from_node: list[NodeSource] = (
            copy.copy(node.meta.get("from_node", [])) if node is not None else []
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as plain data."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": "+".join(action.value for action in self.action),
            "from_node": [source.to_dict() for source in self.from_node],
        }


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Copy the current meta to new nodes within the block."""
    global should_preserve_node_meta, current_meta
    before, meta = should_preserve_node_meta, dict(current_meta)
    should_preserve_node_meta = enable
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = before, meta


def has_preserved_node_meta() -> bool:
    """Whether new nodes get the current meta."""
    return should_preserve_node_meta


def get_current_meta() -> dict[str, Any]:
    """Return the current meta."""
    return current_meta


@contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Make the meta of a node the current meta within the block."""
    global current_meta
    if not should_preserve_node_meta or not node.meta:
        yield
        return
    before = current_meta
    current_meta = dict(node.meta)
    current_meta["from_node"] = [NodeSource(node, pass_name, NodeSourceAction.CREATE)]
    try:
        yield
    finally:
        current_meta = before


def set_stack_trace(stack: list[str]) -> None:
    """Set the stack trace of the nodes that are made from now on."""
    if should_preserve_node_meta and stack:
        current_meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """Return the stack trace in the current meta."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    import traceback as standard

    return standard.format_list(standard.extract_stack()[:-1])


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Push the sequence number of the running backward node."""
    if should_preserve_node_meta:
        current_meta["grad_fn_seq_nr"] = [*current_meta.get("grad_fn_seq_nr", []), seq_nr]
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Pop the sequence number of the backward node that ran last."""
    if should_preserve_node_meta and current_meta.get("in_grad_fn", 0):
        current_meta["in_grad_fn"] -= 1
        current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Add these entries to ``meta["custom"]`` of new nodes within the block."""
    global current_meta
    before = current_meta
    custom = {**before.get("custom", {}), **annotation_dict}
    current_meta = {**before, "custom": custom}
    try:
        yield
    finally:
        current_meta = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[_F], _F]:
    """Decorate a function so that `annotate` holds during its calls."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


@contextmanager
def set_current_replay_node(node: Any) -> Iterator[None]:
    """Make a node the current replay node within the block."""
    global current_replay_node
    before, current_replay_node = current_replay_node, node
    try:
        yield
    finally:
        current_replay_node = before


def get_current_replay_node() -> Any:
    """Return the node that is being replayed, or None."""
    return current_replay_node


def get_graph_provenance_json(graph: Any) -> dict[str, Any]:
    """Return the sources of each node, by the node's name."""
    return {
        node.name: [source.to_dict() for source in node.meta.get("from_node", [])] for node in graph.nodes
    }
