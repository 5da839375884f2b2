"""Losses: what the generated tests cannot know."""

import itertools
import math

import flambeau as fb
import numpy as np
import pytest
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)


def drawn(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def collapsed(path, blank):
    """The labels of a path: repetitions and blanks dropped."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


def by_paths(log_probs, target, blank):
    """-ln of the summed probability of all paths that collapse to the target."""
    times, classes = log_probs.shape
    total = sum(
        math.exp(sum(log_probs[t, label] for t, label in enumerate(path)))
        for path in itertools.product(range(classes), repeat=times)
        if collapsed(path, blank) == target
    )
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("target", [[], [1], [1, 1], [1, 3, 1], [3, 3, 3]])
def test_ctc_is_the_sum_over_all_paths(target, blank):
    scores = fb.from_numpy(RNG.standard_normal((5, 4))).log_softmax(-1)
    labels = fb.tensor(target, dtype=fb.int64)
    loss = F.ctc_loss(scores, labels, 5, len(target), blank, reduction="none")
    assert loss.item() == pytest.approx(by_paths(scores.numpy(), target, blank), rel=1e-12)


def test_ctc_gradient_through_log_softmax():
    x = RNG.standard_normal((6, 2, 4))
    targets = fb.tensor([[1, 2, 1], [3, 3, 0]])

    def loss(values):
        return F.ctc_loss(values.log_softmax(-1), targets, [6, 5], [3, 2], reduction="sum")

    scores = fb.from_numpy(x).requires_grad_()
    loss(scores).backward()
    for place in [(0, 0, 0), (3, 1, 2), (5, 1, 1), (4, 0, 3)]:
        step = np.zeros_like(x)
        step[place] = 1e-6
        change = loss(fb.from_numpy(x + step)) - loss(fb.from_numpy(x - step))
        assert scores.grad[place].item() == pytest.approx(change.item() / 2e-6, abs=1e-8)


def test_ctc_targets_may_be_one_vector():
    scores = fb.from_numpy(RNG.standard_normal((6, 2, 4))).log_softmax(-1)
    rows = F.ctc_loss(scores, fb.tensor([[1, 2, 1], [3, 3, 0]]), [6, 5], [3, 2], reduction="none")
    joined = F.ctc_loss(scores, fb.tensor([1, 2, 1, 3, 3]), [6, 5], [3, 2], reduction="none")
    assert rows.tolist() == joined.tolist()


def test_ctc_targets_that_do_not_fit_are_infinite_or_count_zero():
    scores = fb.zeros(2, 1, 3).log_softmax(-1).requires_grad_()
    arguments = (scores, fb.tensor([[1, 1]]), [2], [2])
    assert F.ctc_loss(*arguments).item() == math.inf
    loss = F.ctc_loss(*arguments, zero_infinity=True)
    loss.backward()
    assert loss.item() == 0 and (scores.grad == 0).all()


def test_labels_of_multilabel_margin_end_at_the_first_minus_one():
    x = fb.tensor([[0.1, 0.2, 0.4, 0.8]])
    loss = F.multilabel_margin_loss(x, fb.tensor([[3, 0, -1, 1]]))
    expected = sum(1 - (a - b) for a in (0.8, 0.1) for b in (0.2, 0.4)) / 4
    assert loss.item() == pytest.approx(expected)


def test_older_switches_of_reduction_warn():
    x, y = fb.ones(3), fb.zeros(3)
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert F.mse_loss(x, y, size_average=False).item() == 3
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert F.mse_loss(x, y, reduce=False).shape == (3,)


def test_weights_of_elements_make_a_weighted_mean():
    x, y, w = fb.tensor([1.0, 3.0]), fb.zeros(2), fb.tensor([3.0, 1.0])
    assert F.mse_loss(x, y, weight=w).item() == (3 * 1 + 9) / 4
    with pytest.raises(ValueError, match="of the input's size"):
        F.mse_loss(x, y, weight=fb.ones(1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: F.mse_loss(x, x, reduction="max"), ValueError, "reduction: expected"),
        (lambda x: F.nll_loss(x, fb.tensor([0])), ValueError, "batch_size"),
        (lambda x: F.triplet_margin_loss(x, x, x, margin=0), ValueError, "margin > 0"),
        (lambda x: F.gaussian_nll_loss(x, x, -x), ValueError, "negative"),
        (lambda x: F.multi_margin_loss(x, fb.tensor([0, 1]), p=3), ValueError, "p of 1 or 2"),
        (lambda x: F.smooth_l1_loss(x, x, beta=-1), RuntimeError, "beta >= 0"),
        (lambda x: F.ctc_loss(x.unsqueeze(1), fb.tensor([[7]]), [2], [1]), RuntimeError, "targets below"),
        (lambda x: F.ctc_loss(x.unsqueeze(1), fb.tensor([[1]]), [3], [1]), RuntimeError, "from 0 to 2"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(fb.ones(2, 3))


def test_ctc_tangents_are_those_of_its_gradient():
    scores = fb.tensor(drawn(6, 2, 5, dtype=np.float64))
    change = fb.tensor(drawn(6, 2, 5, seed=1, dtype=np.float64))
    targets = fb.tensor([[1, 2, 2], [3, 1, 0]])

    def loss(values):
        return F.ctc_loss(values.log_softmax(-1), targets, [6, 5], [3, 2], reduction="sum")

    tangent = fb.func.jvp(loss, (scores,), (change,))[1]
    assert tangent.item() == pytest.approx((fb.func.grad(loss)(scores) * change).sum().item(), rel=1e-9)


def test_linear_cross_entropy_in_chunks_is_that_of_the_whole():
    x, w = (fb.tensor(drawn(*shape, dtype=np.float64)).requires_grad_() for shape in ((7, 3), (5, 3)))
    bias, scale = fb.tensor(drawn(5, dtype=np.float64)), fb.tensor(drawn(5, dtype=np.float64)).abs()
    classes = fb.tensor([0, 4, -100, 2, 1, 1, 3])
    chances = fb.tensor(drawn(7, 5, dtype=np.float64)).softmax(1)
    options = fb.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    for target in (classes, chances):
        for reduction in ("mean", "sum", "none"):
            given = {"linear_bias": bias, "weight": scale, "reduction": reduction, "label_smoothing": 0.1}
            whole = F.linear_cross_entropy(x, w, target, **given)
            parts = F.linear_cross_entropy(x, w, target, **given, options=options)
            np.testing.assert_allclose(parts.detach().numpy(), whole.detach().numpy(), rtol=1e-12)
            ours, theirs = (fb.autograd.grad(v.sum(), (x, w)) for v in (parts, whole))
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def test_linear_cross_entropy_refuses_unknown_options():
    for bad in (
        {"batch_chunk_size": 0},
        {"chunking_method": "x"},
        {"acc_policy": "z"},
        {"acc_dtype": fb.int32},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            fb.nn.LinearCrossEntropyOptions(**bad)
