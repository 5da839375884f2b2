"""Comparing tensors in tests.

>>> import flambeau as fb
>>> assert_close(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 2.0 + 1e-7]))
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._loading.lazy import attributes

# rtol and atol that a dtype's precision justifies; exact for integers and bool.
_TOLERANCES = {
    fb.float16: (1e-3, 1e-5),
    fb.bfloat16: (1.6e-2, 1e-5),
    fb.float32: (1.3e-6, 1e-5),
    fb.float64: (1e-7, 1e-7),
    fb.complex32: (1e-3, 1e-5),
    fb.complex64: (1.3e-6, 1e-5),
    fb.complex128: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Check that values are close, elementwise.

    Formula:
        |actual - expected| <= atol + rtol |expected|

    Args:
        actual: a tensor, a number, or a sequence or mapping of them.
        expected: the same structure.
        allow_subclasses: whether the classes of tensors may differ.
        rtol: the relative tolerance. None means a default for the dtypes, the larger one of both.
        atol: the absolute tolerance, given together with `rtol`. None means a default for the dtypes.
        equal_nan: whether NaN equals NaN.
        check_device: whether devices must be equal.
        check_dtype: whether dtypes must be equal. If not, values are compared in the promoted dtype.
        check_layout: whether layouts must be equal.
        check_stride: whether strides must be equal.
        msg: the message of the error, or a function from the generated message to it.
    Returns: None.
    Raises: AssertionError if they differ, ValueError if only one tolerance is given, TypeError for other
        types.

    Example:
        >>> flambeau.testing.assert_close(flambeau.tensor([1.0]), flambeau.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        missing = "atol" if atol is None else "rtol"
        raise ValueError(
            "assert_close: rtol and atol must both be specified or both be unspecified: expected "
            f"both or neither, got no {missing}"
        )
    checks = (allow_subclasses, check_device, check_dtype, check_layout, check_stride)
    try:
        _compare(actual, expected, (rtol, atol), equal_nan, checks, "")
    except _Mismatch as mismatch:
        text = str(mismatch)
        raise AssertionError(msg(text) if callable(msg) else msg or text) from None


class _Mismatch(Exception):
    pass


def _compare(actual: Any, expected: Any, bounds: Any, equal_nan: bool, checks: Any, where: str) -> None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            raise _Mismatch(
                f"assert_close: Mappings differ in their keys:{where} {list(actual)} and {list(expected)}"
            )
        for key in actual:
            _compare(actual[key], expected[key], bounds, equal_nan, checks, f"{where} item [{key!r}]")
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Mismatch(
                f"assert_close: Sequences differ in length:{where} {len(actual)} != {len(expected)}"
            )
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, b, bounds, equal_nan, checks, f"{where} item [{i}]")
    elif isinstance(actual, Tensor) and isinstance(expected, Tensor):
        _check_attributes(actual, expected, checks, where)
        _check_values(actual, expected, bounds, equal_nan, where, "Tensor-likes")
    elif _is_number(actual) and _is_number(expected):
        a, b = fb.tensor(actual, dtype=_wide(actual)), fb.tensor(expected, dtype=_wide(expected))
        _check_values(a, b, bounds, equal_nan, where, "Scalars")
    elif actual is None and expected is None:
        return
    else:
        raise TypeError(
            "assert_close: No comparison pair for these types: expected two values of one kind, got "
            f"{type(actual).__name__} and {type(expected).__name__}.{where}"
        )


# What assert_allclose allows, which was before assert_close.
_OLDER_TOLERANCES = {
    fb.float16: (1e-3, 1e-3),
    fb.float32: (1e-4, 1e-5),
    fb.float64: (1e-5, 1e-8),
}


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Check that values are close after a conversion of `expected` to the dtype of `actual`.

    Deprecated in favor of `assert_close`.

    Args:
        actual: a tensor, a number, or a sequence of them.
        expected: the same structure.
        rtol: the relative tolerance. None means a default for the dtypes.
        atol: the absolute tolerance. None means a default for the dtypes.
        equal_nan: whether NaN equals NaN.
        msg: the message of the error. An empty one means a generated message.
    Returns: None.
    Raises: AssertionError if values differ.

    Example:
        >>> flambeau.testing.assert_allclose(flambeau.ones(2), flambeau.ones(2))
    """
    warnings.warn("assert_allclose() is deprecated: use assert_close()", FutureWarning, stacklevel=2)
    here = actual if isinstance(actual, Tensor) else fb.tensor(actual)
    there = fb.as_tensor(expected, dtype=here.dtype)
    if rtol is None and atol is None:
        found = [_OLDER_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (here, there)]
        rtol, atol = max(r for r, _ in found), max(a for _, a in found)
    assert_close(
        here,
        there,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex)


def _wide(value: complex) -> Any:
    if isinstance(value, bool):
        return fb.bool
    return fb.int64 if isinstance(value, int) else fb.complex128 if isinstance(value, complex) else fb.float64


