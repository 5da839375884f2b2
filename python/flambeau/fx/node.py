"""Node: one step of a graph, with its operation, its arguments and its users."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, Union

import flambeau
from flambeau.fx._names import qualified_name
from flambeau.fx._types import type_text
from flambeau.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from flambeau.fx.graph import Graph
    from flambeau.fx.operator_schemas import ArgsKwargsPair

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

BaseArgumentTypes = Union[  # noqa: UP007  (a tuple of classes at run time)
    str,
    int,
    float,
    bool,
    complex,
    flambeau.dtype,
    flambeau.Tensor,
    flambeau.device,
    flambeau.memory_format,
    flambeau.layout,
]
base_types = BaseArgumentTypes.__args__  # type: ignore[attr-defined]
Target = Union[Callable[..., Any], str]  # noqa: UP007
# The values in node.args and node.kwargs: nodes, constants, and containers of them.
Argument = Any
ArgumentT = TypeVar("ArgumentT")
_F = TypeVar("_F", bound=Callable[..., Any])

_legal_ops = dict.fromkeys(
    ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
)
_get_qualified_name = qualified_name
_type_repr = type_text

# Functions with effects, whose calls are kept even if their values are not used.
_side_effectful_functions: set[Callable[..., Any]] = {operator.setitem, setattr, delattr, print}
_side_effectful_names = frozenset(
    ("_assert", "_assert_async", "_assert_is_none", "copy_", "_log_api_usage_once")
)
_random_functions = frozenset(
    "rand randn randint randperm normal bernoulli multinomial rand_like randn_like randint_like poisson "
    "dropout alpha_dropout feature_dropout feature_alpha_dropout dropout1d dropout2d dropout3d rrelu "
    "gumbel_softmax native_dropout".split()
)


def has_side_effect(fn: _F) -> _F:
    """Mark a function whose calls `Graph.eliminate_dead_code` must keep. Also works as a decorator.

    Args:
        fn: the function.

    Returns: the function.

    Example:
        >>> @flambeau.fx.has_side_effect
        ... def log(x): ...
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to all leaves of tuples, lists, dicts and slices, which are made immutable."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(value, fn) for key, value in a.items()})
    if isinstance(a, slice):
        parts = (a.start, a.stop, a.step)
        return slice(*(map_aggregate(part, fn) for part in parts))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Apply a function to all nodes inside an argument.

    Args:
        a: the argument: a node, a number, or tuples, lists, dicts and slices of such.
        fn: takes a node; returns its replacement.

    Returns: the argument with the results in place of the nodes. Lists and dicts are immutable.

    Raises: AssertionError if `fn` is not callable.

    Example:
        >>> x = flambeau.fx.Graph().placeholder("x")
        >>> flambeau.fx.map_arg((x, [1, x]), lambda node: node.name)
        ('x', [1, 'x'])
    """
    if not callable(fn):
        raise AssertionError(f"map_arg: expected a function of a node, got {fn!r}")
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def _pieces(a: Any) -> Iterator[Node]:
    """Yield the nodes inside an argument."""
    if isinstance(a, Node):
        yield a
    elif isinstance(a, tuple | list):
        for item in a:
            yield from _pieces(item)
    elif isinstance(a, dict):
        for item in a.values():
            yield from _pieces(item)
    elif isinstance(a, slice):
        yield from _pieces((a.start, a.stop, a.step))


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """Write an argument in readable form, with nodes as ``%name``."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, list | tuple):
        shown = [_format_arg(item) for item in arg[: int(min(max_list_len, len(arg)))]]
        rest = f", ...[total_len={len(arg)}]" if len(arg) > max_list_len else ""
        if isinstance(arg, list):
            return f"[{', '.join(shown)}{rest}]"
        return f"({', '.join(shown)}{rest}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(value)}" for key, value in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def _check_target(name: str, op: str, target: Any) -> None:
    if op not in _legal_ops:
        raise AssertionError(f"create_node: {op!r} is not in _legal_ops: choose from {', '.join(_legal_ops)}")
    if op == "call_function":
        if not callable(target):
            raise ValueError(
                f"Node: a Callable is expected as the target of {op} {name}, got {target!r} of type "
                f"{type(target).__name__}"
            )
    elif not isinstance(target, str):
        raise ValueError(
            f"Node: a str is expected as the target of {op} {name}, got {target!r} of type "
            f"{type(target).__name__}"
        )


