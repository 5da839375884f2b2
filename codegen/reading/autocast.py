"""`autocast:` — what an operator does to its arguments within an autocast region, by device."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.model.enumerations import AUTOCAST_DEVICES, CAST_POLICIES
from codegen.reading import keys
from codegen.reading.fields import Fields, check_keys
from codegen.source.nodes import Text


def read_autocast(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Return (device, policy) pairs: one value stands for every device."""
    given = fields.scalar("autocast")
    if given is not None:
        known = fields.known("autocast", given, CAST_POLICIES)
        return tuple((device, given.value) for device in AUTOCAST_DEVICES if known)
    mapping = fields.map("autocast")
    if mapping is None:
        return ()
    check_keys(mapping, keys.AUTOCAST)
    return tuple(_policies(mapping))


def _policies(mapping: Fields) -> Iterator[tuple[str, str]]:
    for device in AUTOCAST_DEVICES:
        policy = mapping.node.get(device)
        if isinstance(policy, Text) and mapping.known(device, policy, CAST_POLICIES):
            yield device, policy.value
