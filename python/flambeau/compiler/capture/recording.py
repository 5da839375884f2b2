"""The graph of one segment: one node per call that returns tensors."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.compiler.capture import known
from flambeau.compiler.capture.origins import Origin
from flambeau.compiler.capture.tracker import Tracker, is_leaf
from flambeau.compiler.symbolic.numbers import Journal, fixed, is_tracked
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node, map_arg

_KEPT_TYPES = (flambeau.Size, flambeau.finfo, flambeau.iinfo)


class Unrecordable(Exception):
    """An argument that a graph cannot hold."""


class Recorder:
    """Adds nodes to a graph while operators run.

    Args:
        tracker: the segment's origins; tensors with an origin become inputs of the graph.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.graph = Graph()
        self.inputs: list[tuple[Origin, Any]] = []  # in the order of the placeholders
        self.has_effects = False
        self.journal = Journal(self.graph)
        self.sized: set[Node] = set()  # nodes whose sizes may differ from call to call
        self.unsteady: set[Node] = (
            set()
        )  # nodes whose strides and gradient state depend on the number of iterations of a loop
        self._sizes: dict[tuple[Node, str, int], Any] = {}
        self.attributes: dict[str, Any] = {}  # attributes of the graph's module: branches and bodies
        self._nodes: dict[int, tuple[Node, Any]] = {}
        self._objects: dict[str, Node] = {}
        self._names: set[str] = set()
        self._last_input: Node | None = None

    # --- tensors ------------------------------------------------------------------------------------

    def node_of(self, tensor: flambeau.Tensor) -> Node | None:
        """Return the node of a tensor, an input of the graph if it has an origin; None if it is unknown."""
        found = self._nodes.get(id(tensor))
        if found is not None:
            return found[0]
        origin = self.tracker.origin_of(tensor)
        return None if origin is None else self._add_input(tensor, origin)

    def _add_input(self, tensor: flambeau.Tensor, origin: Origin) -> Node:
        base = "l_" + re.sub(r"\W+", "_", origin.name()).strip("_").lower() + "_"
        name, count = base, 0
        while name in self._names:
            count += 1
            name = f"{base}{count}"
        self._names.add(name)
        place = self._last_input
        with self.graph.inserting_before(None) if place is None else self.graph.inserting_after(place):
            node = self.graph.placeholder(name)
        self._last_input = node
        node.meta["example_value"] = tensor
        self.inputs.append((origin, tensor))
        if id(tensor) in self.tracker.any_size:
            self.sized.add(node)
        self._remember(tensor, node)
        return node

    def _remember(self, tensor: flambeau.Tensor, node: Node) -> None:
        key, nodes = id(tensor), self._nodes
        nodes[key] = (node, weakref.ref(tensor, lambda _: nodes.pop(key, None)))

    # --- calls --------------------------------------------------------------------------------------

    def argument(self, value: Any) -> Any:
        """Return a value as an argument of a node; `Unrecordable` if a graph cannot hold it."""
        if isinstance(value, flambeau.Tensor):
            node = self.node_of(value)
            if node is None:
                raise Unrecordable("a tensor that was made outside the graph")
            return node
        if is_tracked(value):
            return value.node
        if is_leaf(value) and not isinstance(value, slice):
            return value
        if isinstance(value, slice):
            return slice(*map(self.argument, (value.start, value.stop, value.step)))
        if type(value) in (list, tuple, flambeau.Size):
            self.tracker.expand(value)
            items = [self.argument(item) for item in value]
            return items if type(value) is list else tuple(items)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.argument, value))
        if type(value) is dict:
            self.tracker.expand(value)
            return {key: self.argument(item) for key, item in value.items()}
        if isinstance(value, type) or isinstance(value, _KEPT_TYPES):
            return value
        if isinstance(value, flambeau._C._CustomObject):
            return self._object(value)
        raise Unrecordable(f"an argument of type {type(value).__name__}")

    def _object(self, value: Any) -> Node:
        """Return the attribute of the graph's module that holds an object of a class of C++.

        A guard compares the object's identity.
        """
        if self.tracker.origin_of(value) is None:
            raise Unrecordable("an object that was made outside the graph")
        name = f"_torchbind_obj{flambeau._C._custom_object_id(value):x}"
        if name not in self.attributes:
            self.attributes[name] = value
            with (
                self.graph.inserting_before(None)
                if self._last_input is None
                else (self.graph.inserting_after(self._last_input))
            ):
                self._objects[name] = self.graph.get_attr(name)
            self._objects[name].meta["is_object"] = True
        return self._objects[name]

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Return the arguments of a call as a node holds them."""
        return tuple(map(self.argument, args)), {key: self.argument(v) for key, v in kwargs.items()}

    def record(
        self, op: str, target: str | Callable[..., Any], args: Any, kwargs: Any, result: Any, line: str
    ) -> None:
        """Add the node of a call whose result is known, and give tensors in the result their nodes."""
        node = self.graph.create_node(op, target, args, kwargs)
        node.meta["example_value"] = result if isinstance(result, flambeau.Tensor) else None
        node.meta["stack_trace"] = line
        if self.sized and any(n in self.sized or n in self.journal.numbers for n in node.all_input_nodes):
            self.sized.add(node)
        if self.unsteady and any(n in self.unsteady for n in node.all_input_nodes):
            self.unsteady.add(node)
        self._assign(result, node)

    def _assign(self, result: Any, node: Node) -> None:
        import operator

        if isinstance(result, flambeau.Tensor):
            self._remember(result, node)
        elif isinstance(result, list | tuple):
            if node in self.sized:
                fixed(self.journal.compute("call_function", len, (node,), {}, len(result)))
            for i, item in enumerate(result):
                if has_tensor(item):
                    part = self.graph.create_node("call_function", operator.getitem, (node, i), {})
                    self._inherit(part, node)
                    self._assign(item, part)
        elif isinstance(result, dict):
            for key, item in result.items():
                if has_tensor(item):
                    part = self.graph.create_node("call_function", operator.getitem, (node, key), {})
                    self._inherit(part, node)
                    self._assign(item, part)

    def _inherit(self, part: Node, whole: Node) -> None:
        for nodes in (self.sized, self.unsteady):
            if whole in nodes:
                nodes.add(part)

    # --- numbers ------------------------------------------------------------------------------------

    def number(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> Any:
        """Return a result that is not a tensor, tracked if it may depend on open sizes."""
        if not self.sized:
            return value
        given, named = self.arguments(args, kwargs)
        nodes: list[Node] = []
        map_arg((given, named), nodes.append)
        if not any(n in self.sized or n in self.journal.numbers for n in nodes):
            return value
        return self.journal.compute(op, target, given, named, value)

    def metadata(self, tensor: flambeau.Tensor, name: str, value: Any) -> Any:
        """Return an attribute of a tensor as the program sees it; sizes and strides are tracked."""
        node = self.node_of(tensor)
        if node is None or node not in self.sized or name not in known.SIZED or callable(value):
            return value
        if name in ("shape", "size", "stride") and isinstance(value, tuple):
            method = "stride" if name == "stride" else "size"
            items = [self._size(node, method, i, item) for i, item in enumerate(value)]
            return tuple.__new__(type(value), items)
        return self.journal.compute("call_function", getattr, (node, name), {}, value)

    def _size(self, node: Node, method: str, i: int, value: int) -> Any:
        found = self._sizes.get((node, method, i))
        if found is None:
            found = self.journal.compute("call_method", method, (node, i), {}, value)
            self._sizes[node, method, i] = found
        return found

    def fix_sizes(self) -> None:
        """Fix all sizes, because the graph calls code that must run exactly once per call."""
        self.tracker.fix_sizes()

    # --- the end ------------------------------------------------------------------------------------

    def state_call(self, target: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Add a call that changes the thread's state."""
        self.graph.create_node("call_function", target, args, {})
        self.has_effects = True

    def finish(self, outputs: list[Node]) -> None:
        """Add the output node."""
        self.graph.output(tuple(outputs))

    def is_empty(self) -> bool:
        """Whether the graph computes nothing."""
        return not any(node.op not in ("placeholder", "output") for node in self.graph.nodes)


def has_tensor(value: Any) -> bool:
    """Whether a result is or contains a tensor."""
    if isinstance(value, flambeau.Tensor):
        return True
    if isinstance(value, list | tuple):
        return any(map(has_tensor, value))
    return isinstance(value, dict) and any(map(has_tensor, value.values()))
