"""Generated operators' forms against the functional one: methods, in-place, out=, and the meta device."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import numpy as np
import pytest
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


def sampled(op: Op) -> bool:
    return bool(op.record["samples"])


def is_fixed(op: Op) -> bool:
    """Whether two calls give the same values."""
    return sampled(op) and op.is_fixed


def assert_same(a: Any, b: Any, where: str) -> None:
    """Equal values, shapes and dtypes."""
    results = list(zip(flat(a), flat(b), strict=True))
    assert results, where
    for x, y in results:
        if is_tensor(x):
            assert x.dtype == y.dtype and tuple(x.shape) == tuple(y.shape), where
            np.testing.assert_array_equal(to_array(x), to_array(y), err_msg=where)
        else:
            assert x == y, where


def arguments_of(op: Op, call: Call, seed: int = 0) -> dict[str, Any]:
    return tensors(call.materialise(op.main_dtype(), seed), op.main_dtype())


def has_self(op: Op, arguments: dict[str, Any]) -> bool:
    return is_tensor(arguments.get("self"))


@pytest.mark.parametrize(
    "name", names(lambda op: is_fixed(op) and op.is_method and op.is_function and not op.declared_inplace)
)
def test_method(name: str):
    """x.op(...) is op(x, ...)."""
    op = operators()[name]
    compared = 0
    for call in calls(op):
        arguments = arguments_of(op, call)
        if not has_self(op, arguments):
            continue
        others = {k: v for k, v in arguments.items() if k != "self"}
        positional = [
            others.pop(a["name"])
            for a in op.arguments
            if a["name"] in others
            and not a["keyword_only"]
            and a["name"] != "self"
            and _before_gap(op, a, arguments)
        ]
        result = getattr(arguments["self"], op.call)(*positional, **others)
        assert_same(result, run(op, arguments), name)
        compared += 1
    assert compared


def _before_gap(op: Op, wanted: dict[str, Any], arguments: dict[str, Any]) -> bool:
    for arg in op.arguments:
        if arg["name"] == wanted["name"]:
            return True
        if arg["name"] not in arguments:
            return False
    return False


@pytest.mark.parametrize("name", names(lambda op: is_fixed(op) and op.inplace))
def test_inplace(name: str):
    """x.op_(...) writes the functional result, cast to x's dtype, into x, and returns x."""
    op = operators()[name]
    written = 0
    for call in calls(op):
        arguments = arguments_of(op, call)
        if not has_self(op, arguments):
            continue
        expected = flat(run(op, arguments))[0]
        own = arguments["self"].clone()
        fits = tuple(own.shape) == tuple(expected.shape) and fb.can_cast(expected.dtype, own.dtype)
        positional, keywords = split_arguments(op, arguments | {"self": own})
        keywords.pop("input", None)
        others = [v for v in positional if v is not own]
        version = own._version
        method = getattr(own, op.inplace)
        if not fits and "-> Tensor(a)" not in op.schema:  # a view's sizes are taken over
            with pytest.raises(RuntimeError):
                method(*others, **keywords)
            written += 1
            continue
        result = method(*others, **keywords)
        assert result is own
        assert own._version > version
        np.testing.assert_array_equal(to_array(own), to_array(expected).astype(to_array(own).dtype))
        written += 1
    assert written


@pytest.mark.parametrize("name", names(lambda op: is_fixed(op) and op.out))
def test_out(name: str):
    """out= gets the functional result, is resized if empty, and is returned."""
    op = operators()[name]
    for call in calls(op):
        arguments = arguments_of(op, call)
        expected = flat(run(op, arguments))
        targets = [fb.empty(0, dtype=e.dtype) for e in expected]
        positional, keywords = split_arguments(op, arguments)
        out = targets[0] if len(targets) == 1 else tuple(targets)
        result = op.function()(*positional, **keywords, out=out)
        assert_same(targets, expected, name)
        lists = op.record["returns"] == ["Tensor[]"]  # nothing is returned: the list is the caller's
        assert result is None if lists else all(a is b for a, b in zip(flat(result), targets, strict=True))
    assert expected


@pytest.mark.parametrize(
    "name", names(lambda op: "exact_out" in op.record["tags"] and op.out and sampled(op))
)
def test_out_of_another_dtype_is_refused(name: str):
    """The tag exact_out: what could be cast to is refused all the same."""
    op = operators()[name]
    for call in calls(op):
        arguments = arguments_of(op, call)
        targets = [fb.empty(0, dtype=fb.complex128) for _ in flat(run(op, arguments))]
        positional, keywords = split_arguments(op, arguments)
        with pytest.raises(RuntimeError, match="expected an out tensor of dtype"):
            op.function()(*positional, **keywords, out=targets[0] if len(targets) == 1 else tuple(targets))


@pytest.mark.parametrize("name", names(lambda op: is_fixed(op) and op.out and op.differentiable))
def test_out_refuses_gradients(name: str):
    """out= cannot be recorded, and says so."""
    op = operators()[name]
    checked = 0
    for call in calls(op)[:1]:
        arguments = arguments_of(op, call)
        tensors = [v for v in flat(list(arguments.values())) if is_tensor(v)]
        floating = [v for v in tensors if v.is_floating_point() or v.is_complex()]
        if not floating:
            continue
        expected = flat(run(op, arguments))
        floating[0].requires_grad_()
        positional, keywords = split_arguments(op, arguments)
        targets = [fb.empty(0, dtype=e.dtype) for e in expected]
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            op.function()(*positional, **keywords, out=targets[0] if len(targets) == 1 else tuple(targets))
        checked += 1
    assert checked or op.main_dtype() not in ("float32", "float64")


def on_meta(value: Any) -> Any:
    if is_tensor(value):
        return value.to("meta")
    return [on_meta(v) for v in value] if isinstance(value, list) and value and is_tensor(value[0]) else value


@pytest.mark.parametrize(
    "name",
    names(
        lambda op: (
            sampled(op)
            and op.tensor_names
            and not op.dynamic
            and not any(a["type"] == "Device" for a in op.arguments)  # they name another one
            and any("Tensor" in r for r in op.record["returns"])
        )
    ),
)
def test_meta(name: str):
    """Shapes, dtypes and strides without data are those with data."""
    op = operators()[name]
    compared = 0
    for call in calls(op):
        arguments = arguments_of(op, call)
        real = flat(run(op, arguments))
        try:
            meta = flat(run(op, {k: on_meta(v) for k, v in arguments.items()}))
        except (NotImplementedError, RuntimeError) as error:
            assert op.kind == "composite" and "meta" in str(error).lower(), f"{name}: {error}"
            compared += 1
            continue
        for a, b in zip(real, meta, strict=True):
            if is_tensor(a):
                assert b.device.type == "meta"
                assert (tuple(a.shape), a.dtype, a.stride()) == (tuple(b.shape), b.dtype, b.stride()), name
                compared += 1
    assert compared


@pytest.mark.parametrize("name", names(lambda op: "random" in op.record["tags"] and sampled(op)))
def test_random_numbers_follow_the_seed(name: str):
    """Equal seeds give equal values."""
    op = operators()[name]
    for call in calls(op):
        arguments = arguments_of(op, call)
        fb.manual_seed(3)
        first = run(op, arguments)
        fb.manual_seed(3)
        assert_same(first, run(op, arguments), name)
