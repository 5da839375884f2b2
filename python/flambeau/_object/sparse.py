"""Tensors of layout sparse_coo: how they are made, and the methods that only they have.

`hspmm`, `sspaddmm` and `native_norm` are in Python because public operators of the specification have
generated tests, whose samples are strided. They call `mm`, `unique`, `index_select`, `_sparse_coo_tensor`,
`add` and `norm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._object.printing import described

__all__ = [
    "dsmm",
    "hsmm",
    "hspmm",
    "resize_as_sparse_",
    "saddmm",
    "smm",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "spmm",
    "sspaddmm",
]

_functions = _C._functions
COMPRESSED = (
    "expected layout strided or sparse_coo, got a compressed sparse layout (csr, csc, bsr, bsc), for which "
    "there are no tensors; to_sparse() returns sparse_coo"
)


class Invariants:
    """What `sparse.check_sparse_tensor_invariants` switches."""

    enabled = False


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Make a sparse tensor: element ``indices[:, i]`` is ``values[i]``, entries of one place add up.

    Indices are always checked to lie within `size`, whatever `check_invariants` says.
    Without indices it has no entry: ``sparse_coo_tensor(size=(2, 3))`` and ``sparse_coo_tensor((2, 3))``.

    Args:
        indices: integers, (sparse dimensions, entries). Sizes in their place make a tensor without entries.
        values: (entries, dense sizes...).
        size: sizes of the tensor; None: the smallest that hold the indices.
        dtype: of the values; None: theirs.
        device: only the CPU has sparse tensors.
        pin_memory: accepted for PyTorch's programs.
        requires_grad: make the result a leaf that asks for gradients.
        check_invariants: also check that entries are in order where is_coalesced=True says so; None:
            as `sparse.check_sparse_tensor_invariants` says.
        is_coalesced: whether entries are known to be in ascending order without duplicates.
    Raises: RuntimeError for an index out of range and for shapes that do not fit.
    """
    if values is None:  # sparse_coo_tensor(size)
        size = indices if size is None else size
        size = (size,) if isinstance(size, int) else tuple(size)
        indices = _functions.empty((len(size), 0), dtype=_C.int64)
        values = _functions.empty((0,), dtype=dtype)
    given = indices if isinstance(indices, Tensor) else _C.tensor(indices, None, None)
    columns = given.to(_C.int64)
    if columns.dim() == 1 and columns.numel() == 0:
        columns = columns.reshape(0 if size is None else len(size), 0)
    entries = values if isinstance(values, Tensor) else _C.tensor(values, dtype, None)
    if requires_grad:
        entries = entries.detach()
    if dtype is not None:
        entries = entries.to(dtype)
    if device is not None:
        entries, columns = entries.to(device), columns.to(device)
    if size is None:
        size = _smallest(columns, entries)
    if entries.dim() == 0:
        entries = entries.reshape(1)
    out = _functions._sparse_coo_tensor(columns, entries, tuple(size), bool(is_coalesced))
    if is_coalesced and (Invariants.enabled if check_invariants is None else check_invariants):
        _check_order(columns, tuple(size))
    return out.requires_grad_() if requires_grad else out


def _smallest(indices: Tensor, values: Tensor) -> tuple[int, ...]:
    if indices.dim() != 2 or indices.shape[1] == 0:
        raise RuntimeError("sparse_coo_tensor: expected size for indices without entries, got None")
    if int(indices.min()) < 0:
        raise RuntimeError("sparse_coo_tensor: expected indices of 0 or more, found negative index")
    return (*(int(n) + 1 for n in indices.max(1)[0]), *values.shape[1:])


def _check_order(indices: Tensor, size: tuple[int, ...]) -> None:
    ones = _functions.ones((indices.shape[1],))
    sparse = size[: indices.shape[0]]
    sorted_indices = _functions._indices(
        _functions._coalesce(_functions._sparse_coo_tensor(indices, ones, sparse))
    )
    if sorted_indices.shape != indices.shape or not bool((sorted_indices == indices).all()):
        raise RuntimeError(
            "sparse_coo_tensor: expected ascending indices without duplicates for is_coalesced=True, "
            "got others"
        )


