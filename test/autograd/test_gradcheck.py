"""gradcheck and gradgradcheck find what is wrong and pass what is right."""

import flambeau as fb
import pytest
from flambeau.autograd import Function, GradcheckError, gradcheck, gradgradcheck
from side_by_side import fail_alike


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
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Wrong.apply, x, fast_mode=fast)
    assert not gradcheck(Wrong.apply, x, raise_exception=False, fast_mode=fast)


def test_wrong_tangents_are_found():
    with pytest.raises(GradcheckError, match="Jacobian mismatch of forward mode"):
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
    with pytest.raises(ValueError, match="requires_grad=True"):
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


# --- options, as PyTorch's -------------------------------------------------------------------------


def double(m, *values):
    return m.tensor(values, dtype=m.float64, requires_grad=True)


def reads_values(m):
    """A function whose backward looks at its gradient: no batch of gradients can pass."""

    class Reads(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            g.sum().item()
            return g * 2

    return Reads.apply


FAILURES = {
    "neither mode": (
        lambda m: m.autograd.gradcheck(m.sin, double(m, 1.0), check_backward_ad=False),
        "check_forward_ad or check_backward_ad",
    ),
    "a batch, but not backward": (
        lambda m: m.autograd.gradcheck(
            m.sin, double(m, 1.0), check_backward_ad=False, check_forward_ad=True, check_batched_grad=True
        ),
        "check_backward_ad",
    ),
    "a batch, but not forward": (
        lambda m: m.autograd.gradcheck(m.sin, double(m, 1.0), check_batched_forward_grad=True),
        "check_forward_ad",
    ),
    "constant only for autograd": (
        lambda m: m.autograd.gradcheck(lambda x: x.detach() * 2, double(m, 1.0)),
        "zero",
    ),
    "no batch can pass": (
        lambda m: m.autograd.gradcheck(reads_values(m), double(m, 1.0, 2.0), check_batched_grad=True),
        "While computing batched gradients",
    ),
    "neither second derivative": (
        lambda m: m.autograd.gradgradcheck(m.sin, double(m, 1.0), check_rev_over_rev=False),
        "check_fwd_over_rev or check_rev_over_rev",
    ),
    "absent gradients of nothing": (
        lambda m: m.autograd.gradgradcheck(
            m.sin, double(m, 1.0), check_rev_over_rev=False, check_fwd_over_rev=True
        ),
        "check_rev_over_rev",
    ),
}


@pytest.mark.parametrize(("program", "match"), FAILURES.values(), ids=FAILURES)
def test_failures_are_pytorchs(program, match):
    fail_alike(program, match=match)


BATCHED = {
    "pointwise": lambda x, y: x.sin() * y,
    "several outputs": lambda x, y: (x.exp(), (x * y).sum()),
    "views": lambda x, y: fb.stack([x, y])[:, 1:],
    "a product": lambda x, y: fb.outer(x, y) @ y,
    "constant in one": lambda x, y: x * 2,
    "a kernel": lambda x, y: fb.cumprod(x, 0) + fb.logsumexp(y, 0),
}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("function", BATCHED.values(), ids=BATCHED)
def test_batched_derivatives(function, fast):
    assert gradcheck(
        function,
        (leaf(0.3, 0.7, 1.1), leaf(0.2, -0.4, 0.9)),
        check_batched_grad=True,
        check_forward_ad=True,
        check_batched_forward_grad=True,
        check_grad_dtypes=True,
        fast_mode=fast,
        masked=False,
    )


def test_batched_second_derivatives():
    assert gradgradcheck(lambda x: x.exp() * x, leaf(0.3, 0.7), check_batched_grad=True)


def test_wrong_batches_are_found():
    class Wrong(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * (2 if fb._C._transform_depth() == 0 else 3)

    assert gradcheck(Wrong.apply, leaf(1, 2))
    with pytest.raises(GradcheckError, match="batched gradient"):
        gradcheck(Wrong.apply, leaf(1, 2), check_batched_grad=True)
    assert not gradcheck(Wrong.apply, leaf(1, 2), check_batched_grad=True, raise_exception=False)


def test_constants_pass():
    assert gradcheck(lambda x: (x > 0).to(fb.float64), leaf(0.5, 2.0))
    assert gradcheck(lambda x: x.long(), leaf(0.5, 2.0))
    assert gradcheck(lambda x: (), leaf(0.5))
