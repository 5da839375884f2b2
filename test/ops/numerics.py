"""Derivatives checked against central differences along random directions.

One random direction tests every entry at once: an error in any of them shows with probability one.
Complex gradients follow PyTorch: the change of a real result is Re(conj(grad) . dz).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
import numpy as np
from op_cases import generator, to_array

STEP = 1e-6
Function = Callable[..., list[Any]]


def random_like(array: np.ndarray, key: str) -> np.ndarray:
    """A random direction."""
    rng = generator(key)
    values = rng.standard_normal(array.shape)
    if np.iscomplexobj(array):
        values = values + 1j * rng.standard_normal(array.shape)
    return np.asarray(values, array.dtype)


def inner(a: np.ndarray, b: np.ndarray) -> float:
    """Re(conj(a) . b)."""
    return float(np.real(np.vdot(np.asarray(a).ravel(), np.asarray(b).ravel())))


def evaluate(function: Function, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results at these values."""
    return [to_array(r) for r in function(*(fb.from_numpy(np.array(a)) for a in arrays))]


def leaves(arrays: Sequence[np.ndarray]) -> list[Any]:
    """Tensors that want gradients."""
    return [fb.from_numpy(np.array(a)).requires_grad_() for a in arrays]


def numeric(
    function: Function, arrays: Sequence[np.ndarray], directions: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The change of every result along the directions, by central differences."""
    ahead = evaluate(function, [a + STEP * d for a, d in zip(arrays, directions, strict=True)])
    behind = evaluate(function, [a - STEP * d for a, d in zip(arrays, directions, strict=True)])
    return [(p - m) / (2 * STEP) for p, m in zip(ahead, behind, strict=True)]


def backward(
    results: Sequence[Any], cotangents: Sequence[Any], inputs: Sequence[Any], create_graph: bool = False
) -> list[Any]:
    """Gradients, zeros where an input is not reached."""
    kept = [(r, c) for r, c in zip(results, cotangents, strict=True) if r.requires_grad]
    if not kept:
        return [fb.zeros_like(x) for x in inputs]
    grads = fb.autograd.grad(
        [r for r, _ in kept], list(inputs), [c for _, c in kept], create_graph=create_graph, allow_unused=True
    )
    return [fb.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True)]


def check_gradient(
    function: Function, arrays: Sequence[np.ndarray], key: str, tolerance: float = 1e-5
) -> None:
    """Reverse mode against differences, one argument at a time and then all at once."""
    inputs = leaves(arrays)
    results = function(*inputs)
    cotangents = [random_like(to_array(r), f"{key}/c{i}") for i, r in enumerate(results)]
    grads = backward(results, [fb.from_numpy(c) for c in cotangents], inputs)
    for i, (grad, array) in enumerate(zip(grads, arrays, strict=True)):
        assert tuple(grad.shape) == array.shape, f"gradient {i}: shape {tuple(grad.shape)} of {array.shape}"
        directions = [
            random_like(a, f"{key}/d{k}") if k == i else np.zeros_like(a) for k, a in enumerate(arrays)
        ]
        expected = sum(
            inner(c, d) for c, d in zip(cotangents, numeric(function, arrays, directions), strict=True)
        )
        got = inner(to_array(grad), directions[i])
        assert_close(got, expected, tolerance, f"gradient of argument {i}")


def check_second_gradient(function: Function, arrays: Sequence[np.ndarray], key: str) -> None:
    """The gradient's own gradient, for inputs and incoming gradients."""
    count = len(arrays)

    def first(*values: Any) -> list[Any]:
        inputs = [v if v.requires_grad else v.requires_grad_() for v in values[:count]]
        results = function(*inputs)
        return backward(results, values[count:], inputs, create_graph=True)

    probe = evaluate(function, arrays)
    cotangents = [random_like(r, f"{key}/g{i}") for i, r in enumerate(probe)]
    check_gradient(first, [*arrays, *cotangents], f"{key}/second", 1e-4)


def check_forward_mode(function: Function, arrays: Sequence[np.ndarray], key: str) -> None:
    """Tangents from dual numbers against reverse mode: <v, J u> = <J^T v, u>."""
    directions = [random_like(a, f"{key}/u{i}") for i, a in enumerate(arrays)]
    with fb.autograd.forward_ad.dual_level():
        duals = [
            fb.autograd.forward_ad.make_dual(fb.from_numpy(np.array(a)), fb.from_numpy(np.array(d)))
            for a, d in zip(arrays, directions, strict=True)
        ]
        results = function(*duals)
        tangents = [fb.autograd.forward_ad.unpack_dual(r).tangent for r in results]
    inputs = leaves(arrays)
    plain = function(*inputs)
    cotangents = [random_like(to_array(r), f"{key}/v{i}") for i, r in enumerate(plain)]
    grads = backward(plain, [fb.from_numpy(c) for c in cotangents], inputs)
    forward = sum(inner(c, to_array(t)) for c, t in zip(cotangents, tangents, strict=True) if t is not None)
    reverse = sum(inner(to_array(g), d) for g, d in zip(grads, directions, strict=True))
    assert_close(forward, reverse, 1e-9, "forward mode against reverse mode")


# Half the distance of neighbouring numbers near 1: the relative error of rounding once.
ROUNDING = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
    "complex32": 2.0**-11,
    "complex64": 2.0**-24,
    "complex128": 2.0**-53,
}
_DRAWS = 6


def _once_rounded(result: np.ndarray, dtype: str) -> np.ndarray:
    """The error of rounding a result once; exact ones have none."""
    if result.dtype.kind not in "fc":
        return np.zeros(result.shape)
    size = np.abs(result)
    return ROUNDING[dtype] * np.where(np.isfinite(size), size, 0)


def rounding_of_parts(
    reference: Callable[[dict[str, Any]], list[Any]], arguments: dict[str, Any], parts: int, dtype: str
) -> list[np.ndarray]:
    """How far a composite's results may be off because each of its parts rounds its result.

    A part that rounds gives what exact arithmetic gives for operands that are off by as much (backward
    error analysis, Higham 2002, 1.5). To first order these errors add up along a chain of parts, so the
    bound is the length of the longest chain times the change of the result under such a change of all
    operands, which is measured: it includes the loss of digits where near numbers are subtracted, which
    no fixed tolerance knows. A result that does not follow its operands, as x / |x| of one element, is
    still rounded by each part: no change counts as less than one rounding of the result.
    """
    exact = [np.asarray(result) for result in reference(arguments)]
    largest = [_once_rounded(result, dtype) for result in exact]
    rng = generator(f"rounding/{dtype}/{parts}")

    def rounded(value: Any) -> Any:
        if isinstance(value, list):
            return [rounded(v) for v in value]
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
            return value
        return value * (1 + ROUNDING[dtype] * rng.choice([-1.0, 1.0], value.shape))

    for _ in range(_DRAWS):
        moved = reference({name: rounded(value) for name, value in arguments.items()})
        for i, (result, before) in enumerate(zip(moved, exact, strict=True)):
            if np.shape(result) == before.shape and before.dtype.kind in "fc":
                change = np.abs(np.asarray(result) - before)
                largest[i] = np.maximum(largest[i], np.where(np.isfinite(change), change, 0))
    return [parts * change for change in largest]


def assert_close(got: float, expected: float, tolerance: float, what: str) -> None:
    """Relative to the larger of the two and to one."""
    scale = max(1.0, abs(got), abs(expected))
    assert abs(got - expected) <= tolerance * scale, f"{what}: got {got!r}, expected {expected!r}"
