"""Graphs of ONNX files for TensorBoard, read by the package onnx."""

from __future__ import annotations

from typing import Any

from flambeau.utils.tensorboard._graphs import PRODUCER

# Numbers of element types in ONNX's TensorProto -> names in TensorBoard's.
_TYPES = {
    1: "DT_FLOAT",
    2: "DT_UINT8",
    3: "DT_INT8",
    4: "DT_UINT16",
    5: "DT_INT16",
    6: "DT_INT32",
    7: "DT_INT64",
    8: "DT_STRING",
    9: "DT_BOOL",
    10: "DT_HALF",
    11: "DT_DOUBLE",
    12: "DT_UINT32",
    13: "DT_UINT64",
    14: "DT_COMPLEX64",
    15: "DT_COMPLEX128",
    16: "DT_BFLOAT16",
}


def _variable(name: str, kind: int, sizes: list[int]) -> Any:
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DataType

    node = NodeDef(name=name, op="Variable")
    node.attr["dtype"].type = DataType.Value(_TYPES.get(kind, "DT_INVALID"))
    node.attr["shape"].shape.dim.extend(TensorShapeProto.Dim(size=size) for size in sizes)
    return node


def _value(info: Any) -> Any:
    kind = info.type.tensor_type
    return _variable(info.name, kind.elem_type, [size.dim_value for size in kind.shape.dim])


def onnx_graph_of(path: Any) -> Any:
    """Return the graph of an ONNX file as TensorBoard's record.

    A node has the name of its first output. Inputs, and weights that the file holds, are variables. The size
    of a dimension without a number is 0.

    Args:
        path: the file.
    Raises: ModuleNotFoundError without the package onnx; what the package raises for the file.
    """
    import onnx
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    from tensorboard.compat.proto.versions_pb2 import VersionDef

    graph = onnx.load(path).graph
    nodes = {info.name: _value(info) for info in graph.input}
    for weight in graph.initializer:
        nodes.setdefault(weight.name, _variable(weight.name, weight.data_type, list(weight.dims)))
    maker = {name: name for name in nodes}
    for call in graph.node:
        first = next(name for name in call.output if name)
        maker.update(dict.fromkeys(call.output, first))
        settings = [f"{a.name} = {onnx.helper.get_attribute_value(a)}" for a in call.attribute]
        node = NodeDef(name=first, op=call.op_type, input=[maker[name] for name in call.input if name])
        node.attr["parameters"].s = ", ".join(settings).encode()
        nodes[first] = node
    for info in graph.output:
        node = _value(info)
        node.op, node.name = "IO Node", f"output/{info.name}"
        node.input.append(maker[info.name])
        nodes[node.name] = node
    return GraphDef(node=nodes.values(), versions=VersionDef(producer=PRODUCER))
