"""Flattening of containers by the spec of an example, as generated code flattens its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.utils._pytree import PyTree, TreeSpec

FlattenFuncSpec = Callable[[PyTree, TreeSpec], list[Any]]
FlattenFuncExactMatchSpec = Callable[[PyTree, TreeSpec], bool]

SUPPORTED_NODES: dict[type, FlattenFuncSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type, FlattenFuncExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: FlattenFuncSpec,
    flatten_fn_exact_match_spec: FlattenFuncExactMatchSpec | None = None,
) -> None:
    """Register how `tree_flatten_spec` flattens objects of a class.

    Args:
        cls: the class.
        flatten_fn_spec: returns the children of an object that the spec contains.
        flatten_fn_exact_match_spec: tells whether an object has exactly the children of the spec.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: type) -> None:
    del SUPPORTED_NODES[cls], SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[Any]:
    """Return the leaves of `pytree` that the spec contains; other leaves are dropped.

    Raises: KeyError or IndexError if `pytree` lacks a part, RuntimeError for an unregistered type.
    """
    if spec.is_leaf():
        return [pytree]
    if spec.type not in SUPPORTED_NODES:
        raise RuntimeError(
            f"tree_flatten_spec: {type(pytree)} does not have a flatten_fn_spec associated with it; "
            "register one with flambeau.fx._pytree.register_pytree_flatten_spec"
        )
    children = SUPPORTED_NODES[spec.type](pytree, spec)
    parts = zip(children, spec.children_specs, strict=True)
    return [leaf for child, child_spec in parts for leaf in tree_flatten_spec(child, child_spec)]


def _of_dict(tree: PyTree, spec: TreeSpec) -> list[Any]:
    return [tree[key] for key in spec.context]


def _of_sequence(tree: PyTree, spec: TreeSpec) -> list[Any]:
    return [tree[place] for place in range(spec.num_children)]


def _register() -> None:
    from collections import OrderedDict, namedtuple

    from flambeau.fx.immutable_collections import immutable_dict, immutable_list

    for mapping in (dict, OrderedDict, immutable_dict):
        register_pytree_flatten_spec(mapping, _of_dict, lambda tree, spec: list(tree) == spec.context)
    for sequence in (list, tuple, immutable_list, namedtuple):
        register_pytree_flatten_spec(
            sequence,  # type: ignore[arg-type]
            _of_sequence,
            lambda tree, spec: len(tree) == spec.num_children,
        )


_register()
