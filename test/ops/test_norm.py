"""Normalisations that return their statistics, weights more exact than what they scale, one pass for all."""

import math

import flambeau as fb
import flambeau.autograd.forward_ad as forward
import numpy as np
import pytest
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)
# Sizes, those of weight and bias, and the dimensions normalised over: as layer, batch, instance and
# group norm have them, with channels first and last, long runs and short ones.
LAYOUTS = [
    ((5, 7), (7,), (1,)),
    ((7,), (7,), (0,)),
    ((1, 2, 3), (1, 2, 3), (0, 1, 2)),
    ((1, 40), (1, 40), (0, 1)),
    ((6, 2), (1, 1), (0, 1)),
    ((1, 3), (3,), (0,)),
    ((3, 2, 5), (2, 5), (1, 2)),
    ((40, 6), (6,), (0,)),
    ((4, 6, 3, 5), (6, 1, 1), (0, 2, 3)),
    ((2, 6, 8, 8), (6, 1, 1), (0, 2, 3)),
    ((3, 4, 50), (4, 1), (2,)),
    ((3, 2, 4, 40), (2, 4, 1), (2, 3)),
    ((70, 2, 2, 3), (2, 2, 1), (2, 3)),
    ((3, 20, 2, 4), (2, 4), (1, 3)),
    ((3, 5, 2, 40), (2, 40), (1, 3)),
    ((3, 5, 1, 40), (1, 40), (1, 3)),
    ((1, 1, 6, 4), (1, 6, 1), (2, 3)),
]


def made(*shape):
    return fb.from_numpy(RNG.standard_normal(shape))


def normalised(x, weight, bias, dim):
    center = x.mean(dim, keepdim=True)
    return (x - center) * ((x - center) ** 2).mean(dim, keepdim=True).add(1e-3).rsqrt() * weight + bias


@pytest.mark.parametrize(("sizes", "affine", "dim"), LAYOUTS)
def test_one_pass_is_what_its_parts_are(sizes, affine, dim) -> None:
    x, w, b, g = (made(*s).requires_grad_() for s in (sizes, affine, affine, sizes))
    output = fb.ops.aten._normalize_affine(x, w, b, dim, 1e-3)[0]
    expected = normalised(x, w, b, dim)
    np.testing.assert_allclose(output.detach(), expected.detach(), rtol=1e-11, atol=1e-12)
    # By the kernel, by operators, and by those of the formula.
    wanted = fb.autograd.grad(expected, (x, w, b), g.detach())
    for again in (False, True):
        found = fb.autograd.grad(output, (x, w, b), g, create_graph=again, retain_graph=True)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.detach(), other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("sizes", "trailing"), [((5, 7), 1), ((7,), 1), ((3, 2, 50), 2), ((1, 1, 4), 3), ((2, 1, 4), 2)]
)
def test_root_mean_square_is_what_its_parts_are(sizes, trailing, weighted) -> None:
    shape, dim = sizes[-trailing:], tuple(range(-trailing, 0))
    x, w, g = made(*sizes).requires_grad_(), made(*shape).requires_grad_(), made(*sizes)
    operands = (x, w) if weighted else (x,)
    expected = x * (x * x).mean(dim, keepdim=True).add(1e-3).rsqrt() * (w if weighted else 1.0)
    output = F.rms_norm(x, shape, w if weighted else None, 1e-3)
    np.testing.assert_allclose(output.detach(), expected.detach(), rtol=1e-11, atol=1e-12)
    wanted = fb.autograd.grad(expected, operands, g)
    for again in (False, True):
        found = fb.autograd.grad(output, operands, g, create_graph=again, retain_graph=True)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.detach(), other, rtol=1e-9, atol=1e-11)
    function = lambda *t: fb.ops.aten._normalize_rms(t[0], *(t[1:] or (None,)), dim, 1e-3)  # noqa: E731
    assert fb.autograd.gradcheck(function, operands, check_forward_ad=True)
    assert fb.autograd.gradgradcheck(function, operands)


def test_root_mean_square_of_special_rows() -> None:
    x = fb.tensor([[1.0, math.nan], [math.inf, 1.0], [0.0, 0.0], [3e38, 3e38], [1e-30, -1e-30]])
    found = F.rms_norm(x, (2,), eps=0.0).tolist()
    assert all(math.isnan(v) for v in found[0]) and math.isnan(found[1][0]) and found[1][1] == 0
    assert all(math.isnan(v) for v in found[2])  # 0 / 0
    assert found[3] == [0.0, 0.0]  # the square overflows, as that of the parts does
    for sizes in [(0, 4), (3, 0), (0,)]:
        empty = fb.zeros(sizes, requires_grad=True)
        F.rms_norm(empty, sizes[-1:], fb.ones(sizes[-1:])).sum().backward()
        assert empty.grad.shape == sizes


