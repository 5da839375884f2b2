"""A tracer of operators that describes the value of each node by a fake tensor."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._object.subclass import DisableTorchDispatch
from flambeau._subclasses.fake_tensor import FakeTensor, FakeTensorMode, snapshot
from flambeau.fx.experimental._operator_trace import OperatorTracer
from flambeau.fx.node import Node
from flambeau.fx.passes.shape_prop import _extract_tensor_metadata


class DescribingTracer(OperatorTracer):
    """Writes ``meta["val"]`` and ``meta["tensor_meta"]`` of nodes of tensors.

    Args:
        record_stack_traces: whether nodes hold the lines of the program that called their operators.
    """

    def __init__(self, record_stack_traces: bool) -> None:
        super().__init__()
        self.record_stack_traces = record_stack_traces
        self._mode = FakeTensorMode()  # for the fake tensors that describe real values

    def describe(self, node: Node, value: Any, is_constant: bool = False) -> None:
        """Write a description of a node's value to its meta."""
        if "val" in node.meta:
            return
        with DisableTorchDispatch():
            node.meta["val"] = fake = self._fake(value)
            if fake is not None:
                node.meta["tensor_meta"] = _extract_tensor_metadata(fake)

    def _fake(self, value: Any) -> Any:
        if isinstance(value, FakeTensor):
            return snapshot(value)
        if value.layout is not flambeau.strided or type(value) not in (Tensor, flambeau.nn.Parameter):
            return None
        size, stride = value.size(), value.stride()
        elem = flambeau.empty_strided(size, stride, dtype=value.dtype, device="meta")
        return self._mode._wrapped(elem, value.device)

    def assign(self, result: Any, node: Node) -> None:
        """Give the tensors of a result their nodes; describe several values on the node of the call."""
        super().assign(result, node)
        if isinstance(result, list | tuple):
            parts = {user.args[1]: user.meta.get("val") for user in node.users}
            node.meta["val"] = tuple(parts.get(i) for i in range(len(result)))

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Add a node."""
        node = super().create_node(*args, **kwargs)
        if self.record_stack_traces and node.op == "call_function":
            node.stack_trace = self._stack_text()
        return node
