"""Copies through views that step backwards."""

import itertools

import flambeau as fb
import numpy as np
import pytest


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(67,), (3, 33), (2, 40, 41)])
def test_flip_of_every_element_size(dtype, shape):
    x = (np.arange(np.prod(shape)).reshape(shape) % 251).astype(dtype)
    for count in range(len(shape) + 1):
        for dims in itertools.combinations(range(len(shape)), count):
            np.testing.assert_array_equal(fb.from_numpy(x).flip(dims).numpy(), np.flip(x, dims))
            turned = fb.from_numpy(x).transpose(0, -1)
            np.testing.assert_array_equal(turned.flip(dims).numpy(), np.flip(x.swapaxes(0, -1), dims))