def test_batches_of_dimensions_that_do_not_exist_are_refused() -> None:
    """The batching rule of one operator once called that operator again, without an end."""
    function = fb.ops.aten._normalize_rms
    x, weights = made(3, 4, 5), made(3, 5)
    for dim in ((7,), (2, 2), (-9,)):
        for operands in ((x, None), (x, made(5))):
            with pytest.raises((IndexError, RuntimeError)):
                fb.vmap(lambda a, d=dim, w=operands[1]: function(a, w, d, 1e-3)[0])(operands[0])
    found = fb.vmap(lambda a, w: function(a, w, (1,), 1e-3)[0])(x, weights)
    expected = fb.stack([function(a, w, (1,), 1e-3)[0] for a, w in zip(x, weights, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_large_mean_does_not_cancel_in_root_mean_square() -> None:
    x = fb.full((2, 1000), 1e4) + fb.arange(1000.0) * 1e-2
    x.requires_grad_()
    wide = x.detach().double().requires_grad_()
    g = fb.from_numpy(RNG.standard_normal((2, 1000)).astype(np.float32))
    for t in (x, wide):
        F.rms_norm(t, (1000,)).backward(g.to(t.dtype))
    scale = float(wide.grad.abs().max())
    np.testing.assert_allclose(x.grad, wide.grad, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_derivatives_with_and_without_weights(weighted, shifted) -> None:
    x, w, b = made(2, 4, 3), made(4, 1), made(4, 1)

    def function(x, w, b):
        return fb.ops.aten._normalize_affine(x, w if weighted else None, b if shifted else None, (0, 2), 1e-3)

    inputs = tuple(t.requires_grad_() for t in (x, w, b))
    assert fb.autograd.gradcheck(function, inputs, check_forward_ad=True)
    assert fb.autograd.gradgradcheck(function, inputs)


def test_tangents_go_through_backward() -> None:
    x, w, t = made(2, 4, 3), made(4, 1), made(2, 4, 3)

    def gradient(x):
        y = fb.ops.aten._normalize_affine(x, w, None, (0, 2), 1e-3)[0]
        return fb.autograd.grad((y**3).sum(), x, create_graph=True)[0]

    x.requires_grad_()
    expected = fb.autograd.grad((gradient(x) * t).sum(), x)[0]
    _, found = fb.func.jvp(
        fb.func.grad(lambda x: (fb.ops.aten._normalize_affine(x, w, None, (0, 2), 1e-3)[0] ** 3).sum()),
        (x.detach(),),
        (t,),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    with forward.dual_level():
        dual = forward.make_dual(x.detach().requires_grad_(), t)
        y = fb.ops.aten._normalize_affine(dual, w, None, (0, 2), 1e-3)[0]
        (own,) = fb.autograd.grad((y**3).sum(), dual)
        np.testing.assert_allclose(forward.unpack_dual(own).tangent.detach(), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("format", [fb.contiguous_format, fb.channels_last])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_group_norm_where_channels_lie_last_too(groups, format) -> None:
    x, w, b = made(3, 8, 5, 6).contiguous(memory_format=format), made(8), made(8)
    for t in (x, w, b):
        t.requires_grad_()
    y = F.group_norm(x, groups, w, b, 1e-3)
    parts = x.reshape(3, groups, 8 // groups, 30)
    shape = (groups, 8 // groups, 1)
    expected = normalised(parts, w.reshape(shape), b.reshape(shape), (2, 3)).reshape(x.shape)
    np.testing.assert_allclose(y.detach(), expected.detach(), rtol=1e-11, atol=1e-12)
    g = made(3, 8, 5, 6)
    for one, other in zip(
        fb.autograd.grad(y, (x, w, b), g), fb.autograd.grad(expected, (x, w, b), g), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_not_a_number_stays_in_its_group() -> None:
    x = fb.ones(2, 2, 40).cumsum(2)
    x[0, 1, 3], x[1, 0, 2] = float("nan"), float("inf")
    y = fb.ops.aten._normalize_affine(x, fb.ones(2, 1), fb.ones(2, 1), (2,), 1e-3)[0]
    assert y.isnan().any(2).tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize("sizes", [(0, 3, 4), (2, 3, 0), (0, 3, 0)])
def test_nothing_to_normalise(sizes) -> None:
    x, w, b = (
        fb.zeros(sizes, requires_grad=True),
        fb.ones(3, 1).requires_grad_(),
        fb.ones(3, 1).requires_grad_(),
    )
    y, center, _ = fb.ops.aten._normalize_affine(x, w, b, (0, 2), 1e-3)
    assert y.shape == sizes and center.isnan().all()
    grads = fb.autograd.grad(y.sum(), (x, w, b))
    assert grads[0].shape == sizes and (grads[1] == 0).all() and (grads[2] == 0).all()
    assert F.layer_norm(fb.zeros(2, 0), (0,), fb.zeros(0), fb.zeros(0)).shape == (2, 0)


def test_halves_are_rounded_once() -> None:
    x, w, b = (made(*s).to(fb.bfloat16) for s in ((4, 6, 9), (6, 1), (6, 1)))
    y = fb.ops.aten._normalize_affine(x, w, b, (0, 2), 1e-3)[0]
    exact = normalised(x.double(), w.double(), b.double(), (0, 2))
    assert y.dtype == fb.bfloat16
    np.testing.assert_allclose(y.double(), exact, rtol=2**-8, atol=1e-6)


def test_weights_are_read_where_they_lie() -> None:
    x, both = made(2, 3, 2, 5), made(2, 3, 2, 1)
    y = fb.ops.aten._normalize_affine(x, both[1], both[0], (2, 3), 1e-3)[0]
    np.testing.assert_allclose(y, normalised(x, both[1], both[0], (2, 3)), rtol=1e-11, atol=1e-12)


def test_weights_that_vary_elsewhere_are_refused() -> None:
    with pytest.raises(RuntimeError, match="along channels"):
        fb.ops.aten._normalize_affine(fb.ones(2, 3, 4), fb.ones(2, 1, 1), None, (2,), 1e-3)
    with pytest.raises(RuntimeError, match="broadcast"):
        fb.ops.aten._normalize_affine(fb.ones(2, 3, 4), fb.ones(5), None, (2,), 1e-3)


def test_running_statistics_of_instance_norm() -> None:
    x, mean, var = made(3, 2, 5), fb.zeros(2).double(), fb.ones(2).double()
    y = F.instance_norm(x, mean, var, momentum=0.25)
    np.testing.assert_allclose(mean, 0.25 * x.mean((0, 2)))
    np.testing.assert_allclose(var, 0.75 + 0.25 * x.var(2).mean(0))
    np.testing.assert_allclose(
        y, (x - x.mean(2, keepdim=True)) / (x.var(2, correction=0, keepdim=True) + 1e-5).sqrt()
    )


def test_native_batch_norm_moves_the_running_statistics() -> None:
    x = fb.randn(6, 3)
    mean, var = fb.zeros(3), fb.ones(3)
    out, save_mean, save_invstd = fb.native_batch_norm(x, None, None, mean, var, True, 0.5, 1e-5)
    assert fb.allclose(mean, 0.5 * x.mean(0))
    assert fb.allclose(var, 0.5 + 0.5 * x.var(0))
    assert fb.allclose(save_mean, x.mean(0), atol=1e-6)
    assert fb.allclose(save_invstd, (x.var(0, correction=0) + 1e-5).rsqrt())
    assert fb.allclose(out, fb.batch_norm(x, None, None, None, None, True, 0.5, 1e-5))


def test_native_batch_norm_saves_nothing_in_evaluation() -> None:
    x, mean, var = fb.randn(6, 3), fb.zeros(3), fb.ones(3)
    _, save_mean, save_invstd = fb.native_batch_norm(x, None, None, mean, var, False, 0.5, 1e-5)
    assert save_mean.shape == save_invstd.shape == (0,)


def test_only_the_first_result_of_native_layer_norm_has_a_gradient() -> None:
    x = fb.randn(2, 3, requires_grad=True)
    out, mean, rstd = fb.native_layer_norm(x, (3,), None, None, 1e-5)
    assert out.requires_grad and not mean.requires_grad and not rstd.requires_grad
    assert mean.shape == rstd.shape == (2, 1)


def test_statistics_of_native_group_norm_have_gradients() -> None:
    x = fb.randn(2, 4, 3, requires_grad=True)
    out, mean, rstd = fb.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)
    assert out.requires_grad and mean.requires_grad and rstd.requires_grad
    assert mean.shape == (2, 2)
    with pytest.raises(RuntimeError, match="elements"):
        fb.native_group_norm(x, None, None, 2, 4, 2, 2, 1e-5)


def test_the_inputs_dtype_stays_with_exact_weights() -> None:
    x = fb.randn(2, 3).to(fb.bfloat16)
    assert fb.nn.functional.layer_norm(x, (3,), fb.ones(3), fb.zeros(3)).dtype == fb.bfloat16


def test_softmax_of_nothing() -> None:
    scores = fb.tensor([[-float("inf")] * 2, [0.0, 0.0]])
    assert fb.ops.aten._safe_softmax(scores, 1).tolist() == [[0.0, 0.0], [0.5, 0.5]]
