"""Creation and elementwise functions whose arguments differ from flambeau's own."""

from __future__ import annotations

import builtins
from typing import Any

import flambeau as _fb
from flambeau._C import Tensor, dtype
from flambeau.array_api._dtypes import isdtype


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: dtype | None = None, device: Any = None
) -> Tensor:
    """Return a matrix with ones on its k-th diagonal."""
    columns = n_rows if n_cols is None else n_cols
    result = _fb.zeros(n_rows, columns, dtype=dtype, device=device)
    if -n_rows < k < columns:
        result.diagonal(k).fill_(1)
    return result


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    endpoint: builtins.bool = True,
) -> Tensor:
    """Return `num` numbers at equal distances, `stop` among them if `endpoint`."""
    count = num if endpoint else num + 1
    return _fb.linspace(start, stop, count, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return grids of coordinates; the standard's default exchanges the first two dimensions."""
    return _fb.meshgrid(*arrays, indexing=indexing) if arrays else ()


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the part on and below the k-th diagonal, zero elsewhere."""
    return _fb.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the part on and above the k-th diagonal, zero elsewhere."""
    return _fb.triu(x, k)


# --- elementwise ----


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Return `x` limited to [min, max]; the dtype of `x` is kept. Without bounds: a copy."""
    if min is None and max is None:
        return x.clone()
    bounds = [b.to(x.dtype) if isinstance(b, Tensor) else b for b in (min, max)]
    if builtins.any(isinstance(b, Tensor) for b in bounds):
        shaped = [b if b is None or isinstance(b, Tensor) else _fb.full((), b, dtype=x.dtype) for b in bounds]
        return _fb.clamp(x, *shaped)
    return _fb.clamp(x, *bounds).to(x.dtype)


def _integers_kept(name: str) -> Any:
    function = getattr(_fb, name)

    def rounded(x: Tensor, /) -> Tensor:
        return x.clone() if isdtype(x.dtype, "integral") else function(x)

    rounded.__name__ = name
    rounded.__doc__ = f"Return {name} of each element; integers are their own."
    return rounded


ceil, floor, trunc, round = map(_integers_kept, ("ceil", "floor", "trunc", "round"))
