"""embedding and embedding_bag."""

import flambeau as fb
import numpy as np
import pytest
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)
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
        (lambda w: F.embedding(fb.tensor([0]), w[0]), RuntimeError, "must be 2-D"),
        (lambda w: F.embedding(fb.tensor([0.5]), w), RuntimeError, "int64 or int32"),
        (lambda w: F.embedding_bag(fb.tensor([0]), w), ValueError, "offsets"),
        (lambda w: F.embedding_bag(fb.tensor([0]), w, fb.tensor([1])), RuntimeError, r"begin with 0"),
        (lambda w: F.embedding_bag(fb.tensor([[0]]), w, mode="min"), ValueError, "mode"),
        (lambda w: F.embedding_bag(fb.tensor([[3]]), w), IndexError, "out of range"),
        (lambda w: F.embedding_bag(fb.tensor([0]), w, fb.tensor([0, 9, 1])), IndexError, "offsets"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(fb.ones(3, 2))
