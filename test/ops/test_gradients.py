"""Generated operators' derivatives: against differences, twice, and forward mode against reverse mode."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import numpy as np
import pytest
from numerics import check_forward_mode, check_gradient, check_second_gradient
from op_cases import Op, calls, flat, is_tensor, names, operators, run, tensors


def variables(op: Op, arguments: dict[str, Any]) -> list[tuple[str, int | None]]:
    """The floating tensors among the differentiable arguments: (name, index in a list)."""
    found: list[tuple[str, int | None]] = []
    for name in op.differentiable:
        value = arguments.get(name)
        if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
            found.append((name, None))
        elif isinstance(value, list):
            found += [
                (name, i) for i, v in enumerate(value) if isinstance(v, np.ndarray) and v.dtype.kind in "fc"
            ]
    return found


STRUCTURED = {
    "": lambda value: value,
    "hermitian": lambda value: (value + value.mH) / 2,
    "triangular": lambda value: value.tril(),
}


def function_of(
    op: Op, arguments: dict[str, Any], places: list[tuple[str, int | None]], dtype: str, kinds: dict[str, str]
) -> Any:
    """The operator as a function of its differentiable tensors; only its differentiable results."""

    def function(*values: Any) -> list[Any]:
        given = tensors(arguments, dtype)
        for (name, index), value in zip(places, values, strict=True):
            if index is None:
                given[name] = STRUCTURED[kinds.get(name, "")](value)
            else:
                given[name] = [value if i == index else v for i, v in enumerate(given[name])]
        if "random" in op.tags:
            fb.manual_seed(0)  # the same numbers at every point
        results = flat(run(op, given))
        return [r for r in results if is_tensor(r) and (r.is_floating_point() or r.is_complex())]

    return function


def cases(op: Op, dtype: str) -> list[tuple[Any, list[np.ndarray], str]]:
    """Functions with their inputs, for every sample call that has differentiable inputs."""
    found = []
    for i, call in enumerate(calls(op)):
        arguments = call.materialise(dtype, 11 + i)
        places = variables(op, arguments)
        if places:
            arrays = [arguments[n] if k is None else arguments[n][k] for n, k in places]
            kinds = {n: getattr(v, "kind_of_matrix", "") for n, v in call.arguments.items()}
            found.append((function_of(op, arguments, places, dtype, kinds), arrays, f"{op.name}/{dtype}/{i}"))
    return found


def dtypes(op: Op) -> list[str]:
    """Double precision, complex too where the operator claims it and says how it is differentiated."""
    found = ["float64"] if "floating" in op.record["dtypes"] else []
    if "complex" in op.record["dtypes"] and op.kind in ("pointwise", "reduce"):
        found.append("complex128")
    return found


def is_differentiable(op: Op) -> bool:
    if {"random", "uninitialized"} & set(op.record["tags"]):
        return False  # differences of random values say nothing
    if op.record["no_gradient"] is not None:
        return False
    claimed = set(op.record["dtypes"]) & {"floating", "complex"}
    has_result = any("Tensor" in r for r in op.record["returns"])
    rules = ("compare", "logical", "integral")
    usable = op.record["samples"] and op.dtype_rule not in rules
    return bool(claimed and has_result and usable and op.differentiable and _some_gradient(op))


def _some_gradient(op: Op) -> bool:
    """Composites may be made of operators without gradients, and samples may hold no floating tensor."""
    try:
        found = cases(op, "float64")
    except (TypeError, RuntimeError):
        return True  # the test shall tell
    for function, arrays, _ in found:
        if any(a.size for a in arrays):
            try:
                results = function(*(fb.from_numpy(np.array(a)).requires_grad_() for a in arrays))
            except (TypeError, RuntimeError, NotImplementedError):
                return True
            if any(r.requires_grad for r in results):
                return True
    return op.kind != "composite" and bool(found)


DIFFERENTIABLE = names(is_differentiable)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient(name: str):
    """Reverse mode against central differences."""
    op = operators()[name]
    checked = 0
    for dtype in dtypes(op):
        for function, arrays, key in cases(op, dtype):
            check_gradient(function, arrays, key)
            checked += 1
    assert checked


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_gradient(name: str):
    """The gradient's gradient against central differences of the gradient."""
    op = operators()[name]
    checked = 0
    for dtype in dtypes(op)[:1]:
        for function, arrays, key in cases(op, dtype)[:2]:
            try:
                check_second_gradient(function, arrays, key)
            except RuntimeError as error:  # derivatives.yaml says so, and backward names the operator
                assert "is not implemented" in str(error)
            checked += 1
    assert checked


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward_mode(name: str):
    """Tangents against reverse mode."""
    op = operators()[name]
    checked = 0
    for dtype in dtypes(op):
        for function, arrays, key in cases(op, dtype)[:2]:
            check_forward_mode(function, arrays, key)
            checked += 1
    assert checked


def test_forward_mode_is_there_for_all():
    """What has a gradient has a tangent."""
    assert [n for n in DIFFERENTIABLE if operators()[n].forward is False] == []
