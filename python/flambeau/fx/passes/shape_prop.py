"""ShapeProp: records sizes, dtype and strides of every value of a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import flambeau
from flambeau import Size, Tensor
from flambeau._subclasses.fake_tensor import deepcopy_to_fake_tensor
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """Properties of a tensor that `ShapeProp` records."""

    shape: Size
    dtype: flambeau.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: flambeau.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """Return the `TensorMetadata` of a tensor.

    Args:
        result: the tensor.
        include_contiguity: whether to determine the memory format in which the tensor is contiguous.
    """
    found = None
    formats = (flambeau.contiguous_format, flambeau.channels_last, flambeau.channels_last_3d)
    dims = {flambeau.channels_last: 4, flambeau.channels_last_3d: 5}
    for candidate in formats if include_contiguity else ():
        if dims.get(candidate, result.dim()) == result.dim() and result.is_contiguous(
            memory_format=candidate
        ):
            found = candidate
            break
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, tuple(result.stride()), found, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph on example inputs and writes ``meta["tensor_meta"]`` and ``meta["type"]`` of each node.

    Args:
        gm: the module.
        fake_mode: a `FakeTensorMode`; the operators then run on fake copies of the inputs and of the
            module's tensors. None: they run on the inputs.

    >>> import flambeau as fb
    >>> traced = fb.fx.symbolic_trace(lambda x: fb.flatten(x, 1))
    >>> result = ShapeProp(traced).propagate(fb.zeros(2, 3, 4))
    >>> [node.meta["tensor_meta"].shape for node in traced.graph.nodes]
    [flambeau.Size([2, 3, 4]), flambeau.Size([2, 12]), flambeau.Size([2, 12])]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any | None = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.real_module = self.module
        if fake_mode is not None:
            self.module = deepcopy_to_fake_tensor(self.module, fake_mode)

    def run_node(self, n: Node) -> Any:
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self.fake_mode:
                    result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(
                f"ShapeProp: ShapeProp error for {n.format_node()}, whose meta is {n.meta}; see the error "
                "above"
            ) from error
        found = False

        def note(leaf: Any) -> Any:
            nonlocal found
            if isinstance(leaf, Tensor):
                found = True
                return _extract_tensor_metadata(leaf)
            return leaf

        noted = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = noted
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these inputs, or on fake copies of them, and return its result."""
        if self.fake_mode is not None:
            args = tuple(self.fake_mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args)
        return super().run(*args)
