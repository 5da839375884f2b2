"""Graphs of models for TensorBoard: the functions that a call runs, in the scopes of the modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flambeau._arguments.nested import tensors_in
from flambeau.overrides import TorchFunctionMode, resolve_name

# The version of the graph format that TensorBoard expects at least.
PRODUCER = 22


def scopes_of(model: Any) -> dict[str, str]:
    """Return the scope of each module by its name in the model, such as "Net/Sequential[body]/Linear[0]"."""
    scopes = {"": type(model).__name__}
    for name, module in model.named_modules():
        if name:
            parent, _, last = name.rpartition(".")
            scopes[name] = f"{scopes[parent]}/{type(module).__name__}[{last}]"
    return scopes


def _settings_text(args: Any, kwargs: Any) -> str:
    """Return the arguments that are not tensors, as in a call."""
    given = [("", value) for value in args] + [(f"{name}=", value) for name, value in kwargs.items()]
    return ", ".join(f"{name}{value!r}" for name, value in given if not list(tensors_in(value)))


class GraphRecorder(TorchFunctionMode):
    """Records functions of tensors as nodes.

    Args:
        model: whose parameters and buffers become nodes where they are used.

    A tensor is known by its identity, for which the recorder keeps it alive. The result of an in-place
    function replaces its argument.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.scopes = scopes_of(model)
        self.running = [self.scopes[""]]
        self.nodes: list[Any] = []
        self._names: Counter[str] = Counter()
        self._made: dict[int, tuple[Any, str]] = {}
        self._owned: dict[int, str] = {}
        for name, value in (*model.named_parameters(), *model.named_buffers()):
            owner, _, last = name.rpartition(".")
            self._owned.setdefault(id(value), f"{self.scopes[owner]}/{last}")

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a function and add its node, unless it returns no tensor."""
        kwargs = kwargs or {}
        inputs = list(tensors_in([args, kwargs]))
        result = func(*args, **kwargs)
        outputs = list(tensors_in(result))
        if outputs:
            path = (resolve_name(func) or func.__name__).removesuffix(".__get__")
            kind = path.rpartition(".")[2]
            sources = [self.source_of(tensor) for tensor in inputs]
            name = f"{self.running[-1]}/{kind.strip('_')}"
            self.add(name, f"aten::{kind}", sources, outputs, _settings_text(args, kwargs))
        return result

    def add(self, name: str, kind: str, sources: list[str], outputs: list[Any], text: str = "") -> str:
        """Add a node and return its name, which is numbered if it is taken."""
        from tensorboard.compat.proto.attr_value_pb2 import AttrValue
        from tensorboard.compat.proto.node_def_pb2 import NodeDef
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

        self._names[name] += 1
        unique = name if self._names[name] == 1 else f"{name}_{self._names[name]}"
        shapes = [
            TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in tensor.shape])
            for tensor in outputs
        ]
        node = NodeDef(name=unique, op=kind, input=sources)
        node.attr["attr"].s = text.encode()
        node.attr["_output_shapes"].CopyFrom(AttrValue(list=AttrValue.ListValue(shape=shapes)))
        self.nodes.append(node)
        for tensor in outputs:
            self._made[id(tensor)] = (tensor, unique)
        return unique

    def source_of(self, tensor: Any) -> str:
        """Return the node that made a tensor; parameters and constants get one now."""
        if id(tensor) in self._made:
            return self._made[id(tensor)][1]
        if id(tensor) in self._owned:
            return self.add(self._owned[id(tensor)], "prim::GetAttr", [], [tensor])
        return self.add(f"{self.running[-1]}/constant", "prim::Constant", [], [tensor])

    @contextmanager
    def following(self, model: Any) -> Iterator[None]:
        """Know, within this context, which module of the model runs."""
        handles = []
        for name, module in model.named_modules():
            scope = self.scopes[name]

            def enter(*_: Any, scope: str = scope) -> None:
                self.running.append(scope)

            def leave(*_: Any) -> None:
                self.running.pop()

            handles.append(module.register_forward_pre_hook(enter, prepend=True))
            handles.append(module.register_forward_hook(leave, always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put modules into evaluation mode, in which a call leaves statistics and random numbers as they are."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def graph_of(model: Any, arguments: Any) -> Any:
    """Return the graph of a call of a model as TensorBoard's record.

    Args:
        model: a module, which runs once, in evaluation mode and without gradients.
        arguments: a tensor, or a list or tuple of arguments.
    Raises: TypeError for what is not a module; what the module raises.
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.versions_pb2 import VersionDef

    import flambeau

    if not isinstance(model, flambeau.nn.Module):
        raise TypeError(f"add_graph: expected a module, got {type(model).__name__}")
    given = tuple(arguments) if isinstance(arguments, list | tuple) else (arguments,)
    recorder = GraphRecorder(model)
    for i, tensor in enumerate(tensors_in(given)):
        recorder.add(f"input/input_{i}", "IO Node", [], [tensor])
    with _evaluating(model), flambeau.no_grad(), recorder.following(model), recorder:
        result = model(*given)
    for i, tensor in enumerate(tensors_in(result)):
        recorder.add(f"output/output_{i}", "IO Node", [recorder.source_of(tensor)], [tensor])
    return GraphDef(node=recorder.nodes, versions=VersionDef(producer=PRODUCER))
