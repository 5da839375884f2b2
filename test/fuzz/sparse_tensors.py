"""Tensors of layout sparse_coo: duplicates, any split into sparse and dense dimensions, damaged indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flambeau

if TYPE_CHECKING:
    from .values import Call

ENTRIES = (0, 1, 2, 3, 5)
WRONG = (-1, 7, 2**31, 2**62, -(2**63))  # indices that reach beyond every tensor made here
COUNTABLE = 2**63  # as many positions cannot be numbered by an int64
WIDE = 2**40  # the size of a sparse dimension whose elements no memory holds


def sparse_of(call: Call, shape: list[int], values: flambeau.Tensor) -> flambeau.Tensor:
    """A sparse tensor of this shape whose values are taken from a row of numbers, in no order.

    Some claim to be coalesced and are not, some have an index out of range, which was written after they
    were made, and some are wide.
    """
    lead = call.below(len(shape) + 1) if shape else 0
    sparse, dense = list(shape[:lead]), list(shape[lead:])
    if not _countable([*sparse, *dense]):  # the shape was taken from a wide tensor
        sparse, dense = ([min(size, 3) for size in sizes] for sizes in (sparse, dense))
    count = 0 if 0 in sparse else call.one_of(ENTRIES)
    indices = flambeau.tensor(
        [[call.below(size) for _ in range(count)] for size in sparse], dtype=flambeau.int64
    ).reshape(lead, count)
    if lead and call.one_in(12):
        widened = list(sparse)
        widened[call.below(lead)] += WIDE
        sparse = widened if _countable([*widened, *dense]) else sparse
    entries = values[: count * _product(dense)].clone().reshape(count, *dense)
    made = flambeau.sparse_coo_tensor(indices, entries, (*sparse, *dense), is_coalesced=call.one_in(6))
    if lead and count and call.one_in(2):
        made._indices()[call.below(lead), call.below(count)] = call.one_of(WRONG)
    return made


def _countable(sizes: list[int]) -> bool:
    """Whether an int64 can number the positions, where sizes of 0 count as 1."""
    return _product([max(size, 1) for size in sizes]) < COUNTABLE


def _product(sizes: list[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
