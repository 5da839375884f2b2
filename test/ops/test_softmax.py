"""softmax and log_softmax along dimensions whose fibers lie side by side: values, edges, gradients."""

import flambeau as fb
import numpy as np
import pytest
import scipy.special as sp

# (outer, n, inner): more than one block of columns, a rest of a vector, many runs of rows.
SHAPES = [(2, 5, 300), (1, 100, 17), (3, 33, 16), (2, 1, 40)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "reference"), [("softmax", sp.softmax), ("log_softmax", sp.log_softmax)])
def test_values_across_columns(shape, name, reference):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32) * 5
    got = getattr(fb, name)(fb.from_numpy(x), 1).numpy()
    np.testing.assert_allclose(got, reference(x.astype(np.float64), 1), rtol=2e-6, atol=2e-6)


def test_columns_do_not_mix_special_values():
    x = np.zeros((4, 32), np.float32)
    x[:, 3] = -np.inf
    x[1, 5] = np.nan
    x[2, 7] = np.inf
    x[0, 9] = -np.inf
    got = fb.softmax(fb.from_numpy(x), 0).numpy()
    bad = np.isnan(got).all(0)
    assert bad.nonzero()[0].tolist() == [3, 5, 7]
    np.testing.assert_allclose(got[:, 9], [0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_across_columns_are_those_of_rows(name):
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=(3, 40, 21)), rng.normal(size=(3, 40, 21))
    columns = fb.from_numpy(x).requires_grad_()
    getattr(fb, name)(columns, 1).backward(fb.from_numpy(g))
    rows = fb.from_numpy(x.transpose(0, 2, 1).copy()).requires_grad_()
    getattr(fb, name)(rows, 2).backward(fb.from_numpy(g.transpose(0, 2, 1).copy()))
    np.testing.assert_allclose(columns.grad.numpy(), rows.grad.numpy().transpose(0, 2, 1), atol=1e-13)


LARGE = [(1e6 + 10, 1.0), (-1e6, 1.0), (1e4, 8.0), (6e4, 32.0), (1.0, 1e-8), (3e4, 0.0)]


@pytest.mark.parametrize(("start", "step"), LARGE)
@pytest.mark.parametrize("columns", [1, 40])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_differences_of_large_elements_are_kept(start, step, columns, dtype):
    kind = getattr(fb, dtype)
    x = fb.tensor([start + k * step for k in range(3)], dtype=fb.float64).to(kind)
    if not x.isfinite().all():
        pytest.skip("beyond the dtype's range")
    exact = x.double().numpy()
    x = x[:, None].expand(3, columns).contiguous().requires_grad_()
    eps = 4 * fb.finfo(kind).eps
    want = sp.log_softmax(exact, 0)[:, None].repeat(columns, 1)
    found = fb.log_softmax(x, 0)
    np.testing.assert_allclose(found.detach().double().numpy(), want, rtol=eps, atol=eps)
    np.testing.assert_allclose(fb.softmax(x, 0).detach().double().numpy(), np.exp(want), rtol=eps, atol=eps)
    loss = fb.nn.functional.cross_entropy(x.t(), fb.tensor([1] * columns), reduction="sum")
    (grad,) = fb.autograd.grad(loss, x)
    np.testing.assert_allclose(loss.item(), -columns * want[1, 0], rtol=4 * eps, atol=4 * eps)
    np.testing.assert_allclose(grad.double().numpy(), np.exp(want) - [[0], [1], [0]], atol=4 * eps)


@pytest.mark.parametrize(("start", "step"), LARGE)
def test_shares_of_cumulative_sums_of_exponentials_add_up(start, step):
    x = fb.tensor([start + k * step for k in range(4)], dtype=fb.float32, requires_grad=True)
    fb.logcumsumexp(x, 0).sum().backward()
    np.testing.assert_allclose(x.grad.sum().item(), 4, rtol=1e-6)
    tangent = fb.func.jvp(lambda t: fb.logcumsumexp(t, 0), (x.detach(),), (fb.ones(4),))[1]
    np.testing.assert_allclose(tangent.numpy(), np.ones(4), rtol=1e-6)


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16])
@pytest.mark.parametrize("value", [-1e9, -800.0, -104.5, -float("inf")])
def test_hidden_elements_get_nothing(dtype, value):
    """Elements far below the largest one, along rows and columns."""
    fb.manual_seed(0)
    scores = fb.rand(33, 40).to(dtype)
    hidden = fb.rand(33, 40) < 0.3
    hidden[:, 0] = hidden[0] = False
    for dim in (0, 1):
        masked = scores.masked_fill(hidden, value)
        found = fb.softmax(masked, dim)
        bound = 1e-2 if dtype == fb.bfloat16 else 1e-6
        exact = (masked.double() - masked.double().amax(dim, True)).exp()
        exact = exact / exact.sum(dim, keepdim=True)
        assert fb.allclose(found.double(), exact, rtol=bound, atol=0 if dtype == fb.float64 else 1e-44)
        if value < -750 or dtype != fb.float64:
            assert not found[hidden].any()
        logarithm = fb.log_softmax(masked, dim)
        assert fb.allclose(logarithm[~hidden].double(), exact[~hidden].log(), rtol=bound, atol=bound)
