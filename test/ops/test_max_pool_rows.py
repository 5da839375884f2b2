"""Maxima of rows without places: against those with places, and what needs the places later."""

import flambeau as fb
import numpy as np
import pytest
from flambeau.nn import functional as F
from side_by_side import refuse_alike, same

GEOMETRIES = [
    (kernel, stride, padding, dilation, ceil)
    for kernel in (1, 2, 3, 4, 5, 7, 8, 9)
    for stride, dilation in ((1, 1), (2, 1), (3, 2), (4, 1), (5, 3))
    for padding, ceil in ((0, False), ((dilation * (kernel - 1) + 1) // 2, True))
]


def rows_with_special_numbers(*shape):
    """Few values, so that ties occur; NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, shape).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = np.nan
    x[rng.random(x.shape) < 0.1] = -np.inf
    x[rng.random(x.shape) < 0.02] = np.inf
    x[rng.random(x.shape) < 0.1] = -0.0
    x[..., 0, :9] = -np.inf
    return x


def alike(found, wanted):
    """Equal numbers of equal sign; NaN equals NaN."""
    a, b = found.double().numpy(), wanted.double().numpy()
    number = ~np.isnan(b)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a[number]), np.signbit(b[number])
    )


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.float16, fb.bfloat16], ids=str)
@pytest.mark.parametrize("width", [40, 67, 2100])
def test_values_are_those_with_places(dtype, width):
    x = fb.from_numpy(rows_with_special_numbers(2, 3, width)).to(dtype)
    for kernel, stride, padding, dilation, ceil in GEOMETRIES:
        options = {"dilation": dilation, "ceil_mode": ceil}
        found = F.max_pool1d(x, kernel, stride, padding, **options)
        wanted, _ = F.max_pool1d(x, kernel, stride, padding, **options, return_indices=True)
        assert found.dtype == dtype and found.is_contiguous()
        assert alike(found, wanted), (kernel, stride, padding, dilation, ceil)


def test_one_nan_at_every_place():
    """A vector compares two elements for NaN at once."""
    for kernel in range(1, 10):
        for place in range(kernel):
            x = fb.zeros(3, 64 * kernel)
            x[1, 20 * kernel + place] = float("nan")
            for stride in (kernel, 1, 2):
                found = F.max_pool1d(x, kernel, stride).isnan()
                windows = x.isnan().unfold(1, kernel, stride).any(-1)
                assert found.equal(windows), (kernel, place, stride)


def test_layouts_of_the_input():
    x = fb.from_numpy(rows_with_special_numbers(4, 6, 50))
    for given in (
        x.transpose(1, 2),
        x[:, ::2, 1::3],
        x[:1].expand(4, 6, 50),
        x.mT.contiguous().mT,
        x[0],
        x[:0],
    ):
        found = F.max_pool1d(given, 3, 2, 1)
        wanted, _ = F.max_pool1d(given.contiguous(), 3, 2, 1, return_indices=True)
        assert alike(found, wanted) and found.shape == wanted.shape


def test_kernels_beyond_the_row():
    x = fb.tensor([[1.0, 5.0, 2.0]])
    assert F.max_pool1d(x, 7, 1, 3).tolist() == [[5.0, 5.0, 5.0]]
    # Both elements of the window lie in the padding.
    assert F.max_pool1d(fb.ones(1, 2), 2, 1, 1, 3).tolist() == [[float("-inf")]]
    huge = 2**40
    assert F.max_pool1d(x, huge, huge, huge // 2).tolist() == [[5.0]]


@pytest.mark.parametrize("geometry", [(2, 2, 0, 1), (3, 1, 1, 1), (3, 5, 2, 2)])
def test_derivatives_agree_with_those_of_places(geometry):
    kernel, stride, padding, dilation = geometry
    x = fb.randperm(2 * 3 * 40, generator=fb.Generator().manual_seed(0)).reshape(2, 3, 40).double()
    tangent = fb.sin(x)

    def values(t):
        return F.max_pool1d(t, kernel, stride, padding, dilation)

    def with_places(t):
        return F.max_pool1d(t, kernel, stride, padding, dilation, return_indices=True)[0]

    for a, b in zip(
        fb.func.jvp(values, (x,), (tangent,)), fb.func.jvp(with_places, (x,), (tangent,)), strict=True
    ):
        assert a.equal(b)
    grads = [fb.func.grad(lambda t, f=f: (f(t) ** 2).sum())(x) for f in (values, with_places)]
    assert grads[0].equal(grads[1]) and grads[0].any()
    leaf = x.clone().requires_grad_()
    (values(leaf) ** 2).sum().backward()
    assert leaf.grad.equal(grads[0])
    assert fb.func.vmap(values)(x[:, None]).equal(values(x)[:, None])
    assert fb.func.vmap(fb.func.grad(lambda t: (values(t) ** 2).sum()))(x).equal(grads[0])
    with fb.no_grad():
        assert not values(leaf).requires_grad
    with fb.autograd.forward_ad.dual_level():
        dual = values(fb.autograd.forward_ad.make_dual(x, tangent))
        expected = fb.func.jvp(with_places, (x,), (tangent,))[1]
        assert fb.autograd.forward_ad.unpack_dual(dual).tangent.equal(expected)
    assert fb.autograd.gradcheck(values, (leaf,), check_forward_ad=True)
    assert fb.autograd.gradgradcheck(values, (leaf,))


@pytest.mark.parametrize(
    "arguments",
    [((2, 2),), (0,), (2, 0), (2, 1, 2), (7,), (2, 1, 0, 0), (2, -1), (3, 1, -1)],
    ids=str,
)
@pytest.mark.parametrize("tracked", [False, True])
def test_refusals(arguments, tracked):
    refuse_alike(lambda m: m.max_pool1d(m.ones(2, 6, requires_grad=tracked), *arguments))


def test_results_as_in_pytorch():
    x = rows_with_special_numbers(3, 5, 33)
    same(lambda m, t: [m.max_pool1d(t, *a) for a in ((2,), (3, 1), (3, 2, 1), (4, 3, 2, 1), (5, 7, 0, 2))], x)
