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
