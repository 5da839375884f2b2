"""The kinds of nodes that trees are made of, and the shape of a tree."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

PyTree = Any
Context = Any
_IsLeaf = Callable[[Any], bool] | None


class NodeDef(NamedTuple):
    """How a type of container is taken apart and put together."""

    type: type[Any]
    flatten_fn: Callable[[Any], tuple[list[Any], Context]]
    unflatten_fn: Callable[[Iterable[Any], Context], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None = None
    serialized_type_name: str | None = None
    to_dumpable_context: Callable[[Any], Any] | None = None
    from_dumpable_context: Callable[[Any], Any] | None = None


def _flatten_sequence(node: Any) -> tuple[list[Any], Context]:
    return list(node), None


def _flatten_dict(node: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(node.values()), list(node)


def _flatten_defaultdict(node: defaultdict[Any, Any]) -> tuple[list[Any], Context]:
    return list(node.values()), [node.default_factory, list(node)]


SUPPORTED_NODES: dict[Any, NodeDef] = {
    tuple: NodeDef(tuple, _flatten_sequence, lambda leaves, _: tuple(leaves)),
    list: NodeDef(list, _flatten_sequence, lambda leaves, _: list(leaves)),
    dict: NodeDef(dict, _flatten_dict, lambda leaves, keys: dict(zip(keys, leaves, strict=True))),
    OrderedDict: NodeDef(
        OrderedDict, _flatten_dict, lambda leaves, keys: OrderedDict(zip(keys, leaves, strict=True))
    ),
    defaultdict: NodeDef(
        defaultdict,
        _flatten_defaultdict,
        lambda leaves, context: defaultdict(context[0], zip(context[1], leaves, strict=True)),
    ),
    deque: NodeDef(
        deque, lambda node: (list(node), node.maxlen), lambda leaves, length: deque(leaves, maxlen=length)
    ),
    # One entry stands for all classes of named tuples; which one it is, is the context.
    namedtuple: NodeDef(
        tuple, lambda node: (list(node), type(node)), lambda leaves, context: context(*leaves)
    ),
}
_DICTS = frozenset((dict, OrderedDict, defaultdict))


def register_pytree_node(
    cls: type[Any],
    flatten_fn: Callable[[Any], tuple[list[Any], Context]],
    unflatten_fn: Callable[[Iterable[Any], Context], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None = None,
) -> None:
    """Make instances of a class nodes rather than leaves.

    Args:
        cls: the class; its subclasses are not included.
        flatten_fn: gives the children and a context, which must be comparable.
        unflatten_fn: makes an instance of children and context.
        serialized_type_name: the class's name in the texts of `treespec_dumps`.
        to_dumpable_context: makes of the context what JSON can hold.
        from_dumpable_context: its inverse.
        flatten_with_keys_fn: gives pairs of a key and a child, and the context.
    Raises: ValueError for a class that is a node already.

    >>> class Pair:
    ...     def __init__(self, a, b): self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda leaves, _: Pair(*leaves))
    >>> from flambeau.utils._pytree import tree_leaves
    >>> tree_leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(
            f"register_pytree_node: expected an unregistered class, got {cls}, already registered as "
            "pytree node"
        )
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            "register_pytree_node: expected both or neither of to_dumpable_context and "
            f"from_dumpable_context for {cls}, got one"
        )
    texts = (serialized_type_name, to_dumpable_context, from_dumpable_context)
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn, *texts)


_register_pytree_node = register_pytree_node


def is_namedtuple_class(cls: Any) -> bool:
    """Whether it is a class of named tuples."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(getattr(cls, "_fields", None), tuple)
        and callable(getattr(cls, "_make", None))
    )


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether it is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether it is a named tuple, or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether it is a class of C's named results, such as `flambeau.return_types.max`."""
    return isinstance(cls, type) and cls.__bases__ == (tuple,) and hasattr(cls, "n_sequence_fields")


