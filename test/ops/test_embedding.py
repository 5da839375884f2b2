"""embedding and embedding_bag."""

import flambeau as fb
import numpy as np
import pytest
from flambeau.nn import functional as F
from side_by_side import numbers, refuse_alike, same

RNG = np.random.default_rng(0)
NAN, INF = float("nan"), float("inf")
COMBINE = {"sum": np.sum, "mean": np.mean, "max": np.max}


def bags(weight, indices, offsets, mode, padding=None):
    ends = [*offsets[1:], len(indices)]
    rows = []
    for begin, end in zip(offsets, ends, strict=True):
        kept = [i for i in indices[begin:end] if i != padding]
        rows.append(COMBINE[mode](weight[kept], axis=0) if kept else np.zeros(weight.shape[1]))
    return np.stack(rows)


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_by_offsets(mode, padding):
    weight, indices, offsets = RNG.standard_normal((6, 3)), [0, 2, 2, 5, 1, 4, 2], [0, 2, 2, 6]
    result = F.embedding_bag(
        fb.tensor(indices), fb.from_numpy(weight), fb.tensor(offsets), mode=mode, padding_idx=padding
    )
    np.testing.assert_allclose(result.numpy(), bags(weight, indices, offsets, mode, padding), rtol=1e-12)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients_of_bags(mode):
    weight = fb.from_numpy(RNG.standard_normal((6, 3))).requires_grad_()
    indices, offsets = fb.tensor([0, 2, 3, 5, 1, 4]), fb.tensor([0, 4])
    assert fb.autograd.gradcheck(lambda w: F.embedding_bag(indices, w, offsets, mode=mode), (weight,))


def test_rows_of_a_matrix_are_bags():
    weight, indices = RNG.standard_normal((6, 3)), RNG.integers(0, 6, (2, 4))
    result = F.embedding_bag(fb.from_numpy(indices), fb.from_numpy(weight), mode="sum")
    np.testing.assert_allclose(result.numpy(), weight[indices].sum(1), rtol=1e-12)


def test_scales_of_rows_are_learned_too():
    weight = fb.from_numpy(RNG.standard_normal((6, 3))).requires_grad_()
    scales = fb.from_numpy(RNG.random(5)).requires_grad_()
    indices, offsets = fb.tensor([0, 2, 2, 5, 1]), fb.tensor([0, 2, 5])

    def function(w, s):
        return F.embedding_bag(
            indices, w, offsets, mode="sum", per_sample_weights=s, include_last_offset=True
        )

    assert function(weight, scales).shape == (2, 3)
    assert fb.autograd.gradcheck(function, (weight, scales))


@pytest.mark.parametrize("width", [1, 3, 16, 70, 200])
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16])
def test_rows_are_added_up_where_they_belong(dtype, width):
    rows = fb.from_numpy(RNG.standard_normal((9, width))).to(dtype)
    scale = fb.from_numpy(RNG.random(500)).to(dtype)
    index, target = RNG.integers(0, 9, 500), RNG.integers(0, 5, 500)
    for order in (np.sort(target), target):
        expected = np.zeros((6, width))
        np.add.at(expected, order, rows.double().numpy()[index] * scale.double().numpy()[:, None])
        found = fb.ops.aten._sum_rows(rows, fb.tensor(index), fb.tensor(order), 6, scale)
        assert found.dtype == dtype
        # Sums of 100 products, one rounding to the type.
        bound = {fb.float32: 1e-5, fb.float64: 1e-13, fb.bfloat16: 2**-8}[dtype]
        np.testing.assert_allclose(found.double().numpy(), expected, rtol=bound, atol=bound * 10)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("width", [1, 5, 16, 32, 64, 100, 300])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
