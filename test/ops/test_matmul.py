"""Products of matrices whose elements lie in unusual places."""

import flambeau as fb
import numpy as np
import pytest

pytestmark = pytest.mark.products


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.complex64, fb.int64], ids=str)
@pytest.mark.parametrize("size", [3, 8, 130])
def test_expanded_operands(size, dtype):
    matrix = fb.arange(size * size).reshape(size, size).to(dtype)
    one = fb.ones(1, 1, dtype=dtype)
    for rows, columns in ((1, size), (size, 1), (size, size), (2, size)):
        wide = one.expand(rows, size)
        np.testing.assert_array_equal((wide @ matrix).numpy(), wide.numpy() @ matrix.numpy())
        tall = one.expand(size, columns)
        np.testing.assert_array_equal((matrix @ tall).numpy(), matrix.numpy() @ tall.numpy())
        np.testing.assert_array_equal((matrix.t() @ tall).numpy(), matrix.numpy().T @ tall.numpy())


def test_gradient_of_a_sum_through_a_chain_of_layers():
    # sum() hands back an expanded gradient of one element.
    fb.manual_seed(0)
    weights = [fb.randn(3, 3) for _ in range(4)]
    x = fb.ones(1, 3, requires_grad=True)
    y = x
    expected = np.ones((1, 3), np.float32)
    for w in weights:
        y = fb.nn.functional.linear(y, w)
    for w in reversed(weights):
        expected = expected @ w.numpy()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)


def _laid_out(matrix, layout):
    """A tensor of the matrix whose rows lie side by side, in larger steps, or whose columns do."""
    rows, columns = matrix.shape
    if layout == "columns":
        return fb.tensor(np.ascontiguousarray(matrix.T)).t()
    if layout == "steps":
        wide = fb.zeros(rows, columns + 5)
        wide[:, 2:-3] = fb.tensor(matrix)
        return wide[:, 2:-3]
    return fb.tensor(matrix)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 15, 16, 17, 24, 32, 33])
@pytest.mark.parametrize("layouts", [("rows", "rows"), ("columns", "steps"), ("steps", "columns")], ids=str)
def test_few_rows(rows, layouts):
    rng = np.random.default_rng(rows)
    for depth, columns in ((1, 16384), (65, 144), (127, 512), (512, 80), (513, 48), (128, 50)):
        a = rng.standard_normal((rows, depth)).astype(np.float32)
        b = rng.standard_normal((depth, columns)).astype(np.float32)
        c = rng.standard_normal((rows, columns)).astype(np.float32)
        left, right = _laid_out(a, layouts[0]), _laid_out(b, layouts[1])
        exact = a.astype(np.float64) @ b
        bound = 1e-6 * (np.abs(a) @ np.abs(b)) + 1e-6
        assert (np.abs((left @ right).numpy() - exact) <= bound).all()
        added = fb.addmm(fb.tensor(c), left, right).numpy()
        assert (np.abs(added - (exact + c)) <= bound + 1e-6 * np.abs(c)).all()


@pytest.mark.parametrize("rows", [3, 16])
def test_values_that_are_not_finite_stay_in_their_row_and_column(rows):
    a, b = fb.ones(rows, 100), fb.ones(100, 512)
    a[1, 7], a[2, 9], b[5, 499] = fb.nan, fb.inf, -fb.inf
    result = (a @ b).numpy()
    assert np.isnan(result[1]).all() and np.isnan(result[2, 499])
    assert (np.delete(result[2], 499) == np.inf).all()
    rest = np.delete(result, [1, 2], 0)
    assert (rest[:, 499] == -np.inf).all() and (np.delete(rest, 499, 1) == 100).all()
    b[7] = 0  # NaN times 0 is NaN
    assert np.isnan((a @ b).numpy()[1]).all()


INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
# One row or column, parts of tiles and vectors, more rows of the right operand than a block has.
INTEGER_SIZES = [(1, 1, 1), (1, 300, 1), (7, 300, 1), (1, 5, 70), (5, 257, 33), (64, 64, 64), (3, 513, 130)]


