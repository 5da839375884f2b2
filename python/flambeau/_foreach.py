"""Operators over lists of tensors: `_foreach_add([a, b], [c, d])` is `[a + c, b + d]`.

Every function here is made from a per-tensor operator by the row that names it. Operands beside the list
are a number or tensor for all, or a list with one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor

Function = Callable[..., Any]

# Names with an in-place form; the operator has the same name.
_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg "
    "reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
_BINARY = "add sub mul div pow clamp_max clamp_min maximum minimum lerp addcdiv addcmul".split()
# In-place only, or without an in-place form.
_INPLACE_ONLY = ("copy_", "zero_")
_PLAIN = ("clone", "max", "mm", "norm", "powsum")


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _lists(name: str, args: Sequence[Any]) -> int:
    """The common length of all lists among the arguments."""
    tensors = [a for a in args if _is_list(a) and (not a or isinstance(a[0], Tensor))]
    numbers = [a for a in args if _is_list(a) and a and not isinstance(a[0], Tensor)]
    if not tensors:
        raise TypeError(f"{name}(): argument 'self' must be tuple of Tensors, not {type(args[0]).__name__}")
    count = len(tensors[0])
    if count == 0:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for other in tensors[1:]:
        if len(other) != count:
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(other)}"
            )
    for other in numbers:
        if len(other) != count:
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return count


def _rows(name: str, args: Sequence[Any]) -> list[tuple[Any, ...]]:
    """One tuple of arguments per tensor."""
    count = _lists(name, args)
    return [tuple(a[i] if _is_list(a) else a for a in args) for i in range(count)]


def _one(base: str) -> Function:
    """The operator on single tensors."""
    if base in _SPECIAL:
        return _SPECIAL[base]
    return getattr(_C._functions, base, None) or getattr(Tensor, base)


def _norm(self: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    from flambeau.linalg import vector_norm

    return vector_norm(self, ord, dtype=dtype)


def _powsum(self: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return (self if dtype is None else self.to(dtype)).abs().pow(ord).sum()


def _bounded(pick: Function, clamp: Function) -> Function:
    """Let maximum and minimum take numbers as well."""
    return lambda self, other: (pick if isinstance(other, Tensor) else clamp)(self, other)


def _with_value(base: str) -> Function:
    """Make addcdiv and addcmul: the factor is positional here."""

    def apply(self: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
        return getattr(_C._functions, base)(self, a, b, value=value)

    return apply


def _scaled(base: str) -> Function:
    """Make add and sub: they take alpha= for lists and tensors; numbers know none."""

    def apply(self: Tensor, other: Any, alpha: Any = 1) -> Tensor:
        return getattr(_C._functions, base)(self, other, alpha=alpha)

    return apply


_SPECIAL: dict[str, Function] = {
    "norm": _norm,
    "powsum": _powsum,
    "add": _scaled("add"),
    "sub": _scaled("sub"),
    "addcdiv": _with_value("addcdiv"),
    "addcmul": _with_value("addcmul"),
    "maximum": _bounded(_C._functions.maximum, _C._functions.clamp_min),
    "minimum": _bounded(_C._functions.minimum, _C._functions.clamp_max),
}


def _extremum_(pick: Function, clamp: Function) -> Function:
    return lambda self, other: (
        self.copy_(pick(self, other)) if isinstance(other, Tensor) else clamp(self, other)
    )


_INPLACE: dict[str, Function] = {
    "add": lambda self, other, alpha=1: self.add_(other, alpha=alpha),
    "sub": lambda self, other, alpha=1: self.sub_(other, alpha=alpha),
    "addcdiv": lambda self, a, b, value=1: self.addcdiv_(a, b, value=value),
    "addcmul": lambda self, a, b, value=1: self.addcmul_(a, b, value=value),
    "maximum": _extremum_(_C._functions.maximum, Tensor.clamp_min_),
    "minimum": _extremum_(_C._functions.minimum, Tensor.clamp_max_),
}


def _per_item(args: Sequence[Any], base: str) -> list[Any]:
    """Numbers of a tensor that stands for a list, which addcdiv and addcmul accept."""
    if base in ("addcdiv", "addcmul") and len(args) == 4 and isinstance(args[3], Tensor):
        return [*args[:3], args[3].tolist()]
    return list(args)


_KEYWORDS = ("scalar", "scalars", "other", "tensor", "exponent", "tensors1", "tensor1", "tensor2", "weight",
             "weights", "value", "src", "mat2", "ord")  # fmt: skip


def _positional(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Operands given by keyword, behind the others in the order of the schemas."""
    named = [kwargs.pop("self")] if "self" in kwargs else []
    return [*named, *args, *(kwargs.pop(k) for k in _KEYWORDS if k in kwargs)]


def _functional(base: str) -> Function:
    name, one = f"_foreach_{base}", _one(base)

    def apply(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        rows = _rows(name, _per_item(_positional(args, kwargs), base))
        return tuple(one(*row, **kwargs) for row in rows)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"`{base}` of each tensor of a list."
    return apply


def _inplace(base: str) -> Function:
    name, bare = f"_foreach_{base}", base.removesuffix("_")
    method = _INPLACE.get(bare) or getattr(Tensor, base)

    def apply(*args: Any, **kwargs: Any) -> list[Tensor]:
        given = _per_item(_positional(args, kwargs), bare)
        for row in _rows(name, given):
            method(*row, **kwargs)
        return given[0]

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"`{base}` of each tensor of a list, in place."
    return apply


def _functions() -> dict[str, Function]:
    found = {f"_foreach_{base}": _functional(base) for base in (*_UNARY, *_BINARY, *_PLAIN)}
    found |= {f"_foreach_{base}_": _inplace(f"{base}_") for base in (*_UNARY, *_BINARY)}
    return found | {f"_foreach_{base}": _inplace(base) for base in _INPLACE_ONLY}


globals().update(_functions())