def test_bags_of_any_size_and_empty_ones(dtype, scaled, width, threads):
    """Bags without rows before, between and behind others are zero, and one may take more than a thread."""
    sizes = np.array([0, 0, 1, 8, 0, 3, 4000, 0, 0, 0, 17, 1, 0])
    target = np.repeat(np.arange(len(sizes)), sizes)
    rows = fb.from_numpy(RNG.standard_normal((50, width))).to(dtype)
    scale = fb.from_numpy(RNG.random(len(target))).to(dtype)
    index = RNG.integers(0, 50, len(target))
    terms = rows.double().numpy()[index] * (scale.double().numpy()[:, None] if scaled else 1.0)
    expected, sizes_of_terms = np.zeros((2, len(sizes), width))
    np.add.at(expected, target, terms)
    np.add.at(sizes_of_terms, target, np.abs(terms))
    before = fb.get_num_threads()
    fb.set_num_threads(threads)
    try:
        given = scale if scaled else None
        found = fb.ops.aten._sum_rows(rows, fb.tensor(index), fb.tensor(target), len(sizes), given)
    finally:
        fb.set_num_threads(before)
    # One rounding per product and per sum, each of them relative to what is summed at most.
    bound = (sizes[:, None] + 1) * fb.finfo(dtype).eps * sizes_of_terms
    assert (np.abs(found.double().numpy() - expected) <= bound).all()
    assert (found.numpy()[sizes == 0] == 0).all()


def test_sums_of_no_rows_and_of_targets_out_of_range():
    rows = fb.randn(4, 3)
    none = fb.tensor([], dtype=fb.int64)
    assert fb.ops.aten._sum_rows(rows, none, none, 2, None).tolist() == [[0] * 3] * 2
    for target in ([0, 2], [-1, 0], [2, 0], [0, -1]):
        with pytest.raises(RuntimeError, match="bag out of range"):
            fb.ops.aten._sum_rows(rows, fb.tensor([0, 1]), fb.tensor(target), 2, None)


@pytest.mark.parametrize("width", [1, 3, 16, 70, 200])
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16, fb.float16])
def test_maxima_of_bags_are_exact(dtype, width):
    """Few distinct numbers, so that many maxima tie; bags of 0 to 60 rows."""
    rows = fb.from_numpy(RNG.integers(-20, 20, (2 * width, 60))).to(dtype).t()  # not contiguous
    target = np.sort(RNG.integers(0, 9, 200)) * 2
    target[90:150] = target[90]
    index = RNG.integers(0, 60, 200)
    values, places = fb.ops.aten._max_rows(rows[:, ::2], fb.tensor(index), fb.tensor(target), 19)
    assert values.dtype == dtype and places.shape == (19, width)
    dense = rows[:, ::2].double().numpy()
    for bag in range(19):
        named = index[target == bag]
        if len(named) == 0:
            assert (values[bag] == 0).all() and (places[bag] == -1).all()
            continue
        np.testing.assert_array_equal(values[bag].double().numpy(), dense[named].max(0))
        np.testing.assert_array_equal(places[bag].numpy(), named[dense[named].argmax(0)])


@pytest.mark.parametrize("width", [1, 40, 200])
def test_maxima_of_bags_with_not_a_number_and_infinity(width):
    nan, inf = float("nan"), float("inf")
    rows = fb.tensor([nan, 1.0, -inf, inf, 2.0]).unsqueeze(1).expand(5, width)
    index, offsets = fb.tensor([1, 0, 4, 0, 1, 2, 2, 1, 3, 4]), fb.tensor([0, 3, 5, 6, 7])
    values, _, _, places = fb.embedding_bag(rows, index, offsets, False, 2)
    np.testing.assert_array_equal(values[:, -1].numpy(), [2, nan, -inf, -inf, inf])
    np.testing.assert_array_equal(places[:, -1].numpy(), [4, 0, 2, 2, 3])


def test_the_first_of_equal_maxima_takes_the_gradient():
    weight = fb.ones(4, 3, requires_grad=True)
    bags_at = fb.tensor([0, 3, 3, 4, 4])
    found = F.embedding_bag(fb.tensor([2, 1, 2, 3, 0]), weight, bags_at, mode="max", padding_idx=0)
    found.sum().backward()
    assert found[:, 0].tolist() == [1, 0, 1, 0, 0]
    np.testing.assert_array_equal(weight.grad, [[0] * 3, [0] * 3, [1] * 3, [1] * 3])


