"""Trees of containers: taken apart into a list of leaves and a description, and put together again.

Tuples, lists, dicts, named tuples and deques are nodes, and whatever is registered; all else is a leaf,
None and an empty string included. A dict's children keep the order in which they were inserted.

>>> from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten
>>> leaves, spec = tree_flatten({"a": 1, "b": (2, [3])})
>>> leaves
[1, 2, 3]
>>> tree_unflatten([10, 20, 30], spec)
{'a': 10, 'b': (20, [30])}
>>> tree_map(lambda n: n + 1, (1, [2]))
(2, [3])
"""

from __future__ import annotations

import types
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from flambeau._C import Tensor
from flambeau._loading.lazy import attributes
from flambeau.utils._pytree_spec import (
    _DICTS,
    _LEAF,
    SUPPORTED_NODES,
    Context,
    LeafSpec,
    NodeDef,
    PyTree,
    PyTreeSpec,
    TreeSpec,
    _IsLeaf,
    _node_type,
    _register_pytree_node,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    register_pytree_node,
    tree_is_leaf,
)

__all__ = [
    "SUPPORTED_NODES",
    "Context",
    "GetAttrKey",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "PyTreeSpec",
    "SequenceKey",
    "TreeSpec",
    "_register_pytree_node",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_pprint",
]


def _flatten_into(tree: PyTree, leaves: list[Any], is_leaf: _IsLeaf) -> TreeSpec:
    node_type = None if is_leaf is not None and is_leaf(tree) else _node_type(tree)
    if node_type is None:
        leaves.append(tree)
        return _LEAF
    children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
    specs: list[TreeSpec] = []
    for child in children:
        if type(child) is Tensor and is_leaf is None:  # by far the most frequent leaf
            leaves.append(child)
            specs.append(_LEAF)
        else:
            specs.append(_flatten_into(child, leaves, is_leaf))
    return TreeSpec(node_type, context, specs)


def tree_flatten(tree: PyTree, is_leaf: _IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves in order, and the shape.

    Args:
        tree: what is taken apart.
        is_leaf: says of a subtree whether it counts as one leaf.
    """
    leaves: list[Any] = []
    spec = _flatten_into(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Return the tree with these leaves: the inverse of `tree_flatten`.

    Raises: TypeError if `treespec` is not a TreeSpec, ValueError for another number of leaves.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: expected a PyTreeSpec, got {type(treespec)}")
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: _IsLeaf = None) -> Iterator[Any]:
    """Yield the leaves in order."""
    return iter(tree_leaves(tree, is_leaf))


def tree_leaves(tree: PyTree, is_leaf: _IsLeaf = None) -> list[Any]:
    """Return the leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: _IsLeaf = None) -> TreeSpec:
    """Return the shape alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """Return the tree whose leaves are ``func(leaf, *subtrees of rests at the same place)``.

    Raises: ValueError if one of `rests` has another shape above the leaves of `tree`.
    """
    if not rests and is_leaf is None:
        return _map(func, tree)
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*items) for items in zip(leaves, *others, strict=True)])


def _map(func: Callable[[Any], Any], tree: PyTree) -> PyTree:
    """`tree_map` of one tree, which needs no description of it."""
    node_type = _node_type(tree)
    if node_type is None:
        return func(tree)
    node = SUPPORTED_NODES[node_type]
    children, context = node.flatten_fn(tree)
    return node.unflatten_fn([func(c) if type(c) is Tensor else _map(func, c) for c in children], context)


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """Call ``func(leaf, *others)`` for all leaves, for its effects, and return the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _predicate(which: Any) -> Callable[[Any], bool]:
    """A test for leaves, from types or from a function."""
    if isinstance(which, type | tuple | types.UnionType):
        return lambda leaf: isinstance(leaf, which)
    if callable(which):
        return which
    raise TypeError(f"tree_map_only: expected types or a predicate, got {which!r}")


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """Apply `func` to the leaves of some types, or for which a predicate is true; keep the others.

    >>> tree_map_only(int, lambda n: -n, [1, "a"])
    [-1, 'a']
    """
    chosen = _predicate(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """Call `func` on the leaves of some types, for its effects, and return the tree itself."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether it holds of all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether it holds of some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None
) -> bool:
    """Whether it holds of all leaves of some types."""
    chosen = _predicate(type_or_types)
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None
) -> bool:
    """Whether it holds of some leaf of some types."""
    chosen = _predicate(type_or_types)
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: _IsLeaf = None) -> list[Any] | None:
    """Spread a prefix of a shape over its leaves: one entry per leaf, or None where it is not a prefix.

    >>> _broadcast_to_and_flatten((0, None), tree_structure((1, [2, 3])))
    [0, None, None]
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    node_type = _node_type(tree)
    if node_type is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    spread: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        spread += part
    return spread


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return the shape as a tree with stars for leaves.

    >>> treespec_pprint(tree_structure({"a": (1, 2)}))
    "{'a': (*, *)}"
    """
    return repr(treespec.unflatten([_STAR] * treespec.num_leaves))


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()


# --- leaves with their places ---------------------------------------------------------------------


class MappingKey(NamedTuple):
    """A step into a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Take the step."""
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """A step into a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Take the step."""
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """A step to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Take the step."""
        return getattr(obj, self.name)


KeyPath = tuple[Any, ...]


def _keys(tree: Any, node_type: Any, count: int) -> list[Any]:
    """The steps from a node to its children."""
    with_keys = SUPPORTED_NODES[node_type].flatten_with_keys_fn
    if with_keys is not None:
        return [key for key, _ in with_keys(tree)[0]]
    if node_type in _DICTS:
        return [MappingKey(key) for key in tree]
    if node_type is namedtuple:
        return [GetAttrKey(name) for name in tree._fields]
    return [SequenceKey(i) for i in range(count)]


def _with_paths(tree: PyTree, path: KeyPath, is_leaf: _IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node_type = _node_type(tree)
    children = SUPPORTED_NODES[node_type].flatten_fn(tree)[0]
    for key, child in zip(_keys(tree, node_type, len(children)), children, strict=True):
        yield from _with_paths(child, (*path, key), is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: _IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return pairs of a leaf's path, a tuple of steps, and the leaf."""
    return list(_with_paths(tree, (), is_leaf))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: _IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return pairs of path and leaf, and the shape."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """Return the tree whose leaves are ``func(path, leaf, *others)``.

    >>> tree_map_with_path(lambda path, n: keystr(path), {"a": [1]})
    {'a': ["['a'][0]"]}
    """
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    items = zip(*zip(*pairs, strict=True), *others, strict=True) if pairs else ()
    return spec.unflatten([func(*item) for item in items])


def keystr(kp: KeyPath) -> str:
    """Return a path as an expression: ``['a'][0].name``."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return what stands at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


__getattr__, __dir__ = attributes(__name__)
