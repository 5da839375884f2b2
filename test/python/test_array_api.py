"""The array API namespace against NumPy, which follows the same standard."""

import flambeau as fb
import numpy as np
import pytest

xp = fb.ones(1).__array_namespace__()
A = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.5]])
B = np.array([[1.0, 2.0, -3.0], [4.0, 0.25, 1.0]])
K = np.array([[3, 1, 2], [1, 3, 3]])
J = np.array([[2, 1, 5], [4, 1, 2]])
M = np.array([[True, False, True], [False, False, True]])
C = A + 1j * B

UNARY = "abs acosh asinh atan ceil conj cos cosh exp expm1 floor isfinite isinf isnan".split()
UNARY += "negative positive real reciprocal round sign signbit sin sinh square tan tanh trunc".split()
BINARY = "add atan2 copysign divide equal floor_divide greater greater_equal hypot less".split()
BINARY += "less_equal logaddexp maximum minimum multiply nextafter not_equal remainder subtract".split()
INTEGER = "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor".split()
CALLS = [
    ("all", (M,), {"axis": 1}),
    ("all", (M,), {}),
    ("any", (M,), {"axis": (0, 1)}),
    ("any", (M,), {"keepdims": True}),
    ("argmax", (A,), {}),
    ("argmin", (A,), {"axis": 1, "keepdims": True}),
    ("argsort", (A,), {"axis": 0}),
    ("astype", (A, "int64"), {}),
    ("bitwise_invert", (K,), {}),
    ("broadcast_to", (A, (2, 2, 3)), {}),
    ("clip", (A, -1.0, 2.0), {}),
    ("clip", (K, 2, None), {}),
    ("count_nonzero", (M,), {"axis": 0}),
    ("cumulative_prod", (K,), {"axis": 1}),
    ("cumulative_sum", (A,), {"axis": 0, "include_initial": True}),
    ("diff", (A,), {"axis": 1}),
    ("diff", (A,), {"n": 2, "axis": 1}),
    ("expand_dims", (A,), {"axis": 1}),
    ("eye", (2, 4), {"k": 1}),
    ("flip", (A,), {}),
    ("flip", (A,), {"axis": 1}),
    ("full", ((2, 3), 7), {}),
    ("linspace", (0.0, 1.0, 5), {"endpoint": False}),
    ("logical_not", (M,), {}),
    ("matmul", (A, B.T), {}),
    ("matrix_transpose", (A,), {}),
    ("max", (A,), {"axis": (0, 1)}),
    ("mean", (A,), {"axis": 0, "keepdims": True}),
    ("min", (K,), {}),
    ("moveaxis", (A, 0, 1), {}),
    ("permute_dims", (A, (1, 0)), {}),
    ("prod", (K,), {}),
    ("prod", (A,), {"axis": (0, 1)}),
    ("repeat", (A, 2), {"axis": 1}),
    ("reshape", (A, (3, 2)), {}),
    ("roll", (A, 1), {}),
    ("roll", (A, 1), {"axis": 1}),
    ("searchsorted", (np.sort(A[0]), B[0]), {}),
    ("sort", (A,), {"axis": 0}),
    ("squeeze", (A[None], 0), {}),
    ("std", (A,), {"axis": 1, "correction": 1}),
    ("sum", (K,), {"axis": 0}),
    ("sum", (M,), {}),
    ("sum", (A,), {"axis": ()}),
    ("take", (A, K[0] - 1), {"axis": 1}),
    ("take_along_axis", (A, K - 1), {"axis": 1}),
    ("tensordot", (A, B), {"axes": 2}),
    ("tile", (A, (2, 1)), {}),
    ("tril", (A,), {"k": -1}),
    ("triu", (A,), {"k": 1}),
    ("var", (A,), {}),
    ("vecdot", (C, A), {"axis": 0}),
    ("where", (M, A, B), {}),
    ("isfinite", (np.array([np.inf, np.nan, 1.0]),), {}),
    ("round", (K,), {}),
]


def ours(value):
    return fb.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def compare(name, args, kwargs):
    expected = getattr(np, name)(*args, **kwargs)
    names = {"int64": fb.int64}
    result = getattr(xp, name)(
        *(names.get(a, ours(a)) if isinstance(a, str) else ours(a) for a in args), **kwargs
    )
    assert result.shape == expected.shape
    if name not in ("full", "eye", "linspace"):  # the default dtype is float32 here
        assert str(result.dtype).split(".")[-1] == str(expected.dtype)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    compare(name, (np.abs(A) + 1 if name == "acosh" else A,), {})


@pytest.mark.parametrize("name", ["acos", "asin", "atanh", "log", "log10", "log1p", "log2", "sqrt"])
def test_unary_on_part_of_the_line(name):
    compare(name, (np.array([0.125, 0.5, 0.75]),), {})


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    compare(name, (A, B), {})


@pytest.mark.parametrize("name", INTEGER)
def test_integer_binary(name):
    compare(name, (K, J), {})


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical(name):
    compare(name, (M, ~M | M[::-1]), {})


@pytest.mark.parametrize("name, args, kwargs", CALLS, ids=[f"{c[0]}{i}" for i, c in enumerate(CALLS)])
def test_call(name, args, kwargs):
    compare(name, args, kwargs)


def test_functions_of_several_results():
    values = np.array([3, 1, 3, 2, 1])
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        expected, result = getattr(np, name)(values), getattr(xp, name)(ours(values))
        assert result._fields == expected._fields
        for a, b in zip(result, expected, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
    np.testing.assert_array_equal(xp.unique_values(ours(values)).numpy(), [1, 2, 3])
    for a, b in zip(xp.nonzero(ours(M)), np.nonzero(M), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    for a, b in zip(xp.meshgrid(ours(A[0]), ours(B[0])), np.meshgrid(A[0], B[0]), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    for a, b in zip(xp.unstack(ours(A)), A, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    np.testing.assert_array_equal(
        xp.concat([ours(A), ours(K)], axis=None).numpy(), np.concat([A, K], axis=None)
    )
    np.testing.assert_array_equal(xp.stack([ours(A), ours(K)], axis=1).numpy(), np.stack([A, K], axis=1))


def test_complex_parts_and_descending_order():
    compare("imag", (C,), {})
    compare("real", (C,), {})
    np.testing.assert_array_equal(xp.sort(ours(A), descending=True).numpy(), np.sort(A)[:, ::-1])
    np.testing.assert_array_equal(xp.argsort(ours(A), descending=True).numpy(), np.argsort(-A))


def test_dtypes():
    assert xp.result_type(fb.int32, fb.float32) == fb.float32
    assert xp.result_type(fb.ones(2, dtype=fb.int8), 3) == fb.int8
    assert xp.result_type(fb.tensor(1.0), fb.float64) == fb.float64
    assert xp.isdtype(fb.int8, "signed integer") and not xp.isdtype(fb.uint8, "signed integer")
    assert xp.isdtype(fb.float32, ("integral", "real floating"))
    with pytest.raises(ValueError, match="isdtype"):
        xp.isdtype(fb.int8, "numbers")


def test_inspection():
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == fb.get_default_dtype()
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.devices() == [fb.device("cpu")]
    assert xp.__array_api_version__ == "2024.12"


def test_versions():
    assert fb.ones(1).__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="2019"):
        fb.ones(1).__array_namespace__(api_version="2019.01")


def test_extensions():
    assert xp.linalg is fb.linalg
    assert xp.fft is fb.fft
