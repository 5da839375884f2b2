"""Memory blocks: their lifetimes and categories, and the largest total."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from flambeau._arguments.nested import tensors_in

# The categories; the index of each is its number in PyTorch's files.
CATEGORIES = (
    "parameter",
    "optimizer state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd detail",
    "unknown",
)
PARAMETER, OPTIMIZER_STATE, _, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, UNKNOWN = range(8)

# The `source` of a block that was allocated before the recording.
BEFORE = -2
BEFORE_TEXT = "before the recording"

# The address of a block -> its category and size.
Owners = dict[int, tuple[int, int]]


@dataclass(slots=True)
class Block:
    """One allocation.

    Args:
        begin, end: nanoseconds; the begin or end of the recording if the block outlives it.
        size: bytes.
        source: a number that the picture's `label` maps to the operator and the Python functions; -1 if there
            are none, or `BEFORE`.
        address: the address of the first byte.
        is_released: whether the recording contains the release.
        begins_in_backward, ends_in_backward: whether a backward pass allocated it, and released it.
        category: an index into `CATEGORIES`.
    """

    begin: int
    end: int
    size: int
    source: int
    address: int = 0
    is_released: bool = False
    begins_in_backward: bool = False
    ends_in_backward: bool = False
    category: int = UNKNOWN


_MOST_NESTED = 4  # maximum depth of lists and dicts in the state of an optimizer


def _block_of(tensor: Any) -> tuple[int, int] | None:
    """Return the address and the size of a tensor's memory, or None if it has none on the CPU."""
    import flambeau

    if tensor.device.type != "cpu" or tensor.layout is not flambeau.strided:
        return None
    storage = tensor.untyped_storage()
    return (storage.data_ptr(), storage.nbytes()) if storage.nbytes() else None


def _kind_of(kind: type) -> int:
    """Return the category of the memory that objects of a class own, or UNKNOWN."""
    from flambeau.nn import Parameter

    optim = sys.modules.get("flambeau.optim")
    for base in type.mro(kind):
        if base is Parameter:
            return PARAMETER
        if optim is not None and base is optim.Optimizer:
            return OPTIMIZER_STATE
    return UNKNOWN


def _owned() -> Iterator[tuple[int, Any]]:
    """Yield the tensors that parameters and optimizers hold, with their categories."""
    kinds: dict[type, int] = {}
    for one in gc.get_objects():
        kind = kinds.get(type(one))
        if kind is None:
            kind = kinds[type(one)] = _kind_of(type(one))
        if kind == OPTIMIZER_STATE:
            for tensor in tensors_in(vars(one).get("state", {}), _MOST_NESTED):
                yield OPTIMIZER_STATE, tensor
        elif kind == PARAMETER:
            yield PARAMETER, one
            if one.is_leaf and one.grad is not None:
                yield GRADIENT, one.grad


def owners() -> Owners:
    """Return the blocks of all living parameters, of their gradients, and of the states of optimizers."""
    from flambeau import _C

    found: Owners = {}
    with _C.DisableTorchFunctionSubclass():
        for category, tensor in _owned():
            try:
                block = _block_of(tensor)
            except (RuntimeError, NotImplementedError):  # a wrapper without memory
                continue
            if block is not None and (block[0] not in found or category < found[block[0]][0]):
                found[block[0]] = (category, block[1])
    return found


def categorize(blocks: Iterable[Block], owned: Owners) -> None:
    """Set the category of each block: by its owner at the end, otherwise by its lifetime."""
    for block in blocks:
        if not block.is_released and block.address in owned:
            block.category = owned[block.address][0]
        elif block.begins_in_backward:
            block.category = AUTOGRAD_DETAIL if block.ends_in_backward else GRADIENT
        elif block.ends_in_backward:
            block.category = ACTIVATION
        else:
            block.category = TEMPORARY if block.is_released else UNKNOWN


def changes(blocks: Iterable[Block]) -> list[tuple[int, int, int]]:
    """Return (time, bytes, category) of all allocations and releases, by time; releases are negative."""
    found = []
    for block in blocks:
        found.append((block.begin, block.size, block.category))
        if block.is_released:
            found.append((block.end, -block.size, block.category))
    return sorted(found)


def peak_of(blocks: Iterable[Block], start: int, first_bytes: int) -> tuple[int, int]:
    """Return the time and the bytes of the largest total."""
    best, total = (start, first_bytes), first_bytes
    for time, size, _ in changes(blocks):
        total += size
        if total > best[1]:
            best = (time, total)
    return best


def offsets(blocks: list[Block]) -> list[int]:
    """Return the lowest free offset for each block, so that blocks do not overlap while they are alive."""
    placed: list[tuple[int, int, int]] = []  # (offset, size, end) of the blocks that are still alive
    found = []
    for block in blocks:
        placed = sorted(p for p in placed if p[2] > block.begin)
        offset = 0
        for start, size, _ in placed:
            if start - offset >= block.size:
                break
            offset = max(offset, start + size)
        placed.append((offset, block.size, block.end))
        found.append(offset)
    return found
