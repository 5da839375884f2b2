"""Lowerings of composites (torchgen_out/lowering) against the operators: values, dtypes, strides, errors."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import flambeau as fb
import lowering_host
import pytest
from op_cases import DATA, MAIN, Call, Op, bind, calls, flat, is_tensor, not_claimed, operators, tensors

FOLDER = DATA.parent / "lowering"
BY_NAME = {"Mean": 0, "Sum": 0, "inf": float("inf"), "nan": float("nan")}


class Operators:
    """`ops["add.Tensor"]`: the operator with this overload."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        base, _, overload = name.partition(".")
        return getattr(getattr(fb.ops.aten, base), overload or "default")


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"lowering_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def lowerings() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for path in sorted(FOLDER.glob("*.py")):
        found |= load(path).COMPOSITE
    return found


def sampled() -> list[str]:
    return [name for name in lowerings() if name in operators() and calls(operators()[name])]


def failing() -> list[tuple[str, int]]:
    return [
        (name, i) for name in lowerings() if name in operators() for i in range(len(operators()[name].errors))
    ]


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return BY_NAME[name] if name in BY_NAME else getattr(fb, name)


def default_of(text: str) -> Any:
    return eval(text, {"__builtins__": {}}, _Names())  # noqa: S307  our own YAML


def fitted(value: Any, type_: str) -> Any:
    """A value as the argument parser passes it on: one number stands for a list, a number for a tensor."""
    size = re.search(r"\[(\d*)\]\??$", type_)
    if size is not None and value is not None:
        if isinstance(value, int | float):
            return [value] * int(size.group(1) or 1)
        return list(value)
    return float(value) if type_.startswith("float") and isinstance(value, int) else value


def lowered(op: Op, arguments: dict[str, Any]) -> Any:
    given = []
    for arg in op.arguments:
        value = arguments[arg["name"]] if arg["name"] in arguments else None
        if arg["name"] not in arguments and arg["default"] is not None:
            value = default_of(arg["default"])
        given.append(fitted(value, arg["type"]))
    if op.declared_inplace:
        given[0] = given[0].clone()
    return lowerings()[op.name](Operators(), lowering_host, *given)


def called(op: Op, arguments: dict[str, Any]) -> Any:
    given = dict(arguments)
    if op.declared_inplace:
        first = op.arguments[0]["name"]
        given[first] = given[first].clone()
    positional, keywords = [], {}
    for arg in op.arguments:
        if arg["name"] in given:
            if arg["keyword_only"] or len(positional) < op.arguments.index(arg):
                keywords[arg["name"]] = given[arg["name"]]
            else:
                positional.append(given[arg["name"]])
        elif arg["default"] not in (None, "None"):  # Python's, which is not the schema's for `reduction`
            keywords[arg["name"]] = default_of(arg["default"])
    return Operators()[op.name](*positional, **keywords)


def outcome(run: Callable[[Op, dict[str, Any]], Any], call: Call, dtype: str) -> Any:
    """What a call yields; an exception where the operator refuses the dtype."""
    fb.manual_seed(3)
    try:
        return flat(run(call.op, tensors(call.materialise(dtype), dtype)))
    except Exception as error:
        return error


def compare(found: Any, expected: Any, known: bool) -> None:
    if not is_tensor(expected):
        assert type(found) is type(expected) and (found == expected or found != found)
        return
    assert (found.dtype, tuple(found.shape), found.device) == (
        expected.dtype,
        tuple(expected.shape),
        expected.device,
    )
    assert found.stride() == expected.stride()
    if known:
        equal = fb.equal(found.isnan(), expected.isnan())
        assert equal and fb.equal(found.nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize("name", sampled())
def test_a_lowering_gives_what_the_operator_gives(name: str):
    op = operators()[name]
    for call in calls(op):
        for dtype in [MAIN[category] for category in op.record["dtypes"]]:
            expected, found = (outcome(run, call, dtype) for run in (called, lowered))
            if isinstance(expected, Exception):
                assert type(found) is type(expected), (dtype, expected, found)
                assert not_claimed(expected) or dtype != op.main_dtype(), expected
                continue
            assert not isinstance(found, Exception), (dtype, found)
            assert len(found) == len(expected)
            for ours, theirs in zip(found, expected, strict=True):
                compare(ours, theirs, "uninitialized" not in op.record["tags"])


@pytest.mark.parametrize(("name", "i"), failing())
def test_a_lowering_refuses_what_the_operator_refuses(name: str, i: int):
    op = operators()[name]
    sample, error, pattern = op.errors[i]
    call = bind(op, sample)
    found = outcome(lowered, call, op.main_dtype())
    wanted = {"LinAlgError", *error.split("|")} if "RuntimeError" in error else set(error.split("|"))
    assert type(found).__name__ in wanted, repr(found)
    assert re.search(pattern, str(found)), str(found)


def test_most_composites_are_compared():
    assert len(sampled()) > 400