def test_maxima_of_bags_refuse_targets_out_of_order():
    with pytest.raises(RuntimeError, match="ascending"):
        fb.ops.aten._max_rows(fb.ones(3, 2), fb.tensor([0, 1]), fb.tensor([1, 0]), 2)


def test_maxima_of_empty_bags():
    empty = fb.zeros(0, 3, requires_grad=True)
    values = F.embedding_bag(fb.zeros(0, dtype=fb.long), empty, fb.tensor([0, 0]), mode="max")
    values.sum().backward()
    assert values.eq(0).all() and values.shape == (2, 3) and empty.grad.shape == (0, 3)
    assert F.embedding_bag(fb.tensor([[0, 1]]), fb.zeros(2, 0), mode="max").shape == (1, 0)


def test_derivatives_of_maxima_of_bags():
    weight = fb.from_numpy(RNG.standard_normal((6, 3))).requires_grad_()
    index, target = fb.tensor([0, 2, 2, 5, 1]), fb.tensor([0, 0, 1, 1, 3])

    def function(w):
        return fb.ops.aten._max_rows(w, index, target, 4)[0]

    assert fb.autograd.gradcheck(function, (weight,), check_forward_ad=True)
    assert fb.autograd.gradgradcheck(function, (weight,))


def test_not_a_number_stays_in_its_bag():
    weight = fb.ones(3, 20)
    weight[1, 2] = float("nan")
    result = F.embedding_bag(fb.tensor([0, 1, 2, 0]), weight, fb.tensor([0, 2, 2]), mode="sum")
    assert result.isnan().any(1).tolist() == [True, False, False] and result[1].eq(0).all()


def test_derivatives_of_sums_of_rows():
    weight = fb.from_numpy(RNG.standard_normal((6, 3))).requires_grad_()
    scale = fb.from_numpy(RNG.random(5)).requires_grad_()
    index, target = fb.tensor([0, 2, 2, 5, 1]), fb.tensor([1, 0, 1, 1, 3])

    def function(w, s):
        return fb.ops.aten._sum_rows(w, index, target, 4, s)

    assert fb.autograd.gradcheck(function, (weight, scale), check_forward_ad=True)
    assert fb.autograd.gradgradcheck(function, (weight, scale))


def test_a_rows_gradient_can_be_divided_by_its_count():
    weight = fb.ones(4, 2, requires_grad=True)
    F.embedding_bag(
        fb.tensor([1, 1, 3]), weight, fb.tensor([0, 2]), mode="sum", scale_grad_by_freq=True
    ).sum().backward()
    np.testing.assert_allclose(weight.grad, [[0, 0], [1, 1], [0, 0], [1, 1]])