class Node:
    """One step of a graph. Methods of `Graph` create nodes.

    The attribute ``users`` is a dict whose keys are the nodes that use this one. The dict ``meta`` holds data
    that passes store about the node; a copy of the node has the same data. ``type`` is `return_type`.

    Args:
        graph: the graph.
        name: the variable that holds the value in the generated code.
        op: the kind of step: "placeholder" (an input), "get_attr", "call_function", "call_method",
            "call_module" or "output".
        target: the function that is called, the method's name, or a dotted path.
        args: the arguments, in which nodes represent their values. Assign to change them.
        kwargs: the arguments by name.
        return_type: the annotation of the value. Default: None.

    Example:
        >>> node = list(flambeau.fx.symbolic_trace(lambda x: x.relu()).graph.nodes)[1]
        >>> node.op, node.target, node.args, list(node.users)
        ('call_method', 'relu', (x,), [output])
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any | None = None,
    ) -> None:
        _check_target(name, op, target)
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._position = 0
        self._repr_fn: Callable[[Node], str] | None = None
        self._update_args_kwargs(tuple(args), dict(kwargs))

    # --- place in the graph ---------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The next node; after the last node, the graph's root, which is not a step."""
        return self._next

    @property
    def prev(self) -> Node:
        """The previous node."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` directly before this node."""
        if x.graph is not self.graph:
            raise AssertionError("prepend: expected a node of the same graph")
        if x is self:
            return
        x._remove_from_list()
        x._prev, x._next = self._prev, self
        self._prev._next = x
        self._prev = x
        self.graph._order_changed(x)

    def append(self, x: Node) -> None:
        """Move `x` directly after this node."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    @property
    def _sort_key(self) -> int:
        self.graph._number_nodes()
        return self._position

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # --- arguments --------------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, value: tuple[Any, ...]) -> None:
        self._update_args_kwargs(tuple(value), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Any]) -> None:
        self._update_args_kwargs(self._args, dict(value))

    @property
    def all_input_nodes(self) -> list[Node]:
        """All nodes inside the arguments, each once, in order."""
        return list(self._input_nodes)

    def _update_args_kwargs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        args = map_aggregate(args, lambda leaf: leaf)
        kwargs = map_aggregate(kwargs, lambda leaf: leaf)
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._args, self._kwargs = args, kwargs
        self._input_nodes = dict.fromkeys((*_pieces(args), *_pieces(kwargs)))
        for used in self._input_nodes:
            used.users.setdefault(self)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace the positional argument at an index."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert a positional argument before index `idx`, from 0 to the number of arguments."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_arg: expected an index in [0, {len(self._args)}], got {idx}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set a keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` wherever the arguments hold `old_input`."""
        self._replace_inputs(lambda node: new_input if node is old_input else node)
        self.graph._node_was_replaced(old_input, new_input.name, self)

    def _replace_inputs(self, choose: Callable[[Node], Any]) -> None:
        args, kwargs = map_arg(self._args, choose), map_arg(self._kwargs, choose)
        self._update_args_kwargs(args, kwargs)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Use another node wherever this one is used, and return the nodes that used this one.

        Args:
            replace_with: the other node.
            delete_user_cb: returns whether a user should change. Default: all users change.
            propagate_meta: move this node's meta to the other node, whose meta must be empty.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    f"replace_all_uses_with: expected {replace_with} without meta, got "
                    f"{list(replace_with.meta)}"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            self.graph._node_was_replaced(self, replace_with.name, user)
            user._replace_inputs(lambda node: replace_with if node is self else node)
        return changed

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """Return the arguments as the target's signature names them, or None if it has no signature.

        Raises: RuntimeError if several overloads accept the arguments and `arg_types` does not choose one.
        """
        from flambeau.fx.operator_schemas import normalize_function, normalize_module

        kwargs = dict(self.kwargs)
        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, kwargs, normalize_to_only_use_kwargs)
        return None

    # --- questions --------------------------------------------------------------------------------

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the step must be kept even if its value is not used.

        Args:
            impure_random: count calls that draw random numbers.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            return (
                self.target in _side_effectful_functions
                or name in _side_effectful_names
                or self._writes_its_input(name)
                or (impure_random and name in _random_functions)
                # objects of classes of C++, which the call may change
                or any(node.meta.get("is_object", False) for node in self.all_input_nodes)
            )
        if self.op == "call_method":
            return self._writes_its_input(self.target)
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError(
                    f"is_impure: expected a graph with an owning_module for the call of {self.target}, "
                    "got None"
                )
            module = owner.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def _writes_its_input(self, name: str) -> bool:
        """Whether the node changes an argument: an in-place operator, or a call with `out=`."""
        if "out" in self._kwargs and self._kwargs["out"] is not None:
            return True
        return name == "__setitem__" or (name.endswith("_") and not name.endswith("__") and len(name) > 1)

    @property
    def stack_trace(self) -> str | None:
        """The stack trace of the step, if the tracer recorded it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    # --- text -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def __reduce__(self) -> Any:
        raise TypeError("Node: a node cannot be pickled by itself: expected its graph, got the node")

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        if isinstance(target, str):
            return target
        name = qualified_name(target) if hasattr(target, "__name__") else repr(target)
        return f"builtins.{name}" if "." not in name and not isinstance(target, str) else name

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Describe the step in one line.

        Args:
            placeholder_names: a list to which the text of a placeholder is appended; the result is then None.
            maybe_return_typename: a list whose first element is set to the annotation of the output.
            include_tensor_metadata: add the dtype and shape that `ShapeProp` recorded.
        """
        annotation = f"{type_text(self.type)} " if self.type is not None else ""
        users = f"[num_users={len(self.users)}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.target + (f" : {annotation.strip()}" if annotation else ""))
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            head = f"%{self.name} : {annotation}{users} = placeholder[target={self.target}]{default}"
        elif self.op == "output":
            if self.type is not None and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        else:
            target = self._pretty_print_target(self.target)
            head = f"%{self.name} : {annotation}{users} = {self.op}[target={target}]"
            if self.op != "get_attr":
                head += f"(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
        found = self.meta.get("tensor_meta") if include_tensor_metadata else None
        return f"{head} {found}" if found is not None else head
