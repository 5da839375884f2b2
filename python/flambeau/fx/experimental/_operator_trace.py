"""Records the operators that a program calls, as nodes of a graph: at the dispatcher, below autograd."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import flambeau
from flambeau import _C
from flambeau._object.subclass import DisableTorchDispatch
from flambeau.fx._symbolic_trace import Tracer
from flambeau.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from flambeau.fx.node import Node
from flambeau.utils import _pytree as pytree
from flambeau.utils._python_dispatch import TorchDispatchMode, TorchDispatchModeKey

Decompositions = Mapping[Any, Callable[..., Any]]


class DataDependent(RuntimeError):
    """A program read elements of a tensor into Python while it was recorded."""


class PythonKeyTracer(Tracer):
    """The class of tracers of operators, for `isinstance`."""


class OperatorTracer(PythonKeyTracer):
    """A tracer that maps each tensor to the node that computes it.

    A tensor that is neither an input nor a result becomes an attribute of the graph's module, and so does an
    object of a class of C++.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = flambeau.nn.Module()
        self.graph = flambeau.fx.Graph(tracer_cls=PythonKeyTracer)
        self._known: dict[int, tuple[Node, Any]] = {}  # keeps tensors alive, so that ids stay unique
        # Autograd returns a saved result as a different tensor object in the same memory.
        self._places: dict[Any, Node] = {}
        self._storages: list[Any] = []
        self._constants = 0
        self._objects: dict[int, tuple[Node, Any]] = {}  # of C++; several objects of Python may stand for one

    def remember(self, tensor: Any, node: Node) -> None:
        """Note that a tensor is the value of a node."""
        self._known[id(tensor)] = (node, tensor)
        if _is_without_memory(tensor):
            self._storages.append(tensor.untyped_storage())  # kept alive, so that ids stay unique
            self._places[_place(tensor)] = node

    def node_of(self, tensor: Any) -> Node:
        """Return the node of a tensor; an attribute if the program did not make it while it was recorded."""
        found = self._known.get(id(tensor))
        if found is not None:
            return found[0]
        node = self._places.get(_place(tensor)) if _is_without_memory(tensor) else None
        if node is not None:
            return node
        kind = "param" if isinstance(tensor, flambeau.nn.Parameter) else "tensor"
        name = f"_{kind}_constant{self._constants}"
        self._constants += 1
        constant = self.constant_of(tensor)
        setattr(self.root, name, tensor if constant is None else _copy_of(constant))
        node = self.graph.get_attr(name)
        self.describe(node, tensor, is_constant=True)
        if constant is not None:  # the program may write to the tensor; the attribute must not change
            node = self.graph.call_function(flambeau.ops.aten.clone.default, (node,))
            self.describe(node, tensor)
        self.remember(tensor, node)
        return node

    def remember_object(self, value: Any, node: Node) -> Node:
        """Note that an object of a class of C++ is the value of a node."""
        node.meta["is_object"] = True
        self._objects[_C._custom_object_id(value)] = (node, value)
        return node

    def node_of_object(self, value: Any) -> Node:
        """Return the node of an object; an attribute if it is no input and no result."""
        found = self._objects.get(_C._custom_object_id(value))
        if found is not None:
            return found[0]
        name = self.get_fresh_qualname("_torchbind_obj")
        setattr(self.root, name, value)
        return self.remember_object(value, self.graph.get_attr(name))

    def describe(self, node: Node, value: Any, is_constant: bool = False) -> None:
        """Note the properties of a node's value in its meta.

        Args:
            node: the node.
            value: a tensor.
            is_constant: whether it is an attribute of the graph's module.
        """
        node.meta.setdefault("val", value if is_constant or value.is_meta else None)

    def constant_of(self, tensor: Any) -> Any:
        """Return the elements of a fake tensor that was made from Python numbers; None for other tensors."""
        return getattr(tensor, "constant", None)

    def is_known(self, tensor: Any) -> bool:
        """Whether a tensor is an input or the result of a recorded call."""
        return id(tensor) in self._known

    def create_arg(self, a: Any) -> Any:
        """Return a value as an argument of a node."""
        if isinstance(a, _C._CustomObject):
            return self.node_of_object(a)
        return self.node_of(a) if isinstance(a, flambeau.Tensor) else super().create_arg(a)

    def assign(self, result: Any, node: Node) -> None:
        """Give the tensors of a result their nodes."""
        if isinstance(result, flambeau.Tensor):
            self.remember(result, node)
            self.describe(node, result)
        elif isinstance(result, _C._CustomObject):
            self.remember_object(result, node)
        elif isinstance(result, list | tuple):
            for i, item in enumerate(result):
                if isinstance(item, flambeau.Tensor | _C._CustomObject):
                    self.assign(item, self.graph.create_node("call_function", operator.getitem, (node, i)))


