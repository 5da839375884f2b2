"""Every operator with a sparse operand refuses it or computes what it computes of the strided one."""

import itertools
import json

import flambeau as fb
import pytest
from op_cases import DATA, Op, calls, flat, is_tensor, names, operators, run, tensors

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)  # NotImplementedError is a RuntimeError


def strided(value):
    return value.to_dense() if is_tensor(value) and value.is_sparse else value


def same(found, expected):
    if not is_tensor(expected):
        return True
    found = strided(found)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    return fb.allclose(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def thinned(value):
    """Floating tensors with zeros at every other element, so that most places have no entry."""
    if isinstance(value, list):
        return [thinned(item) for item in value]
    if not is_tensor(value) or not value.is_floating_point():
        return value
    return fb.where(fb.arange(value.numel()).reshape(value.shape) % 2 == 1, value, fb.zeros_like(value))


def variants(arguments):
    """The arguments with each tensor sparse, then with all of them."""
    found = [name for name, value in arguments.items() if is_tensor(value)]
    lists = [k for k, v in arguments.items() if isinstance(v, list) and v and all(map(is_tensor, v))]
    for name in found:
        yield {**arguments, name: arguments[name].to_sparse()}
    for name in lists:
        yield {**arguments, name: [value.to_sparse() for value in arguments[name]]}
    if len(found) > 1:
        yield {**arguments, **{name: arguments[name].to_sparse() for name in found}}


MAKE_SPARSE = {record["name"] for record in json.loads((DATA / "sparse.json").read_text())}


def takes_tensors(op: Op) -> bool:
    return bool(op.tensor_names) and op.name not in MAKE_SPARSE


def arguments_of(arrays, dtype):
    return {name: thinned(value) for name, value in tensors(arrays, dtype).items()}


def cases(op: Op):
    dtype = op.main_dtype()
    for call in itertools.islice(calls(op), 2):
        yield call.materialise(dtype), dtype


@pytest.mark.parametrize("name", names(takes_tensors))
def test_refused_or_right(name):
    op = operators()[name]
    for arrays, dtype in cases(op):
        expected = None
        for arguments in variants(arguments_of(arrays, dtype)):
            try:
                found = run(op, arguments)
            except REFUSALS:
                continue
            expected = flat(run(op, arguments_of(arrays, dtype))) if expected is None else expected
            if op.is_fixed:
                pairs = zip(flat(found), expected, strict=True)
                assert all(same(a, b) for a, b in pairs), f"{name} differs for a sparse operand"


@pytest.mark.parametrize("name", names(takes_tensors))
def test_recorded_calls_are_refused_or_right(name):
    """A sparse tensor that requires grad takes the way through autograd."""
    op = operators()[name]
    if op.main_dtype() != "float32" or op.declared_inplace:
        return
    for arrays, dtype in cases(op):
        for arguments in variants(arguments_of(arrays, dtype)):
            for value in arguments.values():
                if is_tensor(value) and value.is_sparse and value.is_floating_point():
                    value.requires_grad_()
            try:
                found = run(op, arguments)
            except REFUSALS:
                continue
            expected = flat(run(op, arguments_of(arrays, dtype)))
            if op.is_fixed:
                pairs = zip(flat(found), expected, strict=True)
                assert all(same(strided(a), b) for a, b in pairs), f"{name} differs for a sparse operand"


def test_refusal_names_operator_and_layout():
    x = fb.eye(3).to_sparse()
    with pytest.raises(NotImplementedError, match=r"cumsum.*sparse_coo.*to_dense"):
        x.cumsum(0)
    with pytest.raises(NotImplementedError, match=r"exp.*sparse_coo"):
        x.exp()
    with pytest.raises(NotImplementedError, match="view"):
        x.view(9)
    with pytest.raises(NotImplementedError, match="sparse_coo"):
        fb.add(fb.eye(3), 1, out=x)
    for function in (
        x.numpy,
        x.tolist,
        x.item,
        x.storage,
        x.untyped_storage,
        x.__dlpack__,
        lambda: memoryview(x),
    ):
        with pytest.raises((RuntimeError, TypeError, BufferError)):
            function()


def hostile_indices():
    bad = fb.tensor([[0, 1, 2], [0, 1, 2]])
    for value in (3, -1, 2**62, -(2**63)):
        indices = bad.clone()
        indices[1, 2] = value
        yield indices


@pytest.mark.parametrize("indices", hostile_indices(), ids=str)
def test_indices_out_of_range(indices):
    with pytest.raises(RuntimeError, match="inconsistent with indices|negative index"):
        fb.sparse_coo_tensor(indices, fb.ones(3), (3, 3))


def uses():
    dense = fb.ones(3, 3)
    return {
        "to_dense": lambda x: x.to_dense(),
        "coalesce": lambda x: fb._coalesce(x),
        "mm": lambda x: x @ dense,
        "mm right": lambda x: dense @ x,
        "sparse mm": lambda x: fb.sparse.mm(x, dense),
        "mm both": lambda x: x @ x,
        "mv": lambda x: x @ fb.ones(3),
        "add": lambda x: dense + x,
        "add_": lambda x: dense.clone().add_(x),
        "mask": lambda x: dense.sparse_mask(x),
        "mul": lambda x: x * dense,
        "softmax": lambda x: fb.sparse.softmax(x, 0),
        "transpose": lambda x: x.t(),
        "select": lambda x: x[0],
        "unsqueeze": lambda x: x.unsqueeze(0),
        "narrow": lambda x: x.narrow(1, 0, 2),
        "index_select": lambda x: x.index_select(0, fb.tensor([0, 1])),
        "cat": lambda x: fb.cat([x, x]),
        "stack": lambda x: fb.stack([x, x]),
        "sum": lambda x: x.sum(0),
        "norm": lambda x: x.norm(),
        "any": lambda x: x.any(),
        "sin": lambda x: x.sin(),
        "sin_": lambda x: x.sin_(),
        "maximum": lambda x: fb.maximum(x, x),
        "pow": lambda x: x**2,
        "bmm": lambda x: fb.bmm(x.unsqueeze(0), dense[None]),
    }


@pytest.mark.parametrize("use", uses())
def test_indices_that_were_overwritten(use):
    """Indices share memory with `_indices()`: what is written there must not become an address."""
    for value in (10**12, -5, 3):
        x = fb.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], (3, 3), is_coalesced=True)
        x._indices()[0, 1] = value
        with pytest.raises((IndexError, RuntimeError)):
            uses()[use](x)


