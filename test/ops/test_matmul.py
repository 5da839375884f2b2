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