def _copy_of(constant: Any) -> Any:
    with DisableTorchDispatch():
        return constant.clone()


def _is_without_memory(tensor: Any) -> bool:
    return bool(tensor.is_meta or _C._has_no_memory(tensor))


def _place(tensor: Any) -> tuple[Any, ...]:
    """A key that identifies a tensor without memory: its storage and geometry."""
    storage = id(tensor.untyped_storage())
    return storage, tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset()


class RecordingMode(TorchDispatchMode):
    """The region in which operators become nodes of a tracer's graph.

    Args:
        tracer: holds the graph.
        decompositions: overload -> function whose operators are recorded instead.
        adapt: changes the arguments that an operator runs with; the recorded arguments stay the same.
    """

    _mode_key = TorchDispatchModeKey.PROXY

    def __init__(
        self,
        tracer: OperatorTracer,
        decompositions: Decompositions | None = None,
        adapt: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any] | None = None,
    ) -> None:
        super().__init__()
        self.tracer = tracer
        self.decompositions = decompositions or {}
        self.adapt = adapt

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator and add its node."""
        kwargs = kwargs or {}
        if func in self.decompositions:
            with self:
                return self.decompositions[func](*args, **kwargs)
        if func._schema.is_mutable:  # makes attributes of unknown tensors before they change
            self.tracer.create_arg((args, kwargs))
        given = self.adapt(func, args, kwargs) if self.adapt else (args, kwargs)
        result = func(*given[0], **given[1])
        return self.record(func, args, kwargs, result)

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """Add the node of a call that has run already."""
        kinds = flambeau.Tensor | _C._CustomObject
        values = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, kinds)]
        if not values and result is not None:
            given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, flambeau.Tensor)]
            if any(map(self.tracer.is_known, given)):
                raise DataDependent(
                    f"make_fx: expected operators whose results are tensors, got {func}, which reads "
                    "elements: what the program does with them cannot be in the graph"
                )
            return result
        tracer = self.tracer
        taken, keywords, name = (
            tracer.create_arg(args),
            tracer.create_arg(kwargs),
            func.overloadpacket.__name__,
        )
        node = tracer.create_node("call_function", func, taken, keywords, name)
        tracer.assign(result, node)
        return result


def trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    decompositions: Decompositions | None = None,
    tracer: OperatorTracer | None = None,
    within: Any = None,
) -> flambeau.fx.GraphModule:
    """Run a function on arguments and return the graph of the operators that it called.

    The graph takes one argument for each leaf of `args` and returns what the function returned.

    Args:
        function: the function.
        args: its arguments.
        decompositions: overload -> function whose operators are recorded instead.
        tracer: holds the graph.
        within: a mode in which the function runs.
    """
    tracer = OperatorTracer() if tracer is None else tracer
    leaves, structure = pytree.tree_flatten(args)
    is_flat = len(leaves) == len(args) and all(a is b for a, b in zip(leaves, args, strict=True))
    for i, leaf in enumerate(leaves):
        node = tracer.graph.placeholder(_name_of(function, i) if is_flat else f"arg{i}_1")
        if isinstance(leaf, flambeau.Tensor | _C._CustomObject):
            tracer.assign(leaf, node)
    with within or nullcontext(), RecordingMode(tracer, decompositions):
        result = function(*args)
    if is_flat:
        tracer.graph.output(pytree.tree_map(tracer.create_arg, result))
    else:
        _keep_structure(tracer, structure, result)
    return flambeau.fx.GraphModule(tracer.root, tracer.graph, getattr(function, "__name__", "traced"))


def _keep_structure(tracer: OperatorTracer, structure: Any, result: Any) -> None:
    """Make the graph take and return containers as the function does."""
    results, returned = pytree.tree_flatten(result)
    names = [f"arg{i}" for i in range(structure.num_children)]
    tracer.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, structure, returned))
    tracer.graph.output([tracer.create_arg(leaf) for leaf in results])


def _name_of(function: Callable[..., Any], place: int) -> str:
    code = getattr(function, "__code__", None)
    if code is None or place >= code.co_argcount:
        return f"arg{place}_1"
    return f"{code.co_varnames[place]}_1"
