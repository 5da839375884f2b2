"""Functions of `torch.sparse` and of sparse tensors: norms, sums, softmax, products, diagonals."""

import flambeau
import pytest
import scipy.sparse
from sparse_cases import agreeing, dense, gradient, hybrid, sample, square

INF, NAN = float("inf"), float("nan")


def complex_sample(t):
    return sample(t, "complex64") * (1 + 2j)


def row(t, *values):
    return t.sparse_coo_tensor([[0] * len(values), list(range(len(values)))], t.tensor(values), (2, 2))


NORMS = {
    "default": lambda t: sample(t).norm(),
    **{f"order {p}": lambda t, p=p: sample(t).norm(p) for p in (0, 0.5, 1, 2, 3, -1, INF, -INF)},
    "all dims": lambda t: sample(t).norm(2, [0, 1]),
    "no dims": lambda t: sample(t).norm(2, dim=[]),
    "one dim": lambda t: sample(t).norm(2, 0),
    "keepdim": lambda t: sample(t).norm(2, keepdim=True),
    "one dim of a hybrid": lambda t: hybrid(t).norm(2, 2),
    "hybrid": lambda t: hybrid(t).norm(INF),
    "complex": lambda t: complex_sample(t).norm(),
    "integers": lambda t: sample(t, "int64").norm(),
    "no entries": lambda t: t.zeros(2, 3, layout=t.sparse_coo).norm(),
    "no entries, inf": lambda t: t.zeros(2, 3, layout=t.sparse_coo).norm(INF),
    "nuclear": lambda t: sample(t).norm("nuc"),
    "native_norm": lambda t: [t.native_norm(sample(t)), t.native_norm(sample(t), 1, [0, 1], False, None)],
    "native_norm along a dim": lambda t: t.native_norm(sample(t), 2, [0], False, None),
    "native_norm of all dimensions": lambda t: t.native_norm(sample(t), None, [], False, None),
    "native_norm that keeps dims": lambda t: t.native_norm(sample(t), 2, [0, 1], True, None),
    "native_norm in another dtype": lambda t: t.native_norm(sample(t), 2, [0, 1], False, t.float32),
    "native_norm of strided": lambda t: t.native_norm(dense(t, 2, 3)),
    "native_norm of integers": lambda t: t.native_norm(sample(t, "int32")),
}
SUMS = {
    "all": lambda t: t.sparse.sum(sample(t)),
    "integers": lambda t: [t.sparse.sum(sample(t, "int32")), t.sparse.sum(sample(t, "int32"), 0)],
    "dims": lambda t: [t.sparse.sum(sample(t), d) for d in (0, 1, -1, (0, 1), ())],
    "hybrid": lambda t: [t.sparse.sum(hybrid(t), d) for d in (0, 2, (0, 1), (1, 2), (0, 1, 2))],
    "dtype": lambda t: [t.sparse.sum(sample(t), 0, t.float32), t.sparse.sum(sample(t), dtype=t.float32)],
    "twice the same": lambda t: t.sparse.sum(sample(t), [0, 0]),
    "the same by its negative": lambda t: t.sparse.sum(sample(t), [1, -1]),
    "out of range": lambda t: t.sparse.sum(sample(t), 3),
    "strided": lambda t: t.sparse.sum(dense(t, 2, 3), 0),
    "no entries": lambda t: t.sparse.sum(t.zeros(2, 3, layout=t.sparse_coo), 0),
    "method over no dims": lambda t: [sample(t).sum([]), hybrid(t).sum([])],
}
SOFTMAX = {
    "dims": lambda t: [t.sparse.softmax(sample(t), d) for d in (0, 1, -1)],
    "hybrid": lambda t: [t.sparse.softmax(hybrid(t), d) for d in (0, 1, 2)],
    "log": lambda t: [t.sparse.log_softmax(hybrid(t), d) for d in (0, 1, 2)],
    "out of range": lambda t: t.sparse.softmax(sample(t), 2),
    "integers": lambda t: t.sparse.softmax(sample(t, "int32"), 0),
    "integers by dtype=": lambda t: t.sparse.softmax(sample(t, "int32"), 0, dtype=t.float64),
    "strided": lambda t: t.sparse.softmax(dense(t, 2, 3), 0),
    "no entries": lambda t: t.sparse.softmax(t.zeros(2, 3, layout=t.sparse_coo), 1),
    "empty": lambda t: t.sparse.log_softmax(t.zeros(0, 3, layout=t.sparse_coo), 1),
    "only -inf": lambda t: t.sparse.softmax(row(t, -INF, -INF), 1),
    "NaN": lambda t: t.sparse.softmax(row(t, NAN, 1.0), 1),
    "inf": lambda t: t.sparse.softmax(row(t, INF, 1.0), 1),
    "log of inf": lambda t: t.sparse.log_softmax(row(t, INF, 1.0), 1),
    "large": lambda t: t.sparse.softmax(row(t, 1000.0, 999.0), 1),
}
PRODUCTS = {
    "addmm, beta 0": lambda t: t.sparse.addmm(dense(t, 2, 2) * NAN, sample(t), dense(t, 3, 2), beta=0),
    "mm with reduce": lambda t: t.sparse.mm(square(t), dense(t, 3, 2), "sum"),
    "mm with another reduce": lambda t: t.sparse.mm(square(t), square(t), "mean"),
    "mm of no rows": lambda t: t.sparse.mm(t.zeros(0, 3, layout=t.sparse_coo), t.ones(3, 2)),
    "mm over nothing": lambda t: t.sparse.mm(t.zeros(2, 0, layout=t.sparse_coo), t.ones(0, 2)),
    "mm to no columns": lambda t: t.sparse.mm(t.zeros(2, 3, layout=t.sparse_coo), t.ones(3, 0)),
    "smm": lambda t: [t.smm(sample(t), dense(t, 3, 2)), sample(t).smm(dense(t, 3, 2))],
    "hspmm": lambda t: [t.hspmm(sample(t), dense(t, 3, 2)), t.hspmm(row(t, 1.0), t.ones(2, 2))],
    "hspmm out": lambda t: t.hspmm(
        sample(t), dense(t, 3, 2), out=t.zeros(2, 2, dtype=t.float64, layout=t.sparse_coo)
    ),
    "hspmm of no entries": lambda t: t.hspmm(t.zeros(2, 3, layout=t.sparse_coo), t.ones(3, 2)),
    "hspmm that does not fit": lambda t: t.hspmm(sample(t), dense(t, 2, 2)),
    "hspmm by sparse": lambda t: t.hspmm(sample(t), dense(t, 3, 2).to_sparse()),
    "hspmm by a vector": lambda t: t.hspmm(sample(t), dense(t, 3)),
    "hspmm of strided": lambda t: t.hspmm(dense(t, 2, 3), dense(t, 3, 2)),
    "sspaddmm": lambda t: t.sspaddmm(square(t), square(t), dense(t, 3, 3), beta=2, alpha=3),
    "sspaddmm, method": lambda t: square(t).sspaddmm(square(t), dense(t, 3, 3)),
    "sspaddmm to strided": lambda t: t.sspaddmm(dense(t, 3, 3), square(t), dense(t, 3, 3)),
    "sspaddmm of strided": lambda t: t.sspaddmm(square(t), dense(t, 3, 3), dense(t, 3, 3)),
    "sspaddmm that does not fit": lambda t: t.sspaddmm(square(t), square(t), dense(t, 2, 3)),
    "sspaddmm by sparse": lambda t: t.sspaddmm(square(t), square(t), square(t)),
    "sspaddmm to another size": lambda t: t.sspaddmm(sample(t), square(t), dense(t, 3, 3)),
    "saddmm": lambda t: t.saddmm(square(t), square(t), dense(t, 3, 3), beta=2, alpha=0.5),
    "saddmm to strided": lambda t: t.saddmm(dense(t, 3, 3), square(t), dense(t, 3, 3)),
    "sampled_addmm": lambda t: t.sparse.sampled_addmm(square(t), dense(t, 3, 3), dense(t, 3, 3)),
    "spsolve": lambda t: t.sparse.spsolve(square(t), dense(t, 3)),
    "add, alpha of another kind": lambda t: sample(t, "int32").add(sample(t, "int32"), alpha=1.5),
    "add, complex alpha": lambda t: sample(t).add(sample(t), alpha=1j),
    "dense add, alpha of another kind": lambda t: t.ones(2, 3, dtype=t.int32).add(
        sample(t, "int32"), alpha=1.5
    ),
}
PARTS = {
    "mask with duplicates": lambda t: dense(t, 2, 3).sparse_mask(sample(t))._values().sum(),
    "sparse by duplicates": lambda t: sample(t).sparse_mask(sample(t))._values().sum(),
    "mask": lambda t: dense(t, 2, 3).sparse_mask(sample(t).coalesce()),
    "mask of a hybrid": lambda t: dense(t, 2, 3, 2).sparse_mask(hybrid(t).coalesce()),
    "strided mask": lambda t: dense(t, 2, 3).sparse_mask(dense(t, 2, 3)),
    "mask of other sizes": lambda t: dense(t, 2, 2).sparse_mask(sample(t)),
    "mask without entries": lambda t: sample(t).sparse_mask(t.zeros(2, 3, layout=t.sparse_coo)),
    "real and imaginary": lambda t: [complex_sample(t).real, t.view_as_real(complex_sample(t))],
    "negative index": lambda t: sample(t).index_select(0, t.tensor([-1, 0])),
    "index too small": lambda t: sample(t).index_select(0, t.tensor([-3])),
    "float index": lambda t: sample(t).index_select(0, t.tensor([0.0])),
    "collate": lambda t: t.utils.data.default_collate([sample(t), sample(t)]),
    "csr": lambda t: t.sparse_coo_tensor([[0]], [1.0], (3,)).crow_indices(),
}