class SparseMethods:
    """Methods of Tensor about its layout."""

    __slots__ = ()

    def to_sparse(
        self: Any,
        sparse_dim: int | None = None,
        *,
        layout: Any = None,
        blocksize: Any = None,
        dense_dim: int | None = None,
    ) -> Tensor:
        """Return the elements that are not 0 as a coalesced tensor of layout sparse_coo.

        Args:
            sparse_dim: how many leading dimensions are sparse; None: all.
            layout: only sparse_coo is offered.
            blocksize: of block layouts; None here.
            dense_dim: of compressed layouts; None here.
        """
        if layout not in (None, _C.sparse_coo) or blocksize is not None or dense_dim is not None:
            raise NotImplementedError(f"to_sparse: {COMPRESSED}")
        if self.is_sparse and sparse_dim in (None, self.sparse_dim()):
            return self
        return _functions._to_sparse(self, self.dim() if sparse_dim is None else sparse_dim)

    def to_sparse_coo(self: Any) -> Tensor:
        """Return the tensor in layout sparse_coo."""
        return self.to_sparse()

    def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """Return a strided tensor of the same elements, the tensor itself if it is strided.

        Args:
            dtype: of the result.
            masked_grad: whether the gradient of a sparse tensor has its entries alone; None: yes.
        """
        out = _functions._to_dense(self, masked_grad is not False) if self.is_sparse else self
        return out if dtype is None else out.to(dtype)

    def coalesce(self: Any) -> Tensor:
        """Return the tensor with entries in ascending order and values of one place added up."""
        return self if self.is_sparse and self.is_coalesced() else _functions._coalesce(self)

    def is_coalesced(self: Any) -> bool:
        """Whether entries are known to be in ascending order without duplicates."""
        return bool(self._sparse_info("is_coalesced")[3])

    def indices(self: Any) -> Tensor:
        """Return the indices of a coalesced tensor's entries, (sparse dimensions, entries)."""
        _require_coalesced(self, "indices")
        return _functions._indices(self)

    def values(self: Any) -> Tensor:
        """Return the values of a coalesced tensor's entries; gradients flow through."""
        _require_coalesced(self, "values")
        return _functions._sparse_values(self)

    def _nnz(self: Any) -> int:
        """Return the number of entries."""
        return int(self._sparse_info("_nnz")[2])

    def sparse_dim(self: Any) -> int:
        """Return the number of sparse dimensions: 0 for strided tensors."""
        return int(self._sparse_info("sparse_dim")[0]) if self.is_sparse else 0

    def dense_dim(self: Any) -> int:
        """Return the number of dense dimensions: all of strided tensors."""
        return int(self._sparse_info("dense_dim")[1]) if self.is_sparse else self.dim()

    def _dimI(self: Any) -> int:
        """Return `sparse_dim()`."""
        return self.sparse_dim()

    def _dimV(self: Any) -> int:
        """Return `dense_dim()`."""
        return self.dense_dim()

    def sparse_mask(self: Any, mask: Tensor) -> Tensor:
        """Return the elements at the entries of the sparse tensor `mask`, as a sparse tensor."""
        return _functions._sparse_mask(self, mask, mask.is_sparse and mask.is_coalesced())

    def resize_as_sparse_(self: Any, the_template: Tensor) -> Tensor:
        """Give a sparse tensor the sizes and the numbers of sparse and dense dimensions of another one."""
        if not the_template.is_sparse:
            raise RuntimeError(
                f"resize_as_sparse_: expected a sparse template, got {described(the_template)}"
            )
        return self.sparse_resize_(the_template.shape, the_template.sparse_dim(), the_template.dense_dim())

    def saddmm(self: Any, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * self + alpha * (mat1 @ mat2)`` in layout sparse_coo."""
        return sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def smm(self: Any, mat2: Tensor) -> Tensor:
        """Return the product with a matrix in layout sparse_coo."""
        return _functions.mm(self, mat2).to_sparse()

    def sspaddmm(self: Any, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * self + alpha * (mat1 @ mat2)`` in layout sparse_coo."""
        return sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def sparse_resize_(self: Any, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
        """Give a sparse tensor other sizes; entries stay where they are.

        Args:
            size: of the tensor; sizes of a tensor with entries may only grow. Values are filled with 0.
            sparse_dim: number of sparse dimensions; that of a tensor with entries stays.
            dense_dim: number of dense dimensions; the same.
        """
        _require_sparse("sparse_resize_", "self", self, NotImplementedError)
        size = tuple(size)
        if self._nnz() == 0:
            return self.sparse_resize_and_clear_(size, sparse_dim, dense_dim)
        if (sparse_dim, dense_dim) != (self.sparse_dim(), self.dense_dim()):
            raise RuntimeError(
                f"sparse_resize_: a tensor with entries keeps its {self.sparse_dim()} sparse and "
                f"{self.dense_dim()} dense dimensions, got {sparse_dim} and {dense_dim}"
            )
        grows = len(size) == self.dim() and all(new >= old for new, old in zip(size, self.shape, strict=True))
        if not grows:
            raise RuntimeError(
                f"sparse_resize_: sizes of a tensor with entries can only grow, from {tuple(self.shape)}, "
                f"got {size}"
            )
        values = _grown(self._values(), size[sparse_dim:])
        return _replaced(self, self._indices(), values, size, self.is_coalesced())

    def sparse_resize_and_clear_(self: Any, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
        """Give a sparse tensor other sizes and no entry.

        Args:
            size: of the tensor.
            sparse_dim: number of sparse dimensions.
            dense_dim: number of dense dimensions.
        """
        _require_sparse("sparse_resize_and_clear_", "self", self, NotImplementedError)
        size = tuple(size)
        if sparse_dim < 0 or dense_dim < 0 or sparse_dim + dense_dim != len(size):
            raise RuntimeError(
                f"sparse_resize_and_clear_: expected sparse_dim + dense_dim to be {len(size)}, "
                f"got {sparse_dim} and {dense_dim}"
            )
        indices = _functions.empty((sparse_dim, 0), dtype=_C.int64)
        values = _functions.empty((0, *size[sparse_dim:]), dtype=self.dtype)
        return _replaced(self, indices, values, size, True)

    def _coalesced_(self: Any, coalesced: bool) -> Tensor:
        """Claim that entries are, or are not, in ascending order without duplicates."""
        return _replaced(self, self._indices(), self._values(), self.shape, coalesced)


def _grown(values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Values of other dense sizes: the elements stay in place in memory, as those of `resize_` do."""
    shape = (values.shape[0], *sizes)
    if shape == tuple(values.shape):
        return values
    grown = _functions.zeros(shape, dtype=values.dtype)
    grown.view(-1)[: values.numel()] = values.reshape(-1)
    return grown


def _replaced(
    tensor: Any, indices: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool
) -> Tensor:
    parts = _functions._sparse_coo_tensor(indices, values, tuple(size), is_coalesced)
    return tensor.copy_(parts)


def _require_coalesced(tensor: Any, name: str) -> None:
    if not tensor._sparse_info(name)[3]:
        raise RuntimeError(
            f"{name}: an uncoalesced tensor may have several values in a place; call .coalesce() first"
        )


def _refusing(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{name}: {COMPRESSED}")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Raise NotImplementedError: compressed layouts do not exist here."
    return method


for _name in "to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc".split():
    setattr(SparseMethods, _name, _refusing(_name))
    setattr(SparseMethods, f"_{_name}", _refusing(f"_{_name}"))
for _name in "crow_indices col_indices ccol_indices row_indices".split():
    setattr(SparseMethods, _name, _refusing(_name))


def _factory(name: str) -> Any:
    def make(*args: Any, **kwargs: Any) -> Tensor:
        raise NotImplementedError(f"{name}: {COMPRESSED}")

    make.__name__ = make.__qualname__ = name
    make.__doc__ = "Raise NotImplementedError: compressed layouts do not exist here."
    return make


sparse_csr_tensor = _factory("sparse_csr_tensor")
sparse_csc_tensor = _factory("sparse_csc_tensor")
sparse_bsr_tensor = _factory("sparse_bsr_tensor")
sparse_bsc_tensor = _factory("sparse_bsc_tensor")
sparse_compressed_tensor = _factory("sparse_compressed_tensor")
crow_indices_copy = _factory("crow_indices_copy")
col_indices_copy = _factory("col_indices_copy")
ccol_indices_copy = _factory("ccol_indices_copy")
row_indices_copy = _factory("row_indices_copy")


def indices_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of a coalesced tensor's indices."""
    return input.indices().clone() if out is None else out.copy_(input.indices())


def values_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of a coalesced tensor's values."""
    return input.values().clone() if out is None else out.copy_(input.values())


def _require_sparse(name: str, argument: str, tensor: Tensor, error: type[Exception]) -> None:
    if not tensor.is_sparse:
        raise error(f"{name}: expected {argument!r} to have layout sparse_coo, got {described(tensor)}")


def _require_factors(name: str, mat1: Tensor, mat2: Tensor) -> None:
    """Check that a sparse and a strided matrix can be multiplied."""
    if mat2.is_sparse:
        raise RuntimeError(f"{name}: expected a strided 'mat2', got {described(mat2)}")
    if mat1.dim() != 2 or mat2.dim() != 2 or mat1.shape[1] != mat2.shape[0]:
        pair = f"{described(mat1)} and {described(mat2)}"
        raise RuntimeError(f"{name}: expected matrices that can be multiplied, got {pair}")


def resize_as_sparse_(input: Tensor, the_template: Tensor) -> Tensor:
    """Give `input` the sizes and the numbers of sparse and dense dimensions of another sparse tensor."""
    return input.resize_as_sparse_(the_template)


def smm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse and a strided matrix in layout sparse_coo."""
    return input.smm(mat2)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse and a strided matrix."""
    from flambeau.sparse import mm

    return mm(input, mat2)


dsmm = spmm


def hspmm(mat1: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the product of a sparse and a strided matrix, with an entry for each row where `mat1` has any.

    Args:
        mat1: sparse matrix (n, k).
        mat2: strided matrix (k, m).
        out: sparse tensor that the result is written to.
    """
    _require_sparse("hspmm", "mat1", mat1, NotImplementedError)
    _require_factors("hspmm", mat1, mat2)
    from flambeau import unique

    rows = unique(mat1._indices()[0])
    product = _functions.mm(mat1, mat2).index_select(0, rows)
    made = sparse_coo_tensor(rows.unsqueeze(0), product, (mat1.shape[0], mat2.shape[1]), is_coalesced=True)
    return made if out is None else out.copy_(made)


def hsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse and a strided matrix as a tensor with sparse rows."""
    return hspmm(input, mat2)


def sspaddmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``beta * input + alpha * (mat1 @ mat2)`` in layout sparse_coo.

    Args:
        input: sparse matrix (n, m).
        mat1: sparse matrix (n, k).
        mat2: strided matrix (k, m).
        beta: scale of `input`.
        alpha: scale of the product.
        out: sparse tensor that the result is written to.
    """
    _require_sparse("sspaddmm", "input", input, RuntimeError)
    _require_sparse("sspaddmm", "mat1", mat1, RuntimeError)
    _require_factors("sspaddmm", mat1, mat2)
    product = hspmm(mat1, mat2).to_sparse(2)
    made = (input * beta).add(product, alpha=alpha)
    return made if out is None else out.copy_(made)


saddmm = sspaddmm


def native_norm(
    input: Tensor,
    p: float | None = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:
    """Return the norm of order `p` of all elements of a sparse tensor.

    Args:
        input: sparse tensor of floating or complex dtype.
        p: order of the norm; None: 2.
        dim: None, no dimensions, or all of them.
        keepdim: PyTorch has this argument; only False is supported.
        dtype: PyTorch has this argument; only None is supported.
    """
    _require_sparse("native_norm", "input", input, NotImplementedError)
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"native_norm: expected a floating or complex dtype, got {described(input)}")
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if dims and len(dims) != input.dim():
        raise RuntimeError(
            f"native_norm: expected no dim or all dimensions, got {dims} for {described(input)}"
        )
    if keepdim or dtype is not None:
        raise RuntimeError(f"native_norm: expected keepdim=False and dtype=None, got {keepdim} and {dtype}")
    norm: Any = input.norm
    result: Tensor = norm(2 if p is None else p)
    return result