def whole_range(rng, dtype, sizes):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, sizes, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("sizes", INTEGER_SIZES, ids=str)
def test_integer_products_wrap(dtype, sizes):
    m, k, n = sizes
    rng = np.random.default_rng(m + k + n)
    a, b = whole_range(rng, dtype, (m, k)), whole_range(rng, dtype, (k, n))
    with np.errstate(over="ignore"):
        want = a @ b
    ours, theirs = fb.from_numpy(a), fb.from_numpy(b)
    assert np.array_equal((ours @ theirs).numpy(), want)
    # Strides that no block has: transposed operands, and every second row and column.
    assert np.array_equal((ours.t().contiguous().t() @ theirs.t().contiguous().t()).numpy(), want)
    wide = fb.zeros(2 * m, 2 * k, dtype=ours.dtype)
    wide[::2, ::2] = ours
    assert np.array_equal((wide[::2, ::2] @ theirs).numpy(), want)
    added = whole_range(rng, dtype, (m, n))
    with np.errstate(over="ignore"):
        assert np.array_equal(fb.addmm(fb.from_numpy(added), ours, theirs).numpy(), added + want)
        assert np.array_equal((ours @ theirs[:, 0]).numpy(), want[:, 0])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_products_of_no_terms_are_zero(dtype):
    kind = getattr(fb, dtype)
    assert (fb.ones(3, 0, dtype=kind) @ fb.ones(0, 2, dtype=kind)).tolist() == [[0, 0]] * 3
    assert (fb.ones(0, 3, dtype=kind) @ fb.ones(3, 2, dtype=kind)).shape == (0, 2)


@pytest.mark.parametrize("n", [1, 15, 512, 513, 4096])
@pytest.mark.parametrize("dtype", [fb.float16, fb.bfloat16, fb.complex64, fb.complex128], ids=str)
def test_dot_of_every_layout(dtype, n):
    rng = np.random.default_rng(n)
    parts = rng.standard_normal((2, 2, 2 * n))
    a, b = (fb.from_numpy(x[0] + 1j * x[1] if dtype.is_complex else x[0]).to(dtype) for x in parts)
    wide = fb.complex128 if dtype.is_complex else fb.float64
    eps = {fb.float16: 2**-11, fb.bfloat16: 2**-8, fb.complex64: 2**-23, fb.complex128: 2**-52}[dtype]
    single = 2**-52 if dtype == fb.complex128 else 2**-23
    for left, right in ((a[:n], b[n:]), (a[::2], b[1::2]), (a[:1].expand(n), b[:n])):
        x, y = left.to(wide).numpy(), right.to(wide).numpy()
        want, size = np.sum(x * y), np.sum(np.abs(x * y))
        got = fb.dot(left, right).to(wide).item()
        assert abs(got - want) <= eps * abs(want) + (n + 4) * single * size
        added = fb.addmv(a[:1], left[None], right).to(wide).item()
        want += a[0].to(wide).item()
        assert abs(added - want) <= 2 * eps * (abs(want) + size / n) + (n + 4) * single * size


@pytest.mark.parametrize("dtype", [fb.float16, fb.bfloat16], ids=str)
def test_dot_of_halves_at_the_ends(dtype):
    inf, nan = float("inf"), float("nan")
    ones = fb.ones(40, dtype=dtype)
    for value, want in ((inf, inf), (-inf, -inf)):
        x = ones.clone()
        x[37] = value
        assert fb.dot(x, ones).item() == want
    x[3] = -value
    assert fb.dot(x, ones).isnan() and fb.dot(ones * nan, ones).isnan()
    largest = fb.finfo(dtype).max  # the sum overflows where its rounding does
    assert fb.dot(fb.full((2,), largest, dtype=dtype), fb.ones(2, dtype=dtype)).item() == inf
    assert fb.dot(ones[:0], ones[:0]).item() == 0


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 64, 1000, (1 << 20) + 3])
def test_vdot_of_complex_vectors(dtype, size):
    """Bound: that of a sum of blocks, far below k eps sum |a||b|, from either memory order."""
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal((2, size, 2)).astype(dtype(0).real.dtype).view(dtype))[..., 0]
    exact = np.vdot(a.astype(np.complex128), b)
    bound = 64 * np.finfo(dtype).eps * float(np.sum(np.abs(a * b))) + 1e-300
    x, y = fb.from_numpy(a), fb.from_numpy(b)
    spread = fb.zeros(size, 3, dtype=x.dtype)
    spread[:, 1] = x
    for left in (x, spread[:, 1], x.conj().resolve_conj().conj()):
        assert abs(fb.vdot(left, y).item() - exact) <= bound
    assert abs(fb.vdot(x.conj(), y).item() - np.dot(a.astype(np.complex128), b)) <= bound
    assert abs(fb.vdot(x, y.conj()).item() - np.vdot(a, b.astype(np.complex128).conj())) <= bound
    out = fb.empty((), dtype=x.dtype)
    assert fb.vdot(x, y, out=out) is out and abs(out.item() - exact) <= bound