def test_long_rows_are_shortened_in_place():
    weight = fb.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    F.embedding(fb.tensor([0, 1, 0]), weight, max_norm=1.0)
    np.testing.assert_allclose(weight, [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda w: F.embedding(fb.tensor([7]), w), IndexError, "out of"),
        (lambda w: F.embedding(fb.tensor([0]), w, padding_idx=9), AssertionError, "within num_embeddings"),
        (lambda w: F.embedding(fb.tensor([0]), w[0]), RuntimeError, "expected a 2-D"),
        (lambda w: F.embedding(fb.tensor([0.5]), w), RuntimeError, "int64 or int32"),
        (lambda w: F.embedding_bag(fb.tensor([0]), w), ValueError, "offsets"),
        (lambda w: F.embedding_bag(fb.tensor([0]), w, fb.tensor([1])), RuntimeError, r"begin with 0"),
        (lambda w: F.embedding_bag(fb.tensor([[0]]), w, mode="min"), ValueError, "mode"),
        (lambda w: F.embedding_bag(fb.tensor([[3]]), w), RuntimeError, "out of range"),
        (lambda w: F.embedding_bag(fb.tensor([[3]]), w, mode="max"), RuntimeError, "out of range"),
        (lambda w: F.embedding_bag(fb.tensor([0]), w, fb.tensor([0, 9, 1])), IndexError, "offsets"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(fb.ones(3, 2))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64", "bool", "complex64"])
def test_sums_of_rows_refuse_what_is_not_real_floating(dtype):
    rows = fb.ones(4, 3).to(getattr(fb, dtype))
    with pytest.raises(NotImplementedError, match="floating"):
        fb.ops.aten._sum_rows(rows, fb.tensor([0, 1]), fb.tensor([0, 1]), 2, None)
    with pytest.raises(NotImplementedError, match="floating"):
        fb.ops.aten._max_rows(rows, fb.tensor([0, 1]), fb.tensor([0, 1]), 2)


RENORMS = [
    (3.0, 2.0),
    (3.0, 1.0),
    (3.0, INF),
    (1.0, 0.0),
    (3.0, -2.0),
    (-1.0, 2.0),
    (NAN, 2.0),
    (INF, 2.0),
    (3.0, NAN),
]


@pytest.mark.parametrize("limits", RENORMS)
def test_renorm_of_rows(limits):
    table = np.arange(12.0).reshape(3, 4) + 1
    for rows in ([0, 2], [1, 1, 1], [[0, 1], [1, 2]], 1, [0, -1]):
        same(lambda m, t, r=rows: m.embedding_renorm_(t, m.tensor(r), *limits), table, rtol=1e-14)
    same(lambda m, t: m.embedding_renorm_(t.t(), m.tensor([0, 3], dtype=m.int32), *limits), table, rtol=1e-14)


def test_renorm_returns_its_table():
    def program(m, t):
        empty = m.tensor([], dtype=m.int64)
        found = [m.embedding_renorm_(t, m.tensor([0]), 1.0, 2.0) is t]
        return [
            *found,
            t,
            m.embedding_renorm_(m.ones(0, 3), empty, 1.0, 2.0),
            m.embedding_renorm_(t, empty, 0.0, 2.0),
        ]

    same(program, np.ones((2, 3)), rtol=1e-14)


def test_renorm_of_special_values():
    rows = np.array([[NAN, 1.0], [INF, 1.0], [-INF, INF], [0.0, 0.0], [1e300, 1e300], [1e-300, 0.0]])
    same(lambda m, t: m.embedding_renorm_(t, m.arange(6), 1.0, 2.0), rows, rtol=1e-14)
    same(lambda m, t: m.embedding_renorm_(t, m.arange(6), 0.0, INF), rows, rtol=1e-14)
    same(
        lambda m, t: m.embedding_renorm_(t, m.arange(3), 1.0, 2.0),
        numbers(3, 2) + 1j * numbers(3, 2, seed=1),
        rtol=1e-6,
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_renorm_of_half_types(dtype):
    """Bound: one unit in the last place of the half type."""

    def program(m, t):
        return m.embedding_renorm_(t.to(getattr(m, dtype)), m.arange(5), 1.5, 2.0).to(m.float32)

    same(program, numbers(5, 7), rtol=2.0**-7 if dtype == "bfloat16" else 2.0**-10)


def test_renorm_refuses():
    def renorm(*sizes, rows=(0,), dtype="int64", of="float32"):
        def program(m):
            return m.embedding_renorm_(
                m.ones(sizes, dtype=getattr(m, of)), m.tensor(rows, dtype=getattr(m, dtype)), 1.0, 2.0
            )

        refuse_alike(program)

    renorm(3)
    renorm(3, 2, 2)
    renorm(3, 2, rows=(3,))
    renorm(3, 2, rows=(-4,))
    renorm(0, 2, rows=(0,))
    renorm(3, 2, dtype="int16")
    renorm(3, 2, dtype="float32")
    renorm(3, 2, dtype="bool")
    renorm(3, 2, of="int64")
    refuse_alike(lambda m: m.embedding_renorm_(m.ones(2, 3, requires_grad=True), m.tensor([0]), 1.0, 2.0))