@pytest.mark.parametrize("use", uses())
def test_false_claim_of_order(use):
    """`is_coalesced=True` of entries that are neither in order nor different."""
    indices = [[2, 0, 2, 0], [1, 2, 1, 2]]
    claimed = fb.sparse_coo_tensor(indices, [1.0, 2.0, 3.0, 4.0], (3, 3), is_coalesced=True)
    honest = fb.sparse_coo_tensor(indices, [1.0, 2.0, 3.0, 4.0], (3, 3))
    if use in ("softmax",):  # which normalises the entries as they are claimed to be
        uses()[use](claimed)
        return
    assert fb.equal(strided(uses()[use](claimed)), strided(uses()[use](honest)))
    with pytest.raises(RuntimeError, match="ascending"):
        fb.sparse_coo_tensor(indices, fb.ones(4), (3, 3), is_coalesced=True, check_invariants=True)


def test_sizes_beyond_int64():
    for size in ((2**40, 2**40), (2**62, 4), (2**63 - 1, 2**63 - 1)):
        with pytest.raises(RuntimeError):
            fb.sparse_coo_tensor([[0], [0]], [1.0], size)
    with pytest.raises(RuntimeError, match="int64"):
        fb.sparse_coo_tensor(fb.zeros(2, 0, dtype=fb.int64), fb.zeros(0, 0), (2**40, 2**40, 0))
    big = fb.sparse_coo_tensor([[2**40 - 1]], [1.0], (2**40,))
    assert (big + big).coalesce().values().tolist() == [2.0]
    with pytest.raises(RuntimeError):
        fb.sparse_coo_tensor([[0]], [1.0], (2**60,)).to_dense()


