"""unique, mode, quantile, histogram and friends: what the generated tests cannot know."""

import flambeau as fb
import numpy as np
import pytest

NAN = float("nan")


def test_unique_returns_what_is_asked_for() -> None:
    x = fb.tensor([[3, 1], [3, 2]])
    assert fb.unique(x).tolist() == [1, 2, 3]
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 2, 3], [1, 1, 2])
    assert inverse.tolist() == [[2, 0], [2, 1]]
    assert fb.unique(fb.zeros(0)).tolist() == []


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("low_high", [(0, 2), (-100, 100), (-(2**62), 2**62)])
def test_unique_of_integers_equals_numpy(dtype: str, low_high: tuple[int, int]) -> None:
    x = np.random.default_rng(0).integers(*low_high, (90, 50)).astype(dtype)
    x[0, :2] = np.array(low_high).astype(dtype)
    got = fb.unique(fb.from_numpy(x), return_inverse=True, return_counts=True)
    want = np.unique(x, return_inverse=True, return_counts=True)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours.numpy().reshape(theirs.shape), theirs)
    assert got[1].shape == x.shape
    values, counts = fb.unique(fb.from_numpy(x), return_counts=True)
    np.testing.assert_array_equal(values.numpy(), want[0])
    np.testing.assert_array_equal(counts.numpy(), want[2])


def test_nan_equals_no_other_nan() -> None:
    assert fb.unique(fb.tensor([NAN, 1.0, NAN])).shape == (3,)
    assert fb.unique_consecutive(fb.tensor([NAN, NAN])).shape == (2,)


def test_unique_slices_equal_numpy() -> None:
    x = np.array([[1, 2], [0, 5], [1, 2]])
    values, inverse, counts = fb.unique(fb.tensor(x), return_inverse=True, return_counts=True, dim=0)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([[0, 5], [1, 2]], [1, 0, 1], [1, 2])


def test_unique_consecutive_keeps_the_order() -> None:
    values, counts = fb.unique_consecutive(fb.tensor([2, 2, 1, 2]), return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([2, 1, 2], [2, 1, 1])


def test_quantile_of_nan() -> None:
    x = fb.tensor([1.0, NAN, 3.0])
    assert fb.quantile(x, 0.5).isnan()
    assert fb.nanquantile(x, 0.5).item() == 2.0
    assert fb.nanmedian(x).item() == 1.0


def test_the_gradient_of_a_median_is_shared_by_equal_elements() -> None:
    x = fb.tensor([1.0, 1.0, 5.0], requires_grad=True)
    fb.median(x).backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.0]


def test_histogramdd_equals_numpy() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    hist, edges = fb.histogramdd(fb.tensor(x), [3, 4])
    want, want_edges = np.histogramdd(x, [3, 4])
    assert hist.tolist() == want.tolist()
    for ours, theirs in zip(edges, want_edges, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs)


def test_gradient_on_places() -> None:
    x = fb.tensor([0.0, 1.0, 3.0, 6.0], dtype=fb.float64)
    (slope,) = fb.gradient(x * x, spacing=(x,), edge_order=2)
    np.testing.assert_allclose(slope.numpy(), 2 * x.numpy())
    with pytest.raises(RuntimeError, match="edge_order"):
        fb.gradient(x, edge_order=3)


def test_unravel_index() -> None:
    rows, columns = fb.unravel_index(fb.tensor([5, 0]), (2, 3))
    assert (rows.tolist(), columns.tolist()) == ([1, 0], [2, 0])


def test_einsum_of_three_operands_contracts_the_cheapest_pair_first() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(20, 3)), rng.normal(size=(3, 20)), rng.normal(size=(20,))
    ours = fb.einsum("ij,jk,k->i", fb.tensor(a), fb.tensor(b), fb.tensor(c))
    np.testing.assert_allclose(ours.numpy(), a @ (b @ c))
