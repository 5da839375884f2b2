"""Properties of overloads that fake tensor modes need; they are read once from the schema and the tags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Tag
from flambeau._subclasses._errors import DataDependentOutputException, DynamicOutputShapeException

# Operators that may move a tensor to another storage.
_CHANGES_STORAGE = frozenset({"set_", "_set_from_"})


@dataclass(frozen=True, slots=True)
class Plan:
    """The properties of one overload.

    Args:
        device: the index of the argument that specifies a device, or None.
        source: the index of the argument whose memory results share, or None.
        written: the indices and names of the arguments that it writes to.
        refusal: the error for results that depend on elements, or None.
        indices: indices of the arguments that are lists of index tensors, which may be on the CPU.
        is_between_devices: whether it copies between devices; the result is on the first tensor's device.
        changes_storage: whether it may move an argument to another storage.
        is_repeatable: whether its arguments determine the elements that it computes.
        operator: the operator that a program has defined in Python, or None.
        is_plain: whether only positional tensors must be replaced by their twins.
    """

    device: int | None
    source: int | None
    source_name: str
    written: tuple[tuple[int, str], ...]
    refusal: type[RuntimeError] | None
    indices: frozenset[int]
    is_between_devices: bool
    changes_storage: bool
    is_repeatable: bool
    operator: Any
    is_plain: bool


_plans: dict[Any, Plan] = {}


def plan_of(func: Any) -> Plan:
    """Return the properties of an overload."""
    found = _plans.get(func)
    if found is None or (not func._entry and found.operator is not _defined(func)):
        found = _plans[func] = _read(func)
    return found


def _defined(func: Any) -> Any:
    """Return the operator whose function for fake tensors is in Python; None for other operators."""
    if func._entry:
        return None
    found = func._packet.custom().get(func._overloadname.replace("default", ""))
    return None if found is None or found.has_meta_in_dispatcher() else found


def _read(func: Any) -> Plan:
    schema, tags = func._schema, set(func.tags)
    names = [p.name for p in schema.parameters]
    letters = [re.search(r"\((\w)\)", returned) for returned in schema.results]
    shared = next((schema.aliases.get(m[1]) for m in letters if m), None)
    refusals = {
        Tag.data_dependent_output: DataDependentOutputException,
        Tag.dynamic_output_shape: DynamicOutputShapeException,
    }
    base = func._packet.__name__
    written = tuple((names.index(name), name) for name in names if name in schema.mutates)
    indices = frozenset(i for i, p in enumerate(schema.parameters) if p.type == "Tensor?[]")
    is_plain = bool(func._entry) and not written and not indices and "device" not in names
    return Plan(
        device=names.index("device") if "device" in names else None,
        source=names.index(shared) if shared in names else None,
        source_name=shared or "",
        written=written,
        refusal=next((refusals[tag] for tag in tags if tag in refusals), None),
        indices=indices,
        is_between_devices="non_blocking" in names,
        changes_storage=base in _CHANGES_STORAGE,
        is_repeatable=(not written or Tag.inplace in tags)
        and Tag.nondeterministic_seeded not in tags
        and bool(func._entry),
        operator=_defined(func),
        is_plain=is_plain,
    )


def named_device(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the device that a call specifies, or None."""
    if plan.device is None:
        return None
    given = args[plan.device] if plan.device < len(args) else kwargs.get("device")
    return None if given is None else flambeau.device(given)
