"""Custom Functions."""

import gc
import weakref

import flambeau as fb
import pytest
from flambeau.autograd import Function
from flambeau.autograd.function import once_differentiable


def leaf(*values):
    return fb.tensor(list(values), dtype=fb.float64, requires_grad=True)


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Power(Function):
    """The form with setup_context, a number among the arguments, and a tangent."""

    @staticmethod
    def forward(x, k=2):
        return x**k

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.k = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.k * x ** (ctx.k - 1), None

    @staticmethod
    def jvp(ctx, x_t, k_t):
        (x,) = ctx.saved_tensors
        return x_t * ctx.k * x ** (ctx.k - 1)


def test_gradient_and_double_gradient():
    x = leaf(1, 2)
    y = Square.apply(x)
    assert y.tolist() == [1, 4]
    assert y.grad_fn.name() == "SquareBackward"
    (first,) = fb.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = fb.autograd.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([2, 4], [2, 2])


def test_setup_context_form():
    x = leaf(2)
    y = Power.apply(x, 3)
    y.sum().backward()
    assert x.grad.tolist() == [12]
    assert Power.apply(x).tolist() == [4]
    assert Power.apply(x, k=3).tolist() == [8]


def test_gradcheck_of_custom_functions():
    x = leaf(0.5, 1.5)
    assert fb.autograd.gradcheck(Square.apply, x)
    assert fb.autograd.gradgradcheck(Square.apply, x)
    assert fb.autograd.gradcheck(lambda t: Power.apply(t, 3), x, check_forward_ad=True)


def test_second_backward_without_saved_tensors():
    y = Square.apply(leaf(1)).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_saved_input_changed_in_place():
    x = leaf(1)
    y = x * 2
    z = Square.apply(y)
    y += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_saved_output_makes_no_cycle():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    x = leaf(0, 1)
    assert fb.autograd.gradcheck(Exp.apply, x)
    assert fb.autograd.gradgradcheck(Exp.apply, x)
    gc.disable()
    try:
        y = Exp.apply(x)
        context = weakref.ref(y.grad_fn)
        del y
        assert context() is None
    finally:
        gc.enable()


def test_needs_input_grad():
    seen = []

    class Product(Function):
        @staticmethod
        def forward(ctx, a, b, c):
            return a * b

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.needs_input_grad)
            return grad, None, None

    Product.apply(leaf(1), fb.ones(1, dtype=fb.float64), 3).sum().backward()
    assert seen == [(True, False, False)]


def test_nothing_is_recorded_without_grad():
    with fb.no_grad():
        assert not Square.apply(leaf(1)).requires_grad
    assert not Square.apply(fb.ones(1)).requires_grad


def test_forward_runs_without_recording():
    class Modes(Function):
        @staticmethod
        def forward(ctx, x):
            assert not fb.is_grad_enabled()
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad + (1 if fb.is_grad_enabled() else 0)

    x = leaf(1)
    assert fb.autograd.grad(Modes.apply(x).sum(), x)[0].item() == 1
    assert fb.autograd.grad(Modes.apply(x).sum(), x, create_graph=True)[0].item() == 2


def test_several_outputs_and_absent_gradients():
    seen = []

    class Split(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3, "text"

        @staticmethod
        def backward(ctx, a, b, text):
            seen.append((a is None, None if b is None else b.tolist(), text))
            return b if a is None else a + b * 0, None

    x = leaf(1, 1)
    two, three, text = Split.apply(x, True)
    assert text == "text"
    two.sum().backward()
    Split.apply(x, False)[1].sum().backward()
    assert seen == [(False, [0.0, 0.0], None), (True, [1.0, 1.0], None)]


def test_mark_non_differentiable():
    class Sorted(Function):
        @staticmethod
        def forward(ctx, x):
            mask = x * 0
            ctx.mark_non_differentiable(mask)
            return x * 2, mask

        @staticmethod
        def backward(ctx, grad, mask_grad):
            assert mask_grad.tolist() == [0.0]
            return grad * 2

    x = leaf(1)
    y, mask = Sorted.apply(x)
    assert y.requires_grad
    assert not mask.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2]


