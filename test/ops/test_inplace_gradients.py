"""Backward through in-place forms: the gradient is that of the functional form, on tensors and on views."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import numpy as np
import pytest
from op_cases import calls, flat, is_tensor, names, operators, run, split_arguments, tensors, to_array


def _weights(result: Any) -> Any:
    """Weights by which no two elements count alike."""
    steps = fb.arange(1, result.numel() + 1, dtype=fb.float64).reshape(result.shape)
    return (steps / result.numel()).to(result.dtype)


def _gradient(leaf: Any, result: Any) -> Any:
    (grad,) = fb.autograd.grad((result * _weights(result)).sum().abs(), leaf, allow_unused=True)
    return fb.zeros_like(leaf) if grad is None else grad


def _in_place(op: Any, own: Any, arguments: dict[str, Any]) -> Any:
    positional, keywords = split_arguments(op, arguments | {"self": own})
    keywords.pop("input", None)
    return getattr(own, op.inplace)(*(v for v in positional if v is not own), **keywords)


@pytest.mark.parametrize("on_view", [False, True])
@pytest.mark.parametrize(
    "name",
    names(lambda op: op.inplace and op.record["samples"] and op.is_fixed and "self" in op.differentiable),
)
def test_gradient_of_self(name: str, on_view: bool):
    op = operators()[name]
    for call in calls(op):
        arguments = tensors(call.materialise("float64"), "float64")
        leaf = arguments.get("self")
        if not is_tensor(leaf) or not leaf.is_floating_point() or leaf.numel() == 0:
            continue
        leaf.requires_grad_()
        expected = flat(run(op, arguments | {"self": leaf * 1}))[0]
        if expected.shape != leaf.shape or expected.dtype != leaf.dtype or not expected.requires_grad:
            continue
        base = fb.stack([leaf, leaf.detach() * 0 + 1]) if on_view else leaf * 1
        result = _in_place(op, base[0] if on_view else base, arguments)
        np.testing.assert_allclose(
            to_array(_gradient(leaf, base[0] if on_view else result)),
            to_array(_gradient(leaf, expected)),
            rtol=1e-9,
            atol=1e-12,
            err_msg=name,
        )
