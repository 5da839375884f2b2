"""gradcheck and gradgradcheck find what is wrong and pass what is right."""

import flambeau as fb
import pytest
from flambeau.autograd import Function, GradcheckError, gradcheck, gradgradcheck


def leaf(*values, dtype=fb.float64):
    return fb.tensor(list(values), dtype=dtype, requires_grad=True)


def z(*values):
    return leaf(*values, dtype=fb.complex128)


class Wrong(Function):
    """Squares, with a gradient that is off by ten percent."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2.2 * ctx.saved_tensors[0] * grad

    @staticmethod
    def jvp(ctx, tangent):
        return tangent


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: x.exp(), (leaf(0.1, 0.2),)),
        (lambda x, y: (x * y, x + y), (leaf(0.1, 0.2), leaf(0.3, 0.4))),
        (lambda x, n: x * n, (leaf(0.5), 3)),
        (lambda x: x.sum(), (leaf(),)),
        (lambda w: w * w, (z(1 + 2j, -0.5j),)),
        (lambda w: w.conj() * w, (z(1 + 2j, -0.5j),)),
        (lambda w: fb.view_as_real(w).sum(), (z(1 + 2j),)),
        (lambda x, w: x * w, (leaf(0.5), z(1 - 1j))),
    ],
)
def test_right_gradients_pass(function, inputs, fast):
    assert gradcheck(function, inputs, fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_wrong_gradients_are_found(fast):
    x = leaf(1, 2)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, x, fast_mode=fast)
    assert not gradcheck(Wrong.apply, x, raise_exception=False, fast_mode=fast)


def test_wrong_tangents_are_found():
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch"):
        gradcheck(Wrong.apply, leaf(1.5), check_forward_ad=True, check_backward_ad=False)


def test_wrong_complex_gradient_is_found():
    class NotConjugated(Function):
        @staticmethod
        def forward(ctx, w):
            ctx.save_for_backward(w)
            return w * w

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    with pytest.raises(GradcheckError):
        gradcheck(NotConjugated.apply, z(1 + 2j))


def test_gradient_that_is_not_repeatable():
    state = [0.0]

    class Drifts(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            state[0] += 1e-7
            return grad * (1 + state[0])

    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(Drifts.apply, leaf(1), check_undefined_grad=False)
    assert gradcheck(Drifts.apply, leaf(1), check_undefined_grad=False, nondet_tol=1e-3)


def test_gradient_that_ignores_its_weight():
    class Ignores(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return fb.ones_like(grad)

    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(Ignores.apply, leaf(1), check_undefined_grad=False)


def test_gradient_from_nothing_is_found():
    class FromNothing(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return fb.ones(1, dtype=fb.float64) if grad is None else grad

    with pytest.raises(GradcheckError, match="undefined or zero"):
        gradcheck(FromNothing.apply, leaf(1))
    assert gradcheck(FromNothing.apply, leaf(1), check_undefined_grad=False)


def test_inputs_are_checked():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, fb.ones(1, dtype=fb.float64))
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda x: x * 2, leaf(1, dtype=fb.float32), eps=1e-2, atol=1e-1)
    with pytest.raises(RuntimeError, match="has a dimension with stride 0"):
        gradcheck(lambda x: x * 2, fb.ones(1, dtype=fb.float64).expand(3).requires_grad_())


def test_strided_inputs():
    x = fb.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=fb.float64).t().requires_grad_()
    assert gradcheck(lambda t: t.exp(), x)
    assert x.tolist() == [[0.1, 0.3], [0.2, 0.4]]


@pytest.mark.parametrize("strided", [False, True])
def test_second_derivatives(strided):
    assert gradgradcheck(
        lambda x, y: x * x * y.sin(), (leaf(0.1, 0.2), leaf(0.3, 0.4)), gen_non_contig_grad_outputs=strided
    )
    assert gradgradcheck(lambda w: w * w.conj() * w, z(1 + 2j))


def test_second_derivatives_with_given_weights():
    weight = leaf(1.0, 2.0)
    assert gradgradcheck(lambda x: x.exp(), leaf(0.1, 0.2), weight)


def test_second_derivatives_forward_over_reverse():
    assert gradgradcheck(lambda x: x * x * x, leaf(0.3, 0.7), check_fwd_over_rev=True)


def test_wrong_second_derivatives_are_found():
    class DetachedGradient(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0].detach() * grad

    assert gradcheck(DetachedGradient.apply, leaf(1))
    with pytest.raises(GradcheckError):
        gradgradcheck(DetachedGradient.apply, leaf(1))