def test_mark_dirty():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(3)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    assert y._version == 2  # by mul_ and by mark_dirty, for forwards that change memory otherwise
    assert y.grad_fn.name() == "DoubleBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2]
    with pytest.raises(RuntimeError, match="leaf Variable"):
        Double.apply(leaf(1))


def test_mark_dirty_of_a_view_changes_the_base():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(1, 1)
    base = x * 1
    Double.apply(base[0:1])
    base.sum().backward()
    assert x.grad.tolist() == [2, 1]


def test_mark_dirty_of_something_else():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.warns(UserWarning, match="mark_dirty"):
        assert Wrong.apply(leaf(1)).requires_grad


def test_an_input_returned_as_it_is():
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = leaf(1)
    y = Identity.apply(x)
    assert y is not x
    assert y.grad_fn.name() == "IdentityBackward"
    y.sum().backward()
    assert x.grad.tolist() == [3]


def test_a_view_from_a_custom_function_cannot_change_in_place():
    class View(Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, grad):
            return grad.view(2, 1)

    y = View.apply((leaf(1, 2) * 1).view(2, 1))
    with pytest.raises(RuntimeError, match="is being modified inplace"):
        y.add_(1)


@pytest.mark.parametrize(
    ("gradients", "error", "match"),
    [
        ((1,), RuntimeError, "expected 2 gradients.* got 1"),
        ((1, 2, 3), RuntimeError, "expected 2 gradients.* got 3"),
        ((1, 2), RuntimeError, "None at position 2"),
        ((None, None, None), None, None),
        ((None, None), None, None),
    ],
)
def test_number_of_gradients(gradients, error, match):
    class Returns(Function):
        @staticmethod
        def forward(ctx, x, k):
            return x * k

        @staticmethod
        def backward(ctx, grad):
            return tuple(None if g is None else grad for g in gradients)

    x = leaf(1)
    y = Returns.apply(x, 2).sum()
    if error is None:
        y.backward()
        assert x.grad is None
        return
    with pytest.raises(error, match=match):
        y.backward()


def test_gradient_of_a_wrong_shape():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return fb.ones(5, dtype=fb.float64)

    with pytest.raises(RuntimeError, match="returned an invalid gradient at index 0 - got"):
        Wrong.apply(leaf(1, 2)).sum().backward()


def test_save_for_backward_takes_tensors_only():
    class Saves(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None, 3)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(TypeError, match="save_for_backward"):
        Saves.apply(leaf(1))


def test_errors_of_backward_keep_their_type():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        Fails.apply(leaf(1)).sum().backward()


def test_missing_methods():
    class Nothing(Function):
        pass

    class Forward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="implement the forward function"):
        Nothing.apply(leaf(1))
    with pytest.raises(NotImplementedError, match="backward or"):
        Forward.apply(leaf(1)).sum().backward()
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        Forward()


def test_vjp_is_another_name():
    class Named(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, grad):
            return grad * 2

    x = leaf(1)
    Named.apply(x).sum().backward()
    assert x.grad.tolist() == [2]

    class Both(Named):
        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(leaf(1)).sum().backward()


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert not fb.is_grad_enabled()
            return 2 * x * grad

    x = leaf(3)
    (g,) = fb.autograd.grad(Once.apply(x).sum(), x)
    assert g.tolist() == [6]
    weight = fb.ones((), dtype=fb.float64, requires_grad=True)
    (g,) = fb.autograd.grad((Once.apply(x).sum() * weight), x, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.sum().backward()


def test_the_context_is_the_node():
    kept = []

    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.answer = 42
            kept.append(ctx)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf(1)
    y = Keeps.apply(x)
    assert y.grad_fn is kept.pop()
    assert y.grad_fn.answer == 42
    assert isinstance(y.grad_fn, fb.autograd.graph.Node)
    assert y.grad_fn.next_functions[0][0].variable is x


def test_hooks_of_custom_nodes():
    x = leaf(2)
    y = Square.apply(x)
    seen = []
    y.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
    y.sum().backward()
    assert seen == [([4.0], [1.0])]


class Identity(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


def test_a_chain_of_100000_custom_nodes():
    x = leaf(1)
    y = x
    for _ in range(100_000):
        y = Identity.apply(y)
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [1]
    del y
