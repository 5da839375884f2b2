"""FakeTensorProp: runs a graph on fake tensors and records the value of every node."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau._subclasses.fake_tensor import FakeTensorMode, deepcopy_to_fake_tensor, snapshot
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph on fake tensors and writes ``meta["val"]`` of each node: a fake tensor, or a number.

    The parameters and buffers of the module count as fake; the module itself does not change.

    Args:
        module: the graph's module.
        mode: the mode of the values. None makes one.

    Example:
        >>> import flambeau as fb
        >>> traced = fb.fx.symbolic_trace(fb.nn.Linear(3, 2))
        >>> FakeTensorProp(traced).propagate(fb.zeros(4, 3))
        FakeTensor(..., size=(4, 2), grad_fn=<AddmmBackward0>)
        >>> [node.meta["val"].shape for node in traced.graph.nodes if node.op == "placeholder"]
        [flambeau.Size([4, 3])]
    """

    def __init__(self, module: Any, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode
        self.module = deepcopy_to_fake_tensor(self.module, self._mode)

    def run_node(self, n: Node) -> Any:
        """Run one node and record its value."""
        result = super().run_node(n)
        noted = map_aggregate(result, self._noted)
        if noted is not None:
            n.meta["val"] = noted
        return result

    def _noted(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return snapshot(self._mode.from_tensor(value))
        return value if isinstance(value, bool | int | float) else None

    def propagate(self, *args: Any) -> Any:
        """Run the graph on fake copies of the arguments, and return its result."""
        given = [self._mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args]
        return self.propagate_dont_convert_inputs(*given)

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on arguments that are fake already, and return its result."""
        with self._mode:
            return super().run(*args)
