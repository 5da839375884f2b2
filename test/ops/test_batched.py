"""Generated operators under vmap against a loop over the entries of the batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from flambeau.func import vmap
from op_cases import Call, Op, calls, flat, is_tensor, names, operators, run, tensors, to_array

ENTRIES = 2
CALLS = 2  # sample calls per operator
# Operators that refuse: shapes or host values depend on data, they draw random numbers, or their results are
# sparse. May only fall.
MOST_REFUSED = 24


def is_tested(op: Op) -> bool:
    return bool(op.record["samples"]) and op.is_fixed


def _leaves(arguments: dict[str, Any]) -> list[Any]:
    return [t for v in arguments.values() for t in (v if isinstance(v, list) else [v]) if is_tensor(t)]


def _filled(arguments: dict[str, Any], leaves: Iterator[Any]) -> dict[str, Any]:
    def one(value: Any) -> Any:
        if isinstance(value, list):
            return [one(v) for v in value]
        return next(leaves) if is_tensor(value) else value

    return {name: one(value) for name, value in arguments.items()}


def _compare(op: Op, call: Call, chosen: list[int], at: int) -> None:
    rows = [tensors(call.materialise(op.main_dtype(), seed), op.main_dtype()) for seed in range(ENTRIES)]
    leaves = [_leaves(row) for row in rows]
    dims = tuple(at if i in chosen else None for i in range(len(leaves[0])))
    given = [
        fb.stack(list(column), at) if i in chosen else column[0]
        for i, column in enumerate(zip(*leaves, strict=True))
    ]

    def function(*values: Any) -> tuple[Any, ...]:
        return tuple(x for x in flat(run(op, _filled(rows[0], iter(values)))) if x is not None)

    expected = [
        function(*(leaves[b][i] if i in chosen else leaves[0][i] for i in range(len(dims))))
        for b in range(ENTRIES)
    ]
    columns = [column for column in zip(*expected, strict=False) if is_tensor(column[0])]
    if any(len({tuple(x.shape) for x in column}) > 1 for column in columns):
        with pytest.raises(RuntimeError, match="equal size|vmap"):
            vmap(function, in_dims=dims)(*given)
        return
    found = vmap(function, in_dims=dims)(*given)
    assert len(found) == len(expected[0])
    for result, column in zip(found, zip(*expected, strict=True), strict=True):
        loop = fb.stack(list(column))
        assert result.dtype == loop.dtype
        np.testing.assert_allclose(to_array(result), to_array(loop), rtol=2e-4, atol=2e-5)


@cache
def refused() -> set[str]:
    return set()


@pytest.mark.parametrize("name", names(is_tested))
def test_vmap_is_the_loop(name: str):
    """Each tensor alone, batched in front, and all together, batched at the end."""
    op = operators()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls(op)[:CALLS]:
            count = len(_leaves(tensors(call.materialise(op.main_dtype(), 0), op.main_dtype())))
            plans = [([i], 0) for i in range(count)]
            plans += [(list(range(count)), -1)] * (count > 1)
            for chosen, at in plans:
                try:
                    _compare(op, call, chosen, at)
                except RuntimeError as error:
                    if "inplace arithmetic" in str(error) and op.declared_inplace and 0 not in chosen:
                        continue  # what is written must be batched as well
                    assert "vmap" in str(error), error
                    refused().add(name)


def test_few_operators_refuse():
    assert len(refused()) <= MOST_REFUSED, sorted(refused())
