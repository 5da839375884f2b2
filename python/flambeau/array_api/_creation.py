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
    """Create a matrix with ones on one diagonal and zeros elsewhere.

    Args:
        n_rows: the number of rows.
        n_cols: the number of columns. Default: `n_rows`.
        k: the diagonal: above the main one if positive, below it if negative.
        dtype: the dtype. Default: the default dtype.
        device: the device. Default: the CPU.
    Returns: the matrix.

    Example:
        >>> flambeau.array_api.eye(2, 3, k=1)
        tensor([[0., 1., 0.],
                [0., 0., 1.]])
    """
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
    """Create numbers at equal distances.

    Args:
        start: the first number.
        stop: the end of the interval.
        num: how many numbers.
        dtype: the dtype. Default: the default dtype.
        device: the device. Default: the CPU.
        endpoint: whether `stop` is the last number. If False, the interval is half open.
    Returns: a vector of `num` numbers.

    Example:
        >>> flambeau.array_api.linspace(0.0, 1.0, 4, endpoint=False)
        tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    count = num if endpoint else num + 1
    return _fb.linspace(start, stop, count, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Create grids of coordinates from vectors.

    Args:
        *arrays: the vectors.
        indexing: "xy" exchanges the first two dimensions of the grids; "ij" does not.
    Returns: one grid for each vector.

    Example:
        >>> flambeau.array_api.meshgrid(flambeau.arange(2), flambeau.arange(3))[0]
        tensor([[0, 1],
                [0, 1],
                [0, 1]])
    """
    return _fb.meshgrid(*arrays, indexing=indexing) if arrays else ()


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Copy the lower triangle of matrices, with zeros elsewhere.

    Args:
        x: the matrices, of shape (..., m, n).
        k: the highest diagonal that is copied.
    Returns: an array of the shape of `x`.

    Example:
        >>> flambeau.array_api.tril(flambeau.ones(2, 2))
        tensor([[1., 0.],
                [1., 1.]])
    """
    return _fb.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Copy the upper triangle of matrices, with zeros elsewhere.

    Args:
        x: the matrices, of shape (..., m, n).
        k: the lowest diagonal that is copied.
    Returns: an array of the shape of `x`.

    Example:
        >>> flambeau.array_api.triu(flambeau.ones(2, 2))
        tensor([[1., 1.],
                [0., 1.]])
    """
    return _fb.triu(x, k)


# --- elementwise ----


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Limit each element to [min, max].

    Args:
        x: the array.
        min: the lower bound, a number or an array; None for none.
        max: the upper bound, a number or an array; None for none.
    Returns: an array of the dtype of `x`; a copy if there are no bounds.

    Example:
        >>> flambeau.array_api.clip(flambeau.tensor([-2, 0, 5]), 0, 3)
        tensor([0, 0, 3])
    """
    if min is None and max is None:
        return x.clone()
    bounds = [b.to(x.dtype) if isinstance(b, Tensor) else b for b in (min, max)]
    if builtins.any(isinstance(b, Tensor) for b in bounds):
        shaped = [b if b is None or isinstance(b, Tensor) else _fb.full((), b, dtype=x.dtype) for b in bounds]
        return _fb.clamp(x, *shaped)
    return _fb.clamp(x, *bounds).to(x.dtype)


_ROUNDED = """Compute {what} each element; integers are their own.

    Args:
        x: the array.
    Returns: an array of the shape and dtype of `x`.

    Example:
        >>> flambeau.array_api.{name}(flambeau.tensor([-1.5, 0.2]))
        tensor({values})
    """


def _integers_kept(name: str, what: str, values: str) -> Any:
    function = getattr(_fb, name)

    def rounded(x: Tensor, /) -> Tensor:
        return x.clone() if isdtype(x.dtype, "integral") else function(x)

    rounded.__name__ = rounded.__qualname__ = name
    rounded.__doc__ = _ROUNDED.format(name=name, what=what, values=values)
    return rounded


ceil = _integers_kept("ceil", "the smallest integer not below", "[-1.,  1.]")
floor = _integers_kept("floor", "the largest integer not above", "[-2.,  0.]")
trunc = _integers_kept("trunc", "the integer part of", "[-1.,  0.]")
round = _integers_kept("round", "the nearest integer, the even one of two, of", "[-2.,  0.]")