def test_empty_ones():
    for size in ((0,), (0, 3), (3, 0), (2, 3)):
        x = fb.sparse_coo_tensor(size)
        assert x.to_dense().shape == size and (x + x)._nnz() == 0 and x.coalesce()._nnz() == 0
        assert x.t().to_dense().shape == tuple(reversed(size)) and float(x.sum()) == 0
        assert repr(x) and fb.sparse.sum(x, 0).shape == size[1:]
    assert (fb.sparse_coo_tensor((2, 3)) @ fb.ones(3, 0)).shape == (2, 0)
    assert fb.zeros(0, 3).to_sparse()._nnz() == 0
    scalar = fb.sparse_coo_tensor(fb.zeros(0, 2, dtype=fb.int64), fb.tensor([1.0, 2.0]), ())
    assert float(scalar.to_dense()) == 3


def test_wrong_parts():
    ok = fb.tensor([[0, 1]])
    wrong = [
        (fb.tensor(0), fb.ones(1), (2,)),
        (ok, fb.ones(3), (2,)),
        (ok, fb.ones(2, 2), (2,)),
        (ok, fb.ones(2), (2, 2)),
        (ok, fb.ones(2), (-2,)),
        (ok, fb.ones(2).to_sparse(), (2,)),
        (fb.eye(2).to_sparse(), fb.ones(2), (2, 2)),
    ]
    for indices, values, size in wrong:
        with pytest.raises((RuntimeError, IndexError)):
            fb.sparse_coo_tensor(indices, values, size)
    assert fb.sparse_coo_tensor(fb.tensor([[0.0, 1.0]]), fb.ones(2), (2,))._indices().dtype == fb.int64


def test_in_place_writes_reach_aliases_and_versions():
    x = fb.eye(3).to_sparse()
    alias, version = x.detach(), x._version
    x.mul_(3)
    assert fb.equal(alias.to_dense(), 3 * fb.eye(3)) and x._version == version + 1
    y = fb.eye(3).to_sparse().requires_grad_()
    product = (y * y).to_dense().sum()
    with fb.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="modified"):
        product.backward()


def test_data_keeps_its_layout():
    x = fb.ones(3, 3)
    with pytest.raises(RuntimeError, match="layout"):
        x.data = fb.eye(3).to_sparse()
    with pytest.raises(RuntimeError):
        fb.eye(3).to_sparse().resize_(4, 4)
    with pytest.raises(RuntimeError):
        fb.ones(3).set_(fb.eye(3).to_sparse())


def test_gradients_of_gradients():
    places = fb.tensor([[0, 1, 1], [2, 0, 2]])
    dense = fb.arange(12.0, dtype=fb.float64).reshape(3, 4).requires_grad_()
    values = fb.tensor([3.0, 4.0, 5.0], dtype=fb.float64, requires_grad=True)

    def product(values, dense):
        return fb.sparse.mm(fb.sparse_coo_tensor(places, values, (2, 3)), dense)

    def elements(values):
        return fb.sparse_coo_tensor(places, values, (2, 3)).to_dense() ** 3

    assert fb.autograd.gradcheck(product, (values, dense))
    assert fb.autograd.gradgradcheck(product, (values, dense))
    assert fb.autograd.gradcheck(elements, (values,)) and fb.autograd.gradgradcheck(elements, (values,))


def test_transforms():
    x, dense = fb.eye(3).to_sparse(), fb.ones(3, 2)
    assert fb.equal(fb.func.grad(lambda d: (x @ d).sum())(dense), fb.ones(3, 2))
    with pytest.raises(RuntimeError):
        fb.vmap(lambda row: row + 1)(x)
