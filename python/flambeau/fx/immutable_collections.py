"""Immutable lists and dicts for the arguments of nodes, because a graph cannot detect changes in place."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau.utils._pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__}: the object does not support mutation: expected no change to "
        "arguments of a node, got one; assign a changed copy to node.args or node.kwargs"
    )


class immutable_list(list[Any]):
    """A list that cannot be changed."""

    __delitem__ = __setitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (list(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that cannot be changed."""

    __delitem__ = __setitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (dict(self),)


register_pytree_node(
    immutable_list,
    lambda tree: (list(tree), None),
    lambda children, _: immutable_list(children),
    serialized_type_name="flambeau.fx.immutable_collections.immutable_list",
)
register_pytree_node(
    immutable_dict,
    lambda tree: (list(tree.values()), list(tree)),
    lambda children, keys: immutable_dict(zip(keys, children, strict=True)),
    serialized_type_name="flambeau.fx.immutable_collections.immutable_dict",
)
