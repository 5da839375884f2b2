"""Flattening of the built-in containers, under the names that libraries use, and tree specs as text."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from flambeau.utils._pytree import GetAttrKey, MappingKey, SequenceKey
from flambeau.utils._pytree_spec import SUPPORTED_NODES, LeafSpec, TreeSpec

_PROTOCOL = 1
_Flat = tuple[list[Any], Any]


def _dict_flatten(d: dict[Any, Any]) -> _Flat:
    """Return values and keys."""
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> _Flat:
    """Return pairs of a step and a value, and the keys."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    """Return the dict of values and keys."""
    return dict(zip(context, values, strict=True))


_ordereddict_flatten, _ordereddict_flatten_with_keys = _dict_flatten, _dict_flatten_with_keys
_odict_flatten = _dict_flatten


def _ordereddict_unflatten(values: Iterable[Any], context: Any) -> OrderedDict[Any, Any]:
    """Return the ordered dict of values and keys."""
    return OrderedDict(zip(context, values, strict=True))


_odict_unflatten = _ordereddict_unflatten


def _list_flatten(d: Any) -> _Flat:
    """Return the entries; there is no context."""
    return list(d), None


_tuple_flatten = _list_flatten


def _list_flatten_with_keys(d: Any) -> _Flat:
    """Return pairs of a step and an entry; there is no context."""
    return [(SequenceKey(i), value) for i, value in enumerate(d)], None


_tuple_flatten_with_keys = _list_flatten_with_keys


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:
    """Return the list."""
    return list(values)


def _tuple_unflatten(values: Iterable[Any], context: Any) -> tuple[Any, ...]:
    """Return the tuple."""
    return tuple(values)


def _namedtuple_flatten(d: Any) -> _Flat:
    """Return the entries, and the class."""
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> _Flat:
    """Return pairs of a step and an entry, and the class."""
    return [(GetAttrKey(name), getattr(d, name)) for name in d._fields], type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Any) -> Any:
    """Return the named tuple."""
    return context(*values)


def _name_of(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _class_named(name: str) -> Any:
    module, _, rest = name.rpartition(".")
    value: Any = import_module(module)
    return getattr(value, rest)


def _context_text(spec: TreeSpec) -> Any:
    node = SUPPORTED_NODES[spec.type]
    if node.to_dumpable_context is not None:
        return node.to_dumpable_context(spec.context)
    if spec.type is namedtuple:
        return _name_of(spec.context)
    if spec.type is defaultdict:
        factory, keys = spec.context
        return {"default_factory": None if factory is None else _name_of(factory), "keys": keys}
    return spec.context


def _context_of(cls: Any, text: Any) -> Any:
    node = SUPPORTED_NODES[cls]
    if node.from_dumpable_context is not None:
        return node.from_dumpable_context(text)
    if cls is namedtuple:
        return _class_named(text)
    if cls is defaultdict:
        factory = text["default_factory"]
        return [None if factory is None else _class_named(factory), text["keys"]]
    return text


def _names() -> dict[Any, str]:
    """Return class -> the name that texts have for it."""
    known = (tuple, list, dict, OrderedDict, defaultdict, deque)
    own = {cls: node.serialized_type_name for cls, node in SUPPORTED_NODES.items()}
    names = {cls: _name_of(cls) for cls in known} | {namedtuple: "collections.namedtuple"}
    return names | {cls: name for cls, name in own.items() if name is not None}


def _dumped(spec: TreeSpec) -> dict[str, Any]:
    if isinstance(spec, LeafSpec) or spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    names = _names()
    if spec.type not in names:
        raise NotImplementedError(
            f"treespec_dumps: {spec.type} has no serialization name; pass serialized_type_name to "
            "register_pytree_node"
        )
    children = [_dumped(child) for child in spec.children_specs]
    return {"type": names[spec.type], "context": json.dumps(_context_text(spec)), "children_spec": children}


def _loaded(entry: dict[str, Any]) -> TreeSpec:
    if entry["type"] is None and entry["context"] is None:
        return LeafSpec()
    classes = {name: cls for cls, name in _names().items()}
    if entry["type"] not in classes:
        raise NotImplementedError(
            f"treespec_loads: Deserialize {entry['type']} in pytree is not registered; call "
            "register_pytree_node first"
        )
    cls = classes[entry["type"]]
    children = [_loaded(child) for child in entry["children_spec"]]
    return TreeSpec(cls, _context_of(cls, json.loads(entry["context"])), children)


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return the shape of a tree as JSON; `treespec_loads` reads it."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps: expected a TreeSpec, got {type(treespec)}")
    if protocol not in (None, _PROTOCOL):
        raise ValueError(
            f"treespec_dumps: Unknown protocol {protocol}: expected one of the available protocols "
            f"[{_PROTOCOL}], got {protocol}"
        )
    return json.dumps([_PROTOCOL, _dumped(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the shape that `treespec_dumps` wrote."""
    protocol, entry = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(
            f"treespec_loads: Unknown protocol {protocol}: expected one of the available protocols "
            f"[{_PROTOCOL}], got {protocol}"
        )
    return _loaded(entry)