def is_structseq_instance(obj: Any) -> bool:
    """Whether it is one of C's named results."""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether it is one of C's named results, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _structseq_node(cls: Any) -> NodeDef:
    """What an operator returns under names is a node, unlike other such types (``os.stat_result``)."""
    return NodeDef(cls, _flatten_sequence, lambda leaves, _: cls(tuple(leaves)))


def _node_type(tree: Any) -> Any:
    """The entry of SUPPORTED_NODES that takes the tree apart, or None for a leaf."""
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    if not isinstance(tree, tuple):
        return None
    if is_namedtuple_class(cls):
        return namedtuple
    if cls.__module__.endswith(".return_types") and is_structseq_class(cls):
        SUPPORTED_NODES[cls] = _structseq_node(cls)
        return cls
    return None


def tree_is_leaf(tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether the tree is a single leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _node_type(tree) is None


class TreeSpec:
    """The shape of a tree: all but its leaves.

    Args:
        type: the kind of node; None for a leaf.
        context: what the node needs besides its children, such as a dict's keys.
        children_specs: the shapes of its children.
    """

    __slots__ = ("children_specs", "context", "num_leaves", "type")

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        leaves = 0 if type is not None else 1
        for child in children_specs:
            leaves += child.num_leaves
        self.num_leaves: int = leaves

    @property
    def num_nodes(self) -> int:
        """The number of nodes, leaves included."""
        return 1 + sum(c.num_nodes for c in self.children_specs)

    @property
    def num_children(self) -> int:
        """The number of direct children."""
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it describes a single leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """Return the shapes of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """Return the shape of one child."""
        return self.children_specs[index]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type is other.type
            and bool(self.context == other.context)
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        context = self.context if self.type not in _DICTS else str(self.context)
        return hash((self.type, context, tuple(self.children_specs)))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        inner = ",\n".join(" " * (indent + 2) * (i > 0) + c.__repr__(indent + 2)
                           for i, c in enumerate(self.children_specs))  # fmt: skip
        return f"TreeSpec({self.type.__name__}, {self.context!r}, [{inner}])"

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """Return the tree of this shape with the given leaves.

        Raises: ValueError if their number is not that of the shape.
        """
        items = leaves if isinstance(leaves, list | tuple) else list(leaves)
        if len(items) != self.num_leaves:
            raise ValueError(f"unflatten: expected {self.num_leaves} leaves for {self}, got {len(items)}")
        return self._take(iter(items))

    def _take(self, leaves: Iterator[Any]) -> PyTree:
        if self.type is None:
            return next(leaves)
        children = [next(leaves) if c.type is None else c._take(leaves) for c in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """Return the subtrees of a tree that stand where this shape has leaves.

        Raises: ValueError if the tree has another shape above them.
        """
        found: list[PyTree] = []
        self._match(tree, found)
        return found

    def _match(self, tree: PyTree, found: list[PyTree]) -> None:
        if self.type is None:
            found.append(tree)
            return
        node_type = _node_type(tree)
        alike = node_type in _DICTS and self.type in _DICTS
        if node_type is not self.type and not alike:
            raise ValueError(f"TreeSpec: Node type mismatch: expected {self.type!r}, got {type(tree)!r}")
        children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(
                f"TreeSpec: Node arity mismatch: expected {self.num_children}, got {len(children)}"
            )
        if alike:
            children = self._in_own_order(tree)
        elif context != self.context:
            raise ValueError(
                f"TreeSpec: Node context mismatch for {self.type!r}: expected {self.context!r}, got "
                f"{context!r}"
            )
        for child, subtree in zip(self.children_specs, children, strict=True):
            child._match(subtree, found)

    def _in_own_order(self, tree: dict[Any, Any]) -> list[Any]:
        keys = self.context[1] if self.type is defaultdict else self.context
        if set(keys) != set(tree):
            raise ValueError(
                f"TreeSpec: Node keys mismatch: expected {keys}, got {list(tree)}; missing key(s): "
                f"{set(keys) - set(tree)}; extra key(s): {set(tree) - set(keys)}"
            )
        return [tree[key] for key in keys]


class LeafSpec(TreeSpec):
    """The shape of a single leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF = LeafSpec()
PyTreeSpec = TreeSpec
