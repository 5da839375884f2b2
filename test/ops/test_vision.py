"""Sampling at places and the grids for it."""

import functools

import flambeau as fb
import numpy as np
import pytest
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)


def image(*sizes):
    return fb.from_numpy(RNG.standard_normal(sizes))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_the_identity_map_gives_the_image_back(sizes, mode, align_corners):
    x = image(*sizes)
    dims = len(sizes) - 2
    theta = fb.eye(dims, dims + 1, dtype=fb.float64).expand(sizes[0], -1, -1)
    grid = F.affine_grid(theta, sizes, align_corners=align_corners)
    result = F.grid_sample(x, grid, mode, align_corners=align_corners)
    np.testing.assert_allclose(result.numpy(), x.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_every_channel_is_sampled_alike(mode, padding):
    x, grid = image(2, 7, 9, 11), image(2, 20, 30, 2)  # places inside, outside and on edges
    x[:, 3, 4, 5] = float("inf")
    grid[0, 0, 0, 0] = float("nan")
    grid[0, 0, 1] = 1e30
    whole = F.grid_sample(x, grid, mode, padding, align_corners=False)
    for c in range(7):
        alone = F.grid_sample(x[:, c : c + 1], grid, mode, padding, align_corners=False)
        np.testing.assert_array_equal(whole[:, c : c + 1].numpy(), alone.numpy())


def test_places_between_elements_are_interpolated():
    x = fb.tensor([[[[1.0, 2.0], [3.0, 5.0]]]])
    grid = fb.tensor([[[[0.0, 0.0], [0.0, -1.0], [0.5, -1.0]]]])
    assert F.grid_sample(x, grid, align_corners=True).flatten().tolist() == [2.75, 1.5, 1.75]


@pytest.mark.parametrize(
    ("padding", "expected"),
    [("zeros", [0.0, 0.0]), ("border", [1.0, 4.0]), ("reflection", [2.0, 3.0])],
)
def test_outside(padding, expected):
    x = fb.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
    step = 2 / 3
    grid = fb.tensor([[[[-1 - step, 0.0], [1 + step, 0.0]]]])
    result = F.grid_sample(x, grid, "nearest", padding, align_corners=True)
    assert result.flatten().tolist() == expected


def test_a_place_that_is_nan_or_far_away_reads_no_memory():
    x = image(1, 1, 3, 3)
    grid = fb.tensor([[[[float("nan"), 0.0], [1e30, -1e30], [float("inf"), 0.0]]]], dtype=fb.float64)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            assert F.grid_sample(x, grid, mode, padding, align_corners=False).shape == (1, 1, 1, 3)


@pytest.mark.parametrize(
    ("x", "grid", "message"),
    [
        ((1, 1, 3, 3), (2, 1, 1, 2), "batches of equal size"),
        ((1, 1, 3, 3), (1, 1, 1, 3), "ends in size 2"),
        ((1, 1, 0, 3), (1, 1, 1, 2), "elements in all spatial dimensions"),
        ((1, 1, 3), (1, 1, 2), "4 dimensions each, or of 5"),
    ],
)
def test_errors(x, grid, message):
    with pytest.raises(RuntimeError, match=message):
        F.grid_sample(fb.zeros(x), fb.zeros(grid), align_corners=False)


@pytest.mark.parametrize("factor", [(2, 2), (1.5, 0.7)])
def test_scale_factors_place_the_samples(factor):
    x = image(1, 1, 7, 9)
    given = F.interpolate(x, scale_factor=factor, mode="bilinear")
    assert given.shape[2:] == tuple(int(n * f) for n, f in zip((7, 9), factor, strict=True))
    by_size = F.interpolate(x, scale_factor=factor, mode="bilinear", recompute_scale_factor=True)
    np.testing.assert_allclose(by_size, F.interpolate(x, size=given.shape[2:], mode="bilinear"))


def test_bytes_are_rounded():
    x = fb.tensor([[[[0, 255], [10, 20]]]], dtype=fb.uint8)
    result = F.interpolate(x, size=(3, 3), mode="bilinear", align_corners=True)
    assert result.dtype == fb.uint8
    assert result.flatten().tolist() == [0, 128, 255, 5, 71, 138, 10, 15, 20]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"size": 3, "scale_factor": 2}, ValueError),
        ({}, ValueError),
        ({"size": 3, "mode": "nearest", "align_corners": True}, ValueError),
        ({"size": 3, "mode": "linear"}, NotImplementedError),
        ({"size": (3, 3, 3)}, ValueError),
        ({"size": 3, "mode": "nearest", "antialias": True}, ValueError),
        ({"size": 0}, RuntimeError),
    ],
)
def test_interpolate_refuses_what_does_not_fit(arguments, error):
    with pytest.raises(error):
        F.interpolate(fb.zeros(1, 1, 4, 4), **arguments)


def test_grid_samplers_by_dimension_are_grid_sampler() -> None:
    flat, volume = fb.randn(1, 2, 4, 5), fb.randn(1, 2, 3, 4, 5)
    at, inside = fb.rand(1, 3, 2, 2) * 2 - 1, fb.rand(1, 2, 3, 2, 3) * 2 - 1
    assert fb.grid_sampler_2d(flat, at, 0, 1, True).equal(fb.grid_sampler(flat, at, 0, 1, True))
    assert fb.grid_sampler_3d(volume, inside, 1, 0, False).equal(fb.grid_sampler(volume, inside, 1, 0, False))
    with pytest.raises(RuntimeError, match="4 dimensions"):
        fb.grid_sampler_2d(volume, inside, 0, 0, False)


def test_antialiased_operator_is_interpolate() -> None:
    images = fb.randn(2, 3, 8, 6)
    want = fb.nn.functional.interpolate(images, (3, 9), mode="bilinear", antialias=True)
    assert fb.allclose(fb.ops.aten._upsample_bilinear2d_aa(images, (3, 9), False), want, atol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [False, True])
def test_second_derivatives_of_grid_sampling(mode, padding, corners):
    fb.manual_seed(0)
    image = fb.randn(2, 2, 4, 5, dtype=fb.float64, requires_grad=True)
    grid = (fb.rand(2, 3, 2, 2, dtype=fb.float64) * 2.6 - 1.3).requires_grad_()
    sample = functools.partial(F.grid_sample, mode=mode, padding_mode=padding, align_corners=corners)
    assert fb.autograd.gradcheck(sample, (image, grid), check_forward_ad=True)
    assert fb.autograd.gradgradcheck(sample, (image, grid), check_fwd_over_rev=True)


def test_second_derivatives_of_volumes():
    fb.manual_seed(0)
    volume = fb.randn(1, 2, 3, 4, 3, dtype=fb.float64, requires_grad=True)
    grid = (fb.rand(1, 2, 2, 2, 3, dtype=fb.float64) * 2 - 1).requires_grad_()
    sample = functools.partial(F.grid_sample, align_corners=False)
    assert fb.autograd.gradcheck(sample, (volume, grid), check_forward_ad=True)
    assert fb.autograd.gradgradcheck(sample, (volume, grid), check_fwd_over_rev=True)