def diagonals(t, rows, offsets, shape, **more):
    return t.sparse.spdiags(rows, t.tensor(offsets), shape, **more)


SPDIAGS = {
    "square": lambda t: diagonals(t, dense(t, 3, 3), [0, -1, 1], (3, 3)),
    "one": lambda t: [diagonals(t, dense(t, 3), 1, (4, 4)), diagonals(t, dense(t, 3), [1], (4, 4))],
    "short": lambda t: diagonals(t, dense(t, 2, 2), [0, 1], (5, 5)),
    "long": lambda t: diagonals(t, dense(t, 2, 7), [0, -1], (5, 5)),
    "wide": lambda t: diagonals(t, dense(t, 2, 4), [2, -1], (2, 4)),
    "layout": lambda t: diagonals(t, dense(t, 2, 4), [0, 1], (3, 4), layout=t.sparse_coo),
    "integers": lambda t: diagonals(t, t.arange(9).reshape(3, 3), [0, -1, 1], (3, 3)),
    "no diagonal": lambda t: t.sparse.spdiags(dense(t, 0, 4), t.zeros(0, dtype=t.int64), (3, 4)),
    "twice": lambda t: diagonals(t, dense(t, 2, 4), [1, 1], (3, 4)),
    "too many": lambda t: diagonals(t, dense(t, 2, 4), [1, 2, 3], (3, 4)),
    "float offsets": lambda t: diagonals(t, dense(t, 2, 4), [1.0, 2.0], (3, 4)),
    "three sizes": lambda t: diagonals(t, dense(t, 2, 4), [0, 1], (3, 4, 4)),
    "strided": lambda t: diagonals(t, dense(t, 2, 4), [0, 1], (3, 4), layout=t.strided),
    "three dimensions": lambda t: diagonals(t, dense(t, 2, 2, 4), [0, 1], (3, 4)),
    "offsets in two dimensions": lambda t: diagonals(t, dense(t, 2, 4), [[0, 1]], (3, 4)),
}


