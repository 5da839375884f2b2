"""Functions of tensors of layout sparse_coo."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._C import _functions
from flambeau._loading.lazy import attributes
from flambeau._object.printing import described
from flambeau._object.sparse import COMPRESSED, Invariants
from flambeau._state.defaults import sparse_types
from flambeau.sparse._gradcheck import strided_inputs

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
]


def mm(input: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """Multiply a sparse matrix by a strided or a sparse one.

    Formula:
        y[i, j] = sum over p of input[i, p] * mat2[p, j]

    The gradient of `input` is sparse with the entries of `input`; that of a strided `mat2` is strided.

    Args:
        input: sparse matrix (n, k).
        mat2: matrix (k, m).
        reduce: None; PyTorch has reductions for compressed layouts alone.

    Shape: ``(n, k)``, ``(k, m)`` -> ``(n, m)``; sparse if `mat2` is.

    Raises: NotImplementedError for a `reduce`; RuntimeError for sizes that do not fit.

    Example:
        >>> a = flambeau.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
        >>> flambeau.sparse.mm(a, flambeau.tensor([[1.0], [3.0]]))
        tensor([[6.],
                [0.]])
    """
    if reduce is not None:
        raise NotImplementedError(f"sparse.mm: reduce={reduce!r}: {COMPRESSED}")
    if input.is_sparse and not mat2.is_sparse and mat2.is_floating_point():
        return _functions._sparse_mm(input, mat2)
    return _functions.mm(input, mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Return ``beta * mat + alpha * (mat1 @ mat2)`` with a sparse `mat1`.

    Args:
        mat: strided matrix (n, m), or what broadcasts to it.
        mat1: sparse matrix (n, k).
        mat2: strided matrix (k, m).
        beta: scale of `mat`; 0 ignores it.
        alpha: scale of the product.

    Shape: ``(n, m)``, ``(n, k)``, ``(k, m)`` -> ``(n, m)``.

    Example:
        >>> a = flambeau.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
        >>> flambeau.sparse.addmm(flambeau.ones(2, 1), a, flambeau.tensor([[1.0], [3.0]]), beta=0.5)
        tensor([[6.5000],
                [0.5000]])
    """
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return (mat if beta == 1 else mat * beta) + product


def sampled_addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: float = 1.0,
    alpha: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """Refuse: PyTorch has this function for compressed layouts, which do not exist here.

    Args:
        input: a sparse matrix.
        mat1: a matrix.
        mat2: a matrix.
        beta: scale of `input`.
        alpha: scale of the product.
        out: where the result would be written.

    Returns: nothing; it raises.

    Raises: NotImplementedError always.

    Example:
        >>> try:
        ...     flambeau.sparse.sampled_addmm(flambeau.eye(2), flambeau.eye(2), flambeau.eye(2))
        ... except (NotImplementedError, RuntimeError) as error:
        ...     print("refused")
        refused
    """
    raise NotImplementedError(f"sampled_addmm: {COMPRESSED}")


def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """Refuse: PyTorch has this function for compressed layouts, which do not exist here.

    Args:
        input: a sparse matrix.
        other: the right side.
        left: whether the matrix stands on the left.

    Returns: nothing; it raises.

    Raises: NotImplementedError always.

    Example:
        >>> try:
        ...     flambeau.sparse.spsolve(flambeau.eye(2), flambeau.ones(2))
        ... except (NotImplementedError, RuntimeError) as error:
        ...     print("refused")
        refused
    """
    raise NotImplementedError(f"spsolve: {COMPRESSED}")


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None) -> Tensor:
    """Return a sparse matrix with the rows of `diagonals` on its diagonals.

    Row i stands on the diagonal ``offsets[i]``: element (r, c) with ``c - r == offsets[i]`` is
    ``diagonals[i, c]``. Elements outside the matrix are left out.

    Args:
        diagonals: (diagonals, length), or one diagonal.
        offsets: int64, one number for each diagonal; 0 is the main one, positive ones lie above it.
        shape: (rows, columns).
        layout: sparse_coo or None.

    Shape: `shape`.

    Raises: RuntimeError for offsets that repeat or are not int64, and for shapes that do not fit.

    Example:
        >>> diagonals = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> flambeau.sparse.spdiags(diagonals, flambeau.tensor([0, 1]), (2, 2)).to_dense()
        tensor([[1., 4.],
                [0., 2.]])
    """
    rows = _checked_diagonals(diagonals, offsets, shape, layout)
    steps = offsets.reshape(-1)
    height, width = shape
    columns = flambeau.arange(min(rows.shape[1], width))
    lines = columns - steps.clamp(-height, width).unsqueeze(1)
    diagonal, column = ((lines >= 0) & (lines < height)).nonzero().unbind(1)
    indices = flambeau.stack([lines[diagonal, column], column])
    return flambeau.sparse_coo_tensor(indices, rows[diagonal, column], (height, width))