def test_vdot_of_special_numbers_and_of_steps_that_stay_in_place():
    inf, nan = float("inf"), float("nan")
    huge = fb.tensor([1e150 + 1e150j, 1e150 - 1e150j], dtype=fb.complex128)
    assert fb.vdot(huge, huge).item() == pytest.approx(4e300, rel=1e-15)
    # As in PyTorch, the product of an infinite real part with an imaginary part of 0 is NaN.
    for a, b in ((complex(inf, 1), 1 + 0j), (complex(inf, 1), 1 + 1j), (complex(nan, 0), 1j)):
        got, want = fb.vdot(fb.tensor([a]), fb.tensor([b])).item(), np.vdot([a], [b])
        np.testing.assert_array_equal([got.real, got.imag], [want.real, want.imag])
    one = fb.tensor([1 + 2j]).expand(5)
    assert fb.vdot(one, fb.ones(5, dtype=fb.complex64)).item() == 5 - 10j
    assert fb.vdot(fb.ones(5, dtype=fb.complex64), one).item() == 5 + 10j


def test_vdot_of_complex_vectors_is_differentiable_twice_and_under_transforms():
    def numbers(seed):
        return fb.randn(3, dtype=fb.complex128, generator=fb.Generator().manual_seed(seed))

    a, b = numbers(0).requires_grad_(), numbers(1).requires_grad_()
    assert fb.autograd.gradcheck(fb.vdot, (a, b), check_forward_ad=True)
    assert fb.autograd.gradgradcheck(fb.vdot, (a, b))
    rows, columns = fb.stack([numbers(2), numbers(3)]), fb.stack([numbers(4), numbers(5)])
    each = fb.stack([fb.vdot(x, y) for x, y in zip(rows, columns, strict=True)])
    assert fb.allclose(fb.func.vmap(fb.vdot)(rows, columns), each)
    assert fb.allclose(fb.func.vmap(fb.vdot, in_dims=(0, None))(rows, columns[0])[0], each[0])


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [((3,), (2,), "inconsistent tensor size"), ((2, 2), (4,), "1D tensors expected")],
)
def test_vdot_refuses(left, right, words):
    a, b = fb.ones(*left, dtype=fb.complex64), fb.ones(*right, dtype=fb.complex64)
    with pytest.raises(RuntimeError, match=f"vdot: {words}"):
        fb.vdot(a, b)
    with pytest.raises(RuntimeError, match="vdot: expected operands of the same dtype"):
        fb.vdot(fb.ones(2, dtype=fb.complex64), fb.ones(2, dtype=fb.complex128))


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 40, 50), (5, 64, 64), (70, 33, 41), (300, 16, 32), (64, 0, 80)]
)
def test_what_is_added_to_a_product_broadcasts_from_any_layout(m, k, n, dtype):
    a, b = fb.randn(m, k, dtype=dtype), fb.randn(k, n, dtype=dtype)
    square = fb.randn(max(m, n), 2 * max(m, n), dtype=dtype)
    added = {
        "row": square[0, :n].clone(),
        "matrix of one row": square[:1, :n],
        "row with steps": square[0, ::2][:n],
        "row, repeated": square[0, :n].expand(m, n),
        "column": square[:m, :1],
        "one number": square[0, 0],
        "matrix": square[:m, :n],
        "transposed": square[:n, :m].t(),
        "reversed place": square[-1, -n:],
    }
    product = a.double() @ b.double()
    rtol, atol = {fb.float32: (1e-5, 1e-5), fb.float64: (1e-12, 1e-12), fb.bfloat16: (1e-2, 5e-2)}[dtype]
    for name, c in added.items():
        want = c.double() + product
        for left, right in ((a, b), (a, b.t().contiguous().t()), (a.t().contiguous().t(), b)):
            found = fb.addmm(c, left, right)
            assert fb.allclose(found.double(), want, rtol=rtol, atol=atol), name
            assert found.is_contiguous() and found.dtype == dtype, name


def test_a_row_is_added_after_nan_and_infinity_like_any_number():
    a, b, row = fb.ones(40, 50), fb.ones(50, 60), fb.zeros(60)
    a[3, 0], row[5], row[7] = float("inf"), float("nan"), -float("inf")
    found = fb.addmm(row, a, b)
    assert found[:, 5].isnan().all() and found[3, 7].isnan() and found[2, 7] == -float("inf")
    assert found[3, 0] == float("inf") and (found[4, 8:] == 50).all()
