"""Proxies represent values while a program is traced, and record the operations on them."""

from __future__ import annotations

import dataclasses
import dis
import enum
import operator
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau.fx import traceback as fx_traceback
from flambeau.fx._names import is_method
from flambeau.fx._scope import Scope, ScopeContextManager
from flambeau.fx.node import Node, base_types, map_aggregate

if TYPE_CHECKING:
    from flambeau.fx.graph import Graph

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "MetaProxy",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

_OPERATORS = (
    "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul getitem eq ne lt gt le ge "
    "pos neg invert abs"
).split()
_REFLECTED = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul".split()
_PLAIN = (*base_types, type(None), type(...), bytes, flambeau.Generator)


class TraceError(ValueError):
    """A program did something that a graph cannot represent, such as to branch on a value."""


class TracerBase:
    """The interface of tracers that proxies use; its methods add nodes to `graph`."""

    graph: Graph
    record_stack_traces = False
    _record_forward_stack_traces_only = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Append one node; subclasses override this method to check or annotate nodes."""
        if kind == "call_function" and self.check_mutable_operations:
            from flambeau.fx.operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if fx_traceback.has_preserved_node_meta():
            node.meta.update(fx_traceback.get_current_meta())
        if getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = OrderedDict(self.module_stack)
        if hasattr(self, "node_name_to_scope"):
            self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy of the node's value."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:
        """Add a node with these arguments, which may hold proxies, and return its proxy."""
        taken, keywords = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, taken, keywords, name, type_expr)
        proxy = proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)
        if self.record_stack_traces and node.stack_trace is None:
            node.stack_trace = self._stack_text()
        return proxy

    def _stack_text(self) -> str:
        frames = traceback.StackSummary.extract(traceback.walk_stack(sys._getframe(2)))
        frames.reverse()
        return "".join(self._filter_traceback_frames(frames).format())

    def _find_user_frame(self) -> Any:
        """Return the innermost frame of the traced program."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").startswith("flambeau."):
            frame = frame.f_back
        return frame

    def _filter_traceback_frames(self, user_stack_summary: traceback.StackSummary) -> traceback.StackSummary:
        own = flambeau.__path__[0]
        return traceback.StackSummary.from_list(
            [f for f in user_stack_summary if not f.filename.startswith(own)]
        )

    def create_arg(self, a: Any) -> Any:
        """Turn a value into an argument of a node.

        Raises: NotImplementedError for a type that a graph cannot hold, RuntimeError for a dict whose keys
            are proxies.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, _PLAIN) or isinstance(a, enum.Enum) or (callable(a) and hasattr(a, "__name__")):
            return a
        if dataclasses.is_dataclass(a):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        raise NotImplementedError(
            f"create_arg: argument of type: {type(a)} cannot be recorded; pass tensors, numbers, "
            "strings, or containers of them"
        )

    def _key(self, key: Any) -> Any:
        def refuse(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                raise RuntimeError(f"create_arg: keys of a dict cannot contain a Node, got {key}")
            return leaf

        return map_aggregate(self.create_arg(key), refuse)

    def to_bool(self, obj: Proxy) -> bool:
        """Answer ``bool(proxy)``; the value is not known, so this raises TraceError."""
        raise TraceError(
            "Proxy: symbolically traced variables cannot decide control flow, since the truth of "
            f"{obj.node.name!r} is unknown while the program is traced; make the condition a concrete "
            "argument"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Answer ``iter(proxy)``; the length is not known, so this raises TraceError."""
        raise TraceError(
            f"Proxy: Proxy object cannot be iterated, since the length of {obj.node.name!r} is "
            "unknown while the program is traced; unpack it into a fixed number of names"
        )

    def keys(self, obj: Proxy) -> Any:
        """Answer ``proxy.keys()``, which ``**proxy`` calls."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer that adds nodes to an existing graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: Any) -> None:
    """The function whose call records an `assert` statement."""
    if not x:
        raise AssertionError


def _calling_instructions(frame: Any) -> list[dis.Instruction]:
    """The current instruction of a frame and the instructions after it."""
    return [i for i in dis.get_instructions(frame.f_code) if i.offset >= frame.f_lasti]


def _is_assertion(frame: Any) -> bool:
    names = [i.opname for i in _calling_instructions(frame)[:3] if i.opname != "TO_BOOL"]
    return len(names) > 1 and "IF_TRUE" in names[0] and names[1] == "LOAD_ASSERTION_ERROR"


class Proxy:
    """Represents the value of a node. Operators, methods and functions of a proxy add nodes.

    Args:
        node: the node.
        tracer: the tracer that records. Default: a tracer that adds nodes to the graph of `node`.

    Example:
        >>> graph = flambeau.fx.Graph()
        >>> x = flambeau.fx.Proxy(graph.placeholder("x"))
        >>> (x + 1).sin()
        Proxy(sin)
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("node", "tracer"):  # copy and pickle make instances without calling __init__
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        result = type(self).__new__(type(self))
        result.__dict__.update(self.__dict__)
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        code = frame.f_code.co_code
        if dis.opname[code[frame.f_lasti]] == "UNPACK_SEQUENCE":
            source: Any = self  # the loop below sets operators on the class
            return (source[place] for place in range(code[frame.f_lasti + 1]))
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_assertion(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            f"Proxy: 'len' is not supported by Proxy; call {flambeau.__name__}.fx.wrap('len') at the "
            "top of the traced module's file to record its calls"
        )

    def __hash__(self) -> int:
        return object.__hash__(self)

    def keys(self) -> Any:
        """Return the result of `Tracer.keys`; ``**proxy`` calls this method."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record the call of an operator, a method or a Python-level function."""
        kwargs = kwargs or {}
        tracer = _tracer_of(orig_method, args, kwargs)
        if is_method(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        if getattr(orig_method, "__name__", "") in ("__get__", "__set__"):
            return _property_call(orig_method, args)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def _tracer_of(function: Any, args: Any, kwargs: Any) -> TracerBase:
    tracers: dict[int, TracerBase] = {}

    def collect(leaf: Any) -> Any:
        if isinstance(leaf, Proxy):
            tracers[id(leaf.tracer)] = leaf.tracer
        return leaf

    map_aggregate((args, kwargs), collect)
    if len(tracers) > 1:
        raise RuntimeError(
            f"{function}: the arguments belong to multiple different tracers, {list(tracers.values())}"
        )
    return next(iter(tracers.values()))


def _property_call(accessor: Any, args: tuple[Any, ...]) -> Any:
    """Record the read or write of a Tensor property, given the property's accessor."""
    name = accessor.__self__.__name__
    if accessor.__name__ == "__get__":
        return Attribute(args[0], name)
    return args[0].tracer.create_proxy("call_function", setattr, (args[0], name, args[1]), {})


class MetaProxy(Proxy):
    """A proxy with an example of its value; operators also run on the examples.

    Args:
        node: the node.
        tracer: the tracer that records.
        fake_mode: a context in which operators run on the examples, or None.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any | None = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode


class Attribute(Proxy):
    """An attribute of a proxy. It becomes a node if its value is used, a method call if it is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute; the first access adds it."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy for a parameter whose sizes are known, so that programs can branch on them."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's sizes."""
        return self.param.shape

    def size(self, *dim: int) -> Any:
        """Return the parameter's sizes, or one of them."""
        return self.param.size(*dim)

    def dim(self) -> int:
        """Return the parameter's number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """Return the parameter's number of elements."""
        return self.param.numel()

    nelement = numel


def _operator_method(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: Proxy, *args: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, *args), {})

    return method


def _reflected_method(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    return method


for _name in _OPERATORS:
    setattr(Proxy, f"__{_name.strip('_')}__", _operator_method(_name))
for _name in _REFLECTED:
    setattr(Proxy, f"__r{_name.strip('_')}__", _reflected_method(_name))
setattr(Proxy, "__div__", _operator_method("truediv"))  # noqa: B010
setattr(Proxy, "__rdiv__", _reflected_method("truediv"))  # noqa: B010