def _check_attributes(actual: Tensor, expected: Tensor, checks: Any, where: str) -> None:
    subclasses, device, dtype, layout, stride = checks
    asked = [
        (not subclasses, "type", type(actual), type(expected)),
        (True, "shape", tuple(actual.shape), tuple(expected.shape)),
        (device, "device", actual.device, expected.device),
        (dtype, "dtype", actual.dtype, expected.dtype),
        (layout, "layout", actual.layout, expected.layout),
        (stride, "stride()", actual.stride(), expected.stride()),
    ]
    for wanted, name, a, b in asked:
        if wanted and a != b:
            raise _Mismatch(f"assert_close: attribute '{name}' differs:{where} {a} != {b}")


def _tolerances(actual: Tensor, expected: Tensor, bounds: Any) -> tuple[float, float]:
    if bounds[0] is not None:
        return bounds
    found = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
    return max(r for r, _ in found), max(a for _, a in found)


def _check_values(
    actual: Tensor, expected: Tensor, bounds: Any, equal_nan: bool, where: str, kind: str
) -> None:
    rtol, atol = _tolerances(actual, expected, bounds)
    common = fb.promote_types(actual.dtype, expected.dtype)
    wide = common if common not in (fb.float16, fb.bfloat16) else fb.float32
    a, b = actual.detach().to("cpu", wide), expected.detach().to("cpu", wide)
    if wide == fb.bool or (not (wide.is_floating_point or wide.is_complex) and rtol == atol == 0):
        wrong = a != b
    else:
        wrong = ~fb.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if wrong.any().item():
        raise _Mismatch(_report(a, b, wrong, (rtol, atol), where, kind))


def _report(a: Tensor, b: Tensor, wrong: Tensor, bounds: tuple[float, float], where: str, kind: str) -> str:
    wide = fb.complex128 if a.dtype.is_complex else fb.float64
    off = (a.to(wide) - b.to(wide)).abs()
    if kind == "Scalars":
        head = f"Scalars are not {'close' if any(bounds) else 'equal'}!{where}\n\n"
        return f"{head}Expected {b.item()} but got {a.item()}.\nAbsolute difference: {off.item()}" + _allowed(
            bounds[1]
        )
    count, total = int(wrong.sum().item()), wrong.numel()
    lines = [
        f"Tensor-likes are not {'close' if any(bounds) else 'equal'}!{where}\n",
        f"Mismatched elements: {count} / {total} ({100 * count / total:.1f}%)",
    ]
    for name, value, allowed in (
        ("absolute", off, bounds[1]),
        ("relative", off / b.to(wide).abs(), bounds[0]),
    ):
        masked = fb.where(wrong, value, 0.0).reshape(-1)
        at = int(masked.argmax().item())
        place = _place(at, tuple(wrong.shape))
        lines.append(f"Greatest {name} difference: {masked[at].item()} at index {place}{_allowed(allowed)}")
    return "\n".join(lines)


def _allowed(bound: float) -> str:
    return f" (up to {bound} allowed)" if bound else ""


def _place(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    place = []
    for size in reversed(shape):
        place.append(at % size)
        at //= size
    return tuple(reversed(place))


def make_tensor(
    *shape: Any,
    dtype: fb.dtype,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Create a tensor of random values in [low, high).

    Args:
        *shape: the sizes, one by one or as one sequence.
        dtype: the dtype.
        device: the device.
        low: the lower bound. None means -9, or 0 for unsigned integers and bool.
        high: the upper bound. None means 9, or 2 for bool.
        requires_grad: whether to record operations on the tensor; for floating and complex dtypes only.
        noncontiguous: whether the tensor is every other element of a larger one.
        exclude_zero: whether 0 is replaced by the smallest positive number of the dtype, or 1 for integers.
        memory_format: the order of elements in memory; it excludes `noncontiguous`.
    Returns: the tensor.
    Raises: ValueError if `low` is not below `high`, for gradients of integers, or options that exclude each
        other.

    Example:
        >>> flambeau.testing.make_tensor(2, 3, dtype=flambeau.int64, device="cpu", low=0, high=1)
        tensor([[0, 0, 0],
                [0, 0, 0]])
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    ends = (0, 2) if dtype == fb.bool else (-9, 9) if dtype.is_signed else (0, 9)
    first, last = ends[0] if low is None else low, ends[1] if high is None else high
    if first >= last:
        raise ValueError(f"make_tensor: expected low < high, got {first} and {last}")
    real = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not real:
        raise ValueError(
            f"make_tensor: expected a floating or complex dtype for requires_grad=True, got {dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: expected noncontiguous or memory_format, got both")
    count = math.prod(sizes) * (2 if noncontiguous else 1)
    if real:
        parts = [fb.rand(count, dtype=fb.float64) * (last - first) + first for _ in range(2)]
        values = fb.complex(*parts) if dtype.is_complex else parts[0]
    else:
        values = fb.randint(math.ceil(first), math.ceil(last), (count,))
    result = values.to(dtype)[:: 2 if noncontiguous else 1].to(device)
    if noncontiguous and result.numel() > 1:
        result = result.as_strided(sizes, _doubled_strides(sizes))
    else:
        result = result.reshape(sizes)
    if exclude_zero:
        result[result == 0] = fb.finfo(dtype).tiny if real else 1
    if memory_format is not None:
        result = result.clone(memory_format=memory_format)
    return result.requires_grad_(requires_grad)


def _doubled_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 2
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


__getattr__, __dir__ = attributes(__name__, {"FileCheck": "flambeau._surface.file_check"})
