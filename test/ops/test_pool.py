"""Pooling variants."""

import itertools

import flambeau as fb
import numpy as np
import pytest
from flambeau.nn import functional as F
from side_by_side import same

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_windows_hold_their_maxima(dims):
    x = fb.from_numpy(RNG.standard_normal((2, 3, *[9] * dims)))
    pool = (F.fractional_max_pool2d, F.fractional_max_pool3d)[dims - 2]
    values, places = pool(x, 3, output_size=4, return_indices=True)
    flat = x.flatten(2)
    assert (flat.gather(2, places.flatten(2)) == values.flatten(2)).all()
    corner = tuple(slice(0, 3) for _ in range(dims))
    assert (values[(slice(None), slice(None), *[0] * dims)] == x[(..., *corner)].flatten(2).amax(2)).all()
    assert values.flatten(2).amax(2).equal(flat.amax(2)) or 4 * 3 < 9


def test_fractional_pooling_follows_the_seed():
    x = fb.from_numpy(RNG.standard_normal((1, 2, 12, 12)))
    results = []
    for _ in range(2):
        fb.manual_seed(3)
        results.append(F.fractional_max_pool2d(x, 2, output_ratio=0.5))
    assert results[0].equal(results[1])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling_puts_maxima_back(dims):
    x = fb.from_numpy(RNG.permutation(2 * 6**dims).reshape(1, 2, *[6] * dims).astype(float))
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
    unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[dims - 1]
    values, places = pool(x, 2, return_indices=True)
    result = unpool(values, places, 2)
    assert result.shape == x.shape
    assert ((result == x) | (result == 0)).all()
    assert result.sum() == values.sum()


def test_unpooling_refuses_indices_outside():
    with pytest.raises(RuntimeError, match="invalid max index: 4"):
        F.max_unpool1d(fb.ones(1, 1, 1), fb.tensor([[[4]]]), 2, output_size=[3])


def test_lp_pool_of_order_one_is_a_sum():
    x = fb.rand(1, 2, 8)
    np.testing.assert_allclose(F.lp_pool1d(x, 1, 4), x.reshape(1, 2, 2, 4).sum(-1), rtol=1e-6)


def test_means_of_integers_are_cut():
    x = fb.tensor([[[1, 2, 4, 5]]])
    assert F.avg_pool1d(x, 2).tolist() == [[[1, 4]]]


@pytest.mark.parametrize("output", [1, (1, 5), (7, 1), 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_means_over_wide_planes(output, dtype):
    x = np.random.default_rng(0).normal(size=(2, 3, 70, 90)) + 100
    t = fb.from_numpy(x).to(getattr(fb, dtype))
    rows, columns = (output, output) if isinstance(output, int) else output
    exact = t.double().numpy()
    want = np.empty((2, 3, rows, columns))
    for i in range(rows):
        for j in range(columns):
            band = exact[:, :, i * 70 // rows : -(-(i + 1) * 70 // rows)]
            want[:, :, i, j] = band[..., j * 90 // columns : -(-(j + 1) * 90 // columns)].mean((2, 3))
    got = F.adaptive_avg_pool2d(t, output).double().numpy()
    np.testing.assert_allclose(got, want, rtol={"float32": 2e-7, "float64": 1e-14, "bfloat16": 4e-3}[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64"])
@pytest.mark.parametrize("memory_format", ["contiguous_format", "channels_last"])
def test_windows_that_step_over_the_input_have_no_maximum(dtype, memory_format):
    """Both places of the window lie in the padding; a read there would be outside of the tensor."""
    x = fb.ones(2, 3, 2, 2).contiguous(memory_format=getattr(fb, memory_format)).to(getattr(fb, dtype))
    values, places = F.max_pool2d(x, 2, 1, 1, 3, return_indices=True)
    lowest = -float("inf") if x.is_floating_point() else fb.iinfo(x.dtype).min
    assert (values == lowest).all() and values.shape == (2, 3, 1, 1) and (places == 6).all()


def maxima_by_definition(x, kernel, stride, padding, dilation):
    """First maximum of each window in the order of memory; of several NaN the last."""
    height, width = x.shape[-2:]
    rows, columns = (
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in x.shape[-2:]
    )
    values = np.empty((*x.shape[:-2], rows, columns), x.dtype)
    places = np.empty(values.shape, np.int64)
    for i, j in np.ndindex(rows, columns):
        for plane in np.ndindex(*x.shape[:-2]):
            window = [
                (x[(*plane, r, c)], r * width + c)
                for r in range(i * stride - padding, i * stride - padding + dilation * kernel, dilation)
                for c in range(j * stride - padding, j * stride - padding + dilation * kernel, dilation)
                if 0 <= r < height and 0 <= c < width
            ]
            found = next(((v, at) for v, at in reversed(window) if np.isnan(v)), None)
            found = found or max(window, key=lambda pair: (pair[0], -pair[1]))
            values[(*plane, i, j)], places[(*plane, i, j)] = found
    return values, places


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "geometry", [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (3, 3, 1, 2), (2, 5, 0, 3), (5, 4, 2, 1)]
)
def test_maxima_with_ties_and_nan(dtype, geometry):
    kernel, stride, padding, dilation = geometry
    rng = np.random.default_rng(kernel)
    x = rng.integers(-3, 4, (2, 2, 23, 37)).astype("float64" if dtype == "float64" else "float32")
    x[rng.random(x.shape) < 0.05] = np.nan
    x[rng.random(x.shape) < 0.1] = -np.inf
    x[0, 1, :9, :9] = -np.inf
    given = fb.from_numpy(x).to(getattr(fb, dtype))  # all values are exact in every dtype
    values, places = F.max_pool2d(given, kernel, stride, padding, dilation, return_indices=True)
    want_values, want_places = maxima_by_definition(x, kernel, stride, padding, dilation)
    assert np.array_equal(places.numpy(), want_places)
    assert values.dtype == given.dtype
    assert np.array_equal(values.double().numpy(), want_values, equal_nan=True)


@pytest.mark.parametrize("dims", [2, 3])
def test_sizes_that_fractional_pooling_accepts(dims):
    """In each dimension, and for volumes one place less than in planes."""

    def accepts(m, size, kernel, output, at):
        pool = (m.nn.functional.fractional_max_pool2d, m.nn.functional.fractional_max_pool3d)[dims - 2]
        kernels, outputs = [1] * dims, [2] * dims
        kernels[at], outputs[at] = kernel, output
        try:
            return list(pool(m.ones(1, 2, *[size] * dims), kernels, outputs).shape)
        except Exception as error:
            return type(error).__name__

    def program(m):
        sizes = itertools.product((3, 5), (1, 2, 3, 6), range(7), range(dims))
        return [accepts(m, *case) for case in sizes]

    same(program)


def test_integer_gradients_of_one_place_wrap_around():
    grad, places = fb.full((1, 1, 2), 2**63 - 1), fb.zeros(1, 1, 2, dtype=fb.int64)
    found = fb._C._functions._max_pool_backward(grad, places, [1, 1, 4], 1)
    assert found.tolist() == [[[-2, 0, 0, 0]]]
