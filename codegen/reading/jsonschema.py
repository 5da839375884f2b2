"""JSON schemas of both YAML files, made from the loader's own key tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from codegen.language.schema import DTYPE_NAMES
from codegen.model.enumerations import CAST_POLICIES
from codegen.reading import keys
from codegen.reading.keys import Key

FOLDER = Path(__file__).parents[1] / "schemas"
_SCALAR: dict[str, object] = {"type": ["string", "number", "boolean", "null"]}
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_NESTED = {
    "reduce": keys.REDUCE,
    "test": keys.TEST,
    "vmap": keys.VMAP,
    "check": keys.CHECK,
    "autocast": keys.AUTOCAST,
    "sparse": keys.SPARSE,
    "flops": keys.FLOPS,
    "doc": keys.DOC,
}

Json = dict[str, object]


def _value(name: str, key: Key) -> Json:
    """Return the schema of one key's value."""
    options = [_shape(name, shape, key) for shape in key.shape.split("|")]
    value: Json = dict(options[0]) if len(options) == 1 else {"anyOf": options}
    return {"description": key.doc, **value}


def _shape(name: str, shape: str, key: Key) -> Json:
    scalar: Json = (
        {"enum": [True if value == "true" else value for value in key.values]}
        if key.values
        else dict(_SCALAR)
    )
    if shape == "text":
        return {"enum": list(CAST_POLICIES)} if name == "autocast" else scalar
    if shape == "list":
        return {"type": "array", "items": scalar}
    if shape == "lists":
        return {"type": "array", "items": {"type": "array", "items": scalar}}
    if shape == "map":
        return _map(name)
    if shape == "maps":
        return {"type": "array", "items": _map(name)}
    return {}


def _map(name: str) -> Json:
    if name in _NESTED:
        return _mapping(_NESTED[name], further=name == "test")
    if name == "pointwise":
        return _mapping(keys.SWITCH)
    if name == "kernels":
        backends: Json = {backend: {"type": "string"} for backend in keys.BACKENDS}
        return {"type": "object", "properties": backends, "additionalProperties": False}
    if name == "dtypes":
        listed: Json = {"enum": list(dict.fromkeys((*keys.CATEGORIES, *DTYPE_NAMES)))}
        return {"type": "object", "additionalProperties": {"type": "array", "items": listed}}
    return {"type": "object", "additionalProperties": dict(_SCALAR)}


def _mapping(table: Mapping[str, Key], further: bool = False) -> Json:
    required = [name for name, key in table.items() if key.required]
    schema: Json = {
        "type": "object",
        "properties": {name: _value(name, key) for name, key in table.items()},
        "additionalProperties": further,
    }
    return {**schema, "required": required} if required else schema


def native_functions() -> Json:
    """Return the schema of native_functions.yaml."""
    entry = _mapping(keys.ENTRY)
    entry["oneOf"] = [{"required": [kind]} for kind in keys.KIND_KEYS]
    entry["dependentSchemas"] = {
        name: {"anyOf": [{"required": [kind]} for kind in key.kinds]}
        for name, key in keys.ENTRY.items()
        if key.kinds
    }
    return {"$schema": _DRAFT, "title": "native_functions.yaml", "type": "array", "items": entry}


def derivatives() -> Json:
    """Return the schema of derivatives.yaml: further keys are arguments and outputs."""
    entry = _mapping(keys.DERIVATIVE)
    entry["additionalProperties"] = {
        "type": "string",
        "description": "A tensor expression, none, not_implemented, linear or elementwise.",
    }
    return {"$schema": _DRAFT, "title": "derivatives.yaml", "type": "array", "items": entry}


def texts() -> dict[Path, str]:
    """Return path -> text of both schemas."""
    made = {"native_functions": native_functions(), "derivatives": derivatives()}
    return {FOLDER / f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in made.items()}
