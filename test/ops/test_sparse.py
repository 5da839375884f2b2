"""Sparse tensors at the borders: no entries, repeated entries, special values, wrong indices.

Whole programs over sparse tensors are in test/sparse.
"""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from side_by_side import refuse_alike, same

INDICES = np.array([[0, 1, 1, 0], [2, 0, 0, 2]])
VALUES = np.array([1.0, np.nan, 3.0, np.inf])


def made(m, i, v):
    return m.sparse_coo_tensor(i, v, (2, 3))


def test_repeated_entries_and_special_values():
    same(lambda m, i, v: made(m, i, v).to_dense(), INDICES, VALUES)

    def sorted_parts(m, i, v):
        c = made(m, i, v).coalesce()
        return [c.indices(), c.values(), c.is_coalesced(), c._nnz()]

    same(sorted_parts, INDICES, VALUES)
    same(lambda m, i, v: (made(m, i, v) + made(m, i, v)).to_dense(), INDICES, VALUES)


def test_dense_and_back():
    x = np.array([[0.0, -0.0, np.nan], [np.inf, 0.0, 2.0]])
    same(lambda m, a: [a.to_sparse().indices(), a.to_sparse().values(), a.t().to_sparse().to_dense()], x)
    same(
        lambda m, a: [
            (a * 0).to_sparse()._nnz(),
            a[:0].to_sparse().to_dense(),
            a[0, 2].to_sparse().to_dense(),
        ],
        x,
    )


def test_no_entries():
    def program(m, i, v):
        s = made(m, i[:, :0], v[:0])
        return [s.to_dense(), s.coalesce()._nnz(), m.mm(s, m.ones(3, 2, dtype=v.dtype)), s.sum()]

    same(program, INDICES, VALUES)


def test_products():
    v = np.array([1.0, 2.0, 3.0, 4.0])
    same(lambda m, i, v: m.sparse.mm(made(m, i, v), m.arange(6.0, dtype=v.dtype).reshape(3, 2)), INDICES, v)
    same(lambda m, i, v: m.sparse.mm(made(m, i, v), made(m, i, v).t()).to_dense(), INDICES, v)


@pytest.mark.parametrize("index", [3, -1, 2**40])
def test_indices_outside(index):
    """PyTorch does not check them here and may write outside its memory."""
    with pytest.raises(RuntimeError, match="ind(ex|ices)"):
        made(fb, fb.tensor([[0], [index]]), fb.ones(1)).to_dense()


def test_wrong_parts():
    refuse_alike(lambda m, i, v: made(m, i, v[:2]), INDICES, VALUES)
    refuse_alike(lambda m, i, v: made(m, i, v).values(), INDICES, VALUES)
    refuse_alike(lambda m, i, v: m.sparse.mm(made(m, i, v), m.ones(2, 2, dtype=v.dtype)), INDICES, VALUES)