def _checked_diagonals(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any) -> Tensor:
    rows = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    if rows.dim() != 2 or offsets.dim() > 1 or len(shape) != 2 or min(shape) < 0:
        raise RuntimeError(
            "spdiags: expected diagonals of 1 or 2 dimensions, offsets of at most 1 and a shape of 2 sizes, "
            f"got {described(diagonals)}, {described(offsets)} and {tuple(shape)}"
        )
    if offsets.dtype != flambeau.int64 or offsets.numel() != rows.shape[0]:
        raise RuntimeError(
            f"spdiags: expected offsets to be int64 and one for each of {rows.shape[0]} diagonals, got "
            f"{described(offsets)}"
        )
    if flambeau.unique(offsets).numel() != offsets.numel():
        raise RuntimeError("spdiags: Offset tensor contains duplicate values")
    if layout not in (None, flambeau.sparse_coo):
        raise (RuntimeError if layout == flambeau.strided else NotImplementedError)(
            f"spdiags: expected layout sparse_coo, got {layout}; {COMPRESSED}"
        )
    return rows


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """Sum the elements, along `dim` or all of them.

    Args:
        input: sparse tensor.
        dim: dimensions to sum; None: all, and the result is strided.
        dtype: of the result; None: that of `input`, int64 for integers that are summed over all dimensions.

    Returns: a sparse tensor of the sparse dimensions that are left, a strided one if there is none.

    Raises: RuntimeError for a dimension that is named twice, NotImplementedError for a strided tensor.

    Example:
        >>> a = flambeau.tensor([[0.0, 2.0], [1.0, 3.0]]).to_sparse()
        >>> flambeau.sparse.sum(a), flambeau.sparse.sum(a, 0).to_dense()
        (tensor(6.), tensor([1., 5.]))
    """
    _require_sparse("sum", input)
    if dtype is not None:
        input = input.to(dtype)
    entries = input.coalesce()
    values = entries.values()
    if dim is None:
        return values.sum()
    lead = input.sparse_dim()
    named = [_wrapped(d, input.dim()) for d in ([dim] if isinstance(dim, int) else dim)]
    dims = set(named)
    if len(dims) < len(named):
        raise RuntimeError(f"sparse.sum: a dimension appears multiple times in the list of dims {dim}")
    dense = [d - lead + 1 for d in dims if d >= lead]
    if dense:
        values = values.sum(dense, dtype=input.dtype)
    kept = [d for d in range(lead) if d not in dims]
    if not kept:
        return values.sum(0, dtype=input.dtype)
    sizes = [n for d, n in enumerate(input.shape) if d not in dims]
    indices = entries.indices()[flambeau.tensor(kept)]
    return flambeau.sparse_coo_tensor(indices, values, sizes).coalesce()


def _require_sparse(name: str, tensor: Tensor) -> None:
    if not tensor.is_sparse:
        raise NotImplementedError(
            f"sparse.{name}: expected a tensor of layout sparse_coo, got {described(tensor)}"
        )


def _wrapped(dim: int, ndim: int) -> int:
    if not -ndim <= dim < ndim:
        raise IndexError(f"sparse.sum: Dimension out of range: expected [{-ndim}, {ndim - 1}], got {dim}")
    return dim % ndim


