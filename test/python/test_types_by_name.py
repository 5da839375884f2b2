"""Types of tensors by their older names, layouts that only have a name, operators by overload."""

import pickle

import flambeau as fb
import pytest


def test_type_converts_by_name() -> None:
    x = fb.ones(2)
    assert (
        x.type("torch.LongTensor").dtype == x.type(fb.LongTensor).dtype == x.type(fb.int64).dtype == fb.int64
    )
    with pytest.raises(ValueError, match="invalid type"):
        x.type("torch.NoTensor")


def test_compressed_layouts_have_a_name_only() -> None:
    assert fb.zeros(2).layout == fb.strided != fb.sparse_coo
    assert repr(fb.sparse_csr) == "flambeau.sparse_csr"
    assert fb.sparse_csr.__reduce__() == "sparse_csr"
    with pytest.raises(NotImplementedError, match="layout"):
        fb.zeros(2, layout=fb.sparse_csr)
    assert pickle.loads(pickle.dumps(fb.zeros(1))).layout is fb.strided


def test_range_includes_its_end() -> None:
    assert fb.range(1, 4).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert fb.range(0, 1, 0.25).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert fb.range(4, 1, -2, dtype=fb.int64).tolist() == [4, 2]


def test_an_overload_takes_its_own_arguments_only() -> None:
    aten = fb.ops.aten
    x = fb.ones(2)
    assert aten.add.Scalar(x, 1).tolist() == [2.0, 2.0]
    assert aten.add.Tensor(self=x, other=x, alpha=2).tolist() == [3.0, 3.0]
    assert aten.sum.dim_IntList(x, [0], True, dtype=fb.float64).dtype == fb.float64
    with pytest.raises(RuntimeError, match="Expected a value of type 'Scalar' for argument 'other'"):
        aten.add.Scalar(x, x)
    with pytest.raises(RuntimeError, match="missing value for argument 'dim'"):
        aten.sum.dim_IntList(x)
    with pytest.raises(RuntimeError, match="unknown keyword argument 'axis'"):
        aten.sum.dim_IntList(x, axis=0)
    with pytest.raises(RuntimeError, match="at most 2 arguments"):
        aten.add.Tensor(x, x, 2)


def test_lists_of_results_can_be_given() -> None:
    rows = [fb.empty(0), fb.empty(2)]
    assert fb.unbind_copy(fb.ones(2, 2), out=rows) is None
    assert [row.tolist() for row in rows] == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="expected out= to be 2 tensors, got 1"):
        fb.unbind_copy(fb.ones(2, 2), out=[fb.empty(0)])
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        fb.unbind_copy(fb.ones(2, 2, requires_grad=True), out=rows)
