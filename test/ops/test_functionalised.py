"""Generated operators under functionalize: results, effects on the arguments, and no write below it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from flambeau.func import functionalize
from flambeau.utils._python_dispatch import TorchDispatchMode
from op_cases import (
    Call,
    Op,
    calls,
    flat,
    is_tensor,
    names,
    operators,
    run,
    split_arguments,
    tensors,
    to_array,
)

CALLS = 3  # sample calls per operator
# Operators without a functional form, which write to clones (the fused optimizers): may only fall.
MOST_WRITING = 8


def is_tested(op: Op) -> bool:
    return bool(op.record["samples"]) and op.is_fixed


class Writes(TorchDispatchMode):
    """The operators that write, without those that functionalize itself calls at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.is_mutable:
            self.found.add(str(func))
        return func(*args, **(kwargs or {}))


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in flat(value) for t in (flat(v) if isinstance(v, list | tuple) else [v]) if is_tensor(t)]


def assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(to_array(a), to_array(b), rtol=1e-5, atol=1e-6)


@cache
def writing() -> set[str]:
    return set()


def compare(op: Op, call: Call, statement: Callable[[dict[str, Any]], Any]) -> None:
    """The statement on equal arguments, eagerly and functionalised."""

    def fresh() -> dict[str, Any]:
        return tensors(call.materialise(op.main_dtype(), 0), op.main_dtype())

    eager = fresh()
    error = expected = None
    try:
        expected = statement(eager)
    except RuntimeError as raised:
        error = raised
    for remove in ("mutations", "mutations_and_views"):
        given, log = fresh(), Writes()
        changed = [t._version for t in leaves(given)]
        with log:
            if error is not None:
                with pytest.raises(type(error)):
                    functionalize(statement, remove=remove)(given)
                continue
            found = functionalize(statement, remove=remove)(given)
        changed = [t._version > version for t, version in zip(leaves(given), changed, strict=True)]
        assert_same(leaves(found), leaves(expected))
        assert_same(leaves(given), leaves(eager))
        own = set()  # the effects on the arguments
        if any(changed):
            own = {"aten.copy_.default", "aten._set_sizes_.default", "aten.as_strided_.default"}
        if log.found - own:
            writing().add(op.name)


@pytest.mark.parametrize("name", names(is_tested))
def test_functional_form(name: str) -> None:
    op = operators()[name]
    for call in calls(op)[:CALLS]:
        compare(op, call, lambda arguments: run(op, arguments))


@pytest.mark.parametrize("name", names(lambda op: is_tested(op) and op.inplace))
def test_inplace(name: str) -> None:
    op = operators()[name]

    def statement(arguments: dict[str, Any]) -> Any:
        own = arguments["self"]
        positional, keywords = split_arguments(op, arguments)
        keywords.pop("input", None)
        getattr(own, op.inplace)(*[v for v in positional if v is not own], **keywords)
        return own + 0 if own.dtype != fb.bool else own.clone()

    for call in calls(op)[:CALLS]:
        if is_tensor(tensors(call.materialise(op.main_dtype(), 0), op.main_dtype()).get("self")):
            compare(op, call, statement)


@pytest.mark.parametrize("name", names(lambda op: is_tested(op) and op.out))
def test_out(name: str) -> None:
    op = operators()[name]

    def statement(arguments: dict[str, Any]) -> Any:
        targets = [fb.empty(0, dtype=e.dtype) for e in flat(run(op, arguments))]
        positional, keywords = split_arguments(op, arguments)
        op.function()(*positional, **keywords, out=targets[0] if len(targets) == 1 else tuple(targets))
        return targets

    for call in calls(op)[:CALLS]:
        compare(op, call, statement)


def test_few_operators_write() -> None:
    assert len(writing()) <= MOST_WRITING, sorted(writing())