def entered(t, enable):
    with t.sparse.check_sparse_tensor_invariants(enable):
        return t.sparse.check_sparse_tensor_invariants.is_enabled()


def decorated(t):
    return t.sparse.check_sparse_tensor_invariants()(t.sparse.check_sparse_tensor_invariants.is_enabled)()


def unordered(t, **more):
    return t.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (3,), is_coalesced=True, **more)


def unordered_within(t):
    with t.sparse.check_sparse_tensor_invariants():
        return unordered(t)


def checked(t, function, x, **more):
    return t.autograd.gradcheck(function, x.coalesce().requires_grad_(), **more)


CHECKS = {
    "off": lambda t: t.sparse.check_sparse_tensor_invariants.is_enabled(),
    "entered": lambda t: [entered(t, True), entered(t, False)],
    "decorated": decorated,
    "unordered within": unordered_within,
    "unordered, asked for": lambda t: unordered(t, check_invariants=True),
    "gradcheck of sum": lambda t: checked(t, lambda x: t.sparse.sum(x, 0).to_dense(), sample(t), masked=True),
    "gradcheck of mm": lambda t: checked(t, lambda x: t.sparse.mm(x, dense(t, 3, 2)), sample(t), masked=True),
    "gradcheck of a hybrid": lambda t: checked(t, lambda x: (x * x).to_dense(), hybrid(t), masked=True),
    "gradcheck finds entries alone": lambda t: checked(t, lambda x: x.to_dense(), sample(t), masked=False),
    "as_sparse_gradcheck": lambda t: t.sparse.as_sparse_gradcheck(t.autograd.gradcheck)(
        lambda x: x.to_dense(), sample(t).coalesce().requires_grad_(), masked=True
    ),
}
CASES = {
    f"{kind}: {name}": case
    for kind, cases in {
        "norm": NORMS,
        "sum": SUMS,
        "softmax": SOFTMAX,
        "product": PRODUCTS,
        "part": PARTS,
        "spdiags": SPDIAGS,
        "check": CHECKS,
    }.items()
    for name, case in cases.items()
}
test_functions = agreeing(CASES)