def _groups(entries: Tensor, dim: int) -> tuple[Tensor, int]:
    """For each entry the number of its fiber along `dim`, and how many fibers there are."""
    others = [d for d in range(entries.sparse_dim()) if d != dim]
    indices = entries.indices()
    if not others:
        return flambeau.zeros(indices.shape[1], dtype=flambeau.int64), 1
    found, group = flambeau.unique(indices[flambeau.tensor(others)], dim=1, return_inverse=True)
    return group, found.shape[1]


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Return the logarithm of softmax along `dim` over the entries; absent elements count as minus infinity.

    Args:
        input: sparse tensor of a floating dtype.
        dim: dimension to normalise.
        dtype: cast to this first.

    Shape: the shape of the input.

    Raises: NotImplementedError for another layout or dtype; IndexError for a `dim` out of range.

    Example:
        >>> a = flambeau.tensor([[0.0, 2.0], [1.0, 1.0]]).to_sparse()
        >>> flambeau.sparse.log_softmax(a, 1).values()
        tensor([ 0.0000, -0.6931, -0.6931])
    """
    _require_sparse("softmax", input)
    entries = (input if dtype is None else input.to(dtype)).coalesce()
    if not entries.is_floating_point():
        raise NotImplementedError(
            f"sparse.softmax: expected a floating dtype, got {described(input)}; pass dtype="
        )
    dim = _wrapped(dim, entries.dim())
    values = entries.values()
    if dim >= entries.sparse_dim():
        result = values.log_softmax(dim - entries.sparse_dim() + 1)
    else:
        group, count = _groups(entries, dim)
        sizes = (count, *values.shape[1:])
        place = group.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
        low = flambeau.full(sizes, -float("inf"), dtype=values.dtype)
        top = low.scatter_reduce(0, place, values.detach(), "amax").index_select(0, group)
        shifted = values - top  # NaN for a fiber with an infinite maximum, as in PyTorch
        total = flambeau.zeros(sizes, dtype=values.dtype).index_add(0, group, shifted.exp())
        result = shifted - total.log().index_select(0, group)
    return flambeau.sparse_coo_tensor(entries.indices(), result, entries.shape, is_coalesced=True)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Return softmax along `dim` over the entries; absent elements count as minus infinity and stay 0.

    Args:
        input: sparse tensor of a floating dtype.
        dim: dimension to normalise.
        dtype: cast to this first.

    Shape: the shape of the input.

    Example:
        >>> a = flambeau.tensor([[0.0, 2.0], [1.0, 1.0]]).to_sparse()
        >>> flambeau.sparse.softmax(a, 1).to_dense()
        tensor([[0.0000, 1.0000],
                [0.5000, 0.5000]])
    """
    logarithms = log_softmax(input, dim, dtype=dtype)
    values = logarithms.values().exp()
    return flambeau.sparse_coo_tensor(logarithms.indices(), values, logarithms.shape, is_coalesced=True)


class check_sparse_tensor_invariants:
    """Context and decorator that switches optional checks of the tensors that are made.

    Indices are always checked to lie within the sizes, since one outside would reach memory. What can be
    switched on is that the entries of ``is_coalesced=True`` are in ascending order without duplicates.

    Args:
        enable: whether to check.

    Example:
        >>> with flambeau.sparse.check_sparse_tensor_invariants():
        ...     flambeau.sparse.check_sparse_tensor_invariants.is_enabled()
        True
    """

    def __init__(self, enable: bool = True) -> None:
        self._wanted = bool(enable)
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether the optional checks are made."""
        return Invariants.enabled

    @staticmethod
    def enable() -> None:
        """Make the optional checks."""
        Invariants.enabled = True

    @staticmethod
    def disable() -> None:
        """Make only the checks that keep memory safe."""
        Invariants.enabled = False

    def __enter__(self) -> None:
        self._before.append(Invariants.enabled)
        Invariants.enabled = self._wanted

    def __exit__(self, *exc: object) -> None:
        Invariants.enabled = self._before.pop()

    def __call__(self, function: Any) -> Any:
        """Return the function with the checks switched while it runs."""

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self._wanted):
                return function(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """Return `gradcheck` for functions of sparse tensors: each is passed by its values.

    The gradient is checked at the entries alone, which is what ``masked=True`` means; without it, absent
    elements count too, and the tensors are passed as strided ones.

    Args:
        gradcheck: `autograd.gradcheck` or a function of the same parameters.

    Returns: a function with the same parameters and `masked`.

    Example:
        >>> check = flambeau.sparse.as_sparse_gradcheck(flambeau.autograd.gradcheck)
        >>> a = flambeau.eye(2, dtype=flambeau.float64).to_sparse().requires_grad_()
        >>> check(lambda x: x.to_dense() * 2, (a,), masked=True)
        True
    """

    @functools.wraps(gradcheck)
    def checked(func: Any, inputs: Any, **kwargs: Any) -> bool:
        masked = kwargs.pop("masked", False)
        return bool(gradcheck(*strided_inputs(func, inputs, masked), **kwargs))

    return checked


globals().update(sparse_types())  # FloatTensor and its like

__getattr__, __dir__ = attributes(__name__)