def test_spdiags_have_gradients_here():
    """PyTorch has none; the gradient is 1 where an element stands in the matrix."""
    rows = dense(flambeau, 2, 4)
    found = gradient(flambeau, rows, lambda x: diagonals(flambeau, x, [1, -1], (3, 4)))
    weights = dense(flambeau, 3, 4)
    expected = [[0, weights[0, 1], weights[1, 2], weights[2, 3]], [weights[1, 0], weights[2, 1], 0, 0]]
    assert found.tolist() == [[float(x) for x in line] for line in expected]


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (1, 5), (5, 1), (3, 3), (1, 1)])
@pytest.mark.parametrize("offsets", [[0, -2, 1], [2, -1, 0], [-3, 3, -4]])
def test_spdiags_are_those_of_scipy(shape, offsets):
    """PyTorch writes beyond its result for tall matrices."""
    rows = dense(flambeau, 3, 4)
    expected = scipy.sparse.dia_matrix((rows.numpy(), offsets), shape=shape).toarray()
    assert diagonals(flambeau, rows, offsets, shape).to_dense().tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_spdiags_of_empty_matrices(shape):
    made = diagonals(flambeau, dense(flambeau, 2, 4), [0, 1], shape)
    assert made.shape == shape and made._nnz() == 0


def test_copies_of_parts_are_apart():
    """PyTorch has them for compressed layouts alone."""
    x = hybrid(flambeau).coalesce()
    flambeau.values_copy(x).zero_()
    flambeau.indices_copy(x).zero_()
    assert x.values().tolist() == [[8.0, 10.0], [3.0, 4.0], [5.0, 6.0]]
    assert x.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    with pytest.raises(RuntimeError, match="coalesce"):
        flambeau.values_copy(hybrid(flambeau))


@pytest.mark.parametrize("offset", [2**62, -(2**63), 2**63 - 1])
def test_far_diagonals_are_outside(offset):
    made = diagonals(flambeau, dense(flambeau, 1, 4), [offset], (3, 4))
    assert made.shape == (3, 4) and made._nnz() == 0


@pytest.mark.parametrize(
    "name",
    ["to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc", "_to_sparse_csr", "crow_indices"],
)
def test_compressed_layouts_are_named_as_missing(name):
    with pytest.raises(NotImplementedError, match=rf"{name}: .*got a compressed sparse layout .*csr"):
        getattr(sample(flambeau), name)()


@pytest.mark.parametrize("name", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
def test_factories_of_compressed_layouts(name):
    layout = getattr(flambeau, name)
    for make in (flambeau.zeros, flambeau.empty, flambeau.ones):
        with pytest.raises(NotImplementedError, match="got a compressed sparse layout "):
            make((2, 3), layout=layout)
    with pytest.raises(NotImplementedError, match="got a compressed sparse layout "):
        dense(flambeau, 2, 3).to_sparse(layout=layout)
    with pytest.raises(NotImplementedError, match="got a compressed sparse layout "):
        getattr(flambeau, f"{name}_tensor")([0, 1], [0], [1.0])
