"""Backward passes: accumulation, freed graphs, arguments, errors, deep chains."""

import flambeau as fb
import pytest


def leaf(*values, dtype=fb.float64):
    return fb.tensor(list(values), dtype=dtype, requires_grad=True)


def test_gradients_accumulate_until_they_are_cleared():
    x = leaf(1, 2)
    (x * x).sum().backward()
    (3 * x).sum().backward()
    assert x.grad.tolist() == [5, 7]
    x.grad = None
    (3 * x).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_accumulation_keeps_the_same_tensor():
    x = leaf(1)
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    assert x.grad is first
    assert first.tolist() == [2]


def test_accumulation_with_create_graph_makes_a_new_tensor():
    x = leaf(1)
    x.sum().backward()
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert first.tolist() == [1]
    assert x.grad.tolist() == [3]
    assert x.grad.requires_grad


def test_a_tensor_used_twice_gets_both_gradients():
    x = leaf(3)
    (x * x + x).sum().backward()
    assert x.grad.tolist() == [7]


def test_grad_of_a_fresh_leaf_is_none_and_can_be_deleted():
    x = leaf(1)
    assert x.grad is None
    x.sum().backward()
    del x.grad
    assert x.grad is None


@pytest.mark.parametrize(
    ("grad", "error", "match"),
    [
        (3, TypeError, "expected a Tensor or None"),
        (fb.zeros(3, dtype=fb.float64), RuntimeError, "gradient of size"),
        (fb.zeros(2), RuntimeError, "gradient of dtype"),
    ],
)
def test_grad_refuses_a_value_that_is_not_a_gradient(grad, error, match):
    x = leaf(1, 2)
    with pytest.raises(error, match=match):
        x.grad = grad


def test_grad_refuses_the_tensor_itself():
    x = fb.ones(2)
    with pytest.raises(RuntimeError, match="as its own grad"):
        x.grad = x


def test_second_backward_through_a_freed_graph_fails():
    x = leaf(1)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_retain_graph_allows_a_second_backward():
    x = leaf(2)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8]


def test_a_graph_that_saves_nothing_can_be_used_again():
    x = leaf(2)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2]


def test_backward_of_a_leaf_is_one():
    x = fb.tensor(2.0, requires_grad=True)
    x.backward()
    assert x.grad.item() == 1


def test_backward_needs_a_gradient_for_several_elements():
    with pytest.raises(RuntimeError, match="grad can be implicitly created"):
        (leaf(1, 2) * 2).backward()


def test_backward_needs_a_graph():
    with pytest.raises(RuntimeError, match="does not require grad"):
        fb.ones(1).sum().backward()


def test_backward_refuses_a_gradient_of_another_shape():
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: expected grad_output\[0\] of"):
        (leaf(1, 2) * 2).backward(fb.ones(3, dtype=fb.float64))


def test_backward_refuses_a_gradient_that_is_not_a_tensor():
    with pytest.raises(TypeError, match="Tensors or None"):
        (leaf(1, 2) * 2).backward(3)


def test_backward_weights_the_output():
    x = leaf(1, 2)
    (x * x).backward(fb.tensor([1.0, 10.0], dtype=fb.float64))
    assert x.grad.tolist() == [2, 40]


def test_inputs_restrict_what_accumulates():
    x, y = leaf(1), leaf(2)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [2]
    assert y.grad is None


def test_inputs_must_not_be_empty():
    with pytest.raises(RuntimeError, match="`inputs`"):
        leaf(1).sum().backward(inputs=[])


def test_backward_of_several_tensors():
    x = leaf(2)
    fb.autograd.backward([(x * x).sum(), (3 * x).sum()])
    assert x.grad.tolist() == [7]


def test_grad_leaves_grad_alone():
    x = leaf(3)
    (g,) = fb.autograd.grad((x * x).sum(), x)
    assert g.tolist() == [6]
    assert x.grad is None


def test_grad_of_an_intermediate_tensor():
    x = leaf(3)
    y = x * x
    z = y * y
    gy, gx = fb.autograd.grad(z.sum(), (y, x))
    assert gy.tolist() == [18]
    assert gx.tolist() == [108]


def test_grad_of_an_unused_input():
    x, y = leaf(1), leaf(1)
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        fb.autograd.grad(x.sum(), (y,))
    assert fb.autograd.grad(x.sum(), (x, y), allow_unused=True)[1] is None
    zeros = fb.autograd.grad(x.sum(), (y,), materialize_grads=True)[0]
    assert zeros.tolist() == [0]
    with pytest.raises(ValueError, match="allow_unused=False"):
        fb.autograd.grad(x.sum(), (y,), materialize_grads=True, allow_unused=False)


def test_grad_needs_inputs():
    with pytest.raises(RuntimeError, match="`inputs`"):
        fb.autograd.grad(leaf(1).sum(), [])


def test_grad_of_an_input_without_requires_grad():
    with pytest.raises(RuntimeError, match="does not require grad"):
        fb.autograd.grad(leaf(1).sum(), fb.ones(1))


def test_create_graph_gives_higher_derivatives():
    x = leaf(2)
    (first,) = fb.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (second,) = fb.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = fb.autograd.grad(second.sum(), x)
    assert (first.item(), second.item(), third.item()) == (12, 12, 6)


def test_batched_weights_make_rows_of_the_jacobian():
    x = leaf(1, 2, 3)
    (rows,) = fb.autograd.grad(x * x, x, fb.eye(3, dtype=fb.float64), is_grads_batched=True)
    assert rows.tolist() == [[2, 0, 0], [0, 4, 0], [0, 0, 6]]


def test_broadcast_gradients_are_summed():
    x = fb.ones(3, 1, requires_grad=True)
    y = fb.ones(4, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.tolist() == [[4], [4], [4]]
    assert y.grad.tolist() == [3, 3, 3, 3]


def test_retain_grad_fills_the_grad_of_an_intermediate_tensor():
    x = leaf(3)
    y = x * x
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    (2 * y).sum().backward()
    assert y.grad.tolist() == [2]
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        fb.ones(1).retain_grad()


def test_grad_of_an_intermediate_tensor_warns():
    y = leaf(1) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert y.grad is None


def test_leaves_and_flags():
    x = leaf(1)
    y = x * 2
    assert (x.is_leaf, x.grad_fn, x.requires_grad) == (True, None, True)
    assert (y.is_leaf, y.requires_grad) == (False, True)
    assert fb.ones(1).is_leaf
    assert y.detach().is_leaf
    assert not y.detach().requires_grad
    with pytest.raises(RuntimeError, match="requires_grad flags"):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        fb.ones(1, dtype=fb.int64).requires_grad_()
    with pytest.raises(RuntimeError, match="requires_grad: expected a bool, got"):
        x.requires_grad = 1


def test_requires_grad_switched_off_stops_recording():
    x = leaf(1)
    assert x.requires_grad_(False) is x
    assert not (x * 2).requires_grad
    x.requires_grad = True
    assert (x * 2).requires_grad


def test_detach_in_place_makes_a_leaf():
    x = leaf(1)
    y = x * 2
    assert y.detach_() is y
    assert y.is_leaf
    assert y.grad_fn is None
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x * 2).view(1).detach_()


def test_data_shares_memory_without_history():
    x = leaf(1, 2)
    x.data.mul_(3)
    assert x.tolist() == [3, 6]
    assert x._version == 0
    x.data = fb.zeros(4, dtype=fb.float64)
    assert x.shape == (4,)
    assert x.requires_grad


def test_comparison_has_no_history():
    assert not (leaf(1) > 0).requires_grad


def test_a_chain_of_200000_nodes():
    x = leaf(1)
    y = x
    for _ in range(200_000):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1]
    del y


def test_a_chain_of_200000_nodes_dies_unused():
    y = leaf(1)
    for _ in range(200_000):
        y = y * 1.0
    del y


def test_reentrant_backward():
    class Inner(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x.detach()
            return x * x

        @staticmethod
        def backward(ctx, grad):
            with fb.enable_grad():
                x = ctx.x.requires_grad_()
                (x * x).sum().backward()
            return x.grad * grad

    x = leaf(3)
    Inner.apply(x).sum().backward()
    assert x.grad.tolist() == [6]


def test_deeply_reentrant_backward():
    class Nested(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            if ctx.depth:
                with fb.enable_grad():
                    x = fb.ones(1, requires_grad=True)
                    Nested.apply(x, ctx.depth - 1).backward()
            return grad, None

    x = fb.ones(1, requires_grad=True)
    Nested.apply(x, 150).backward()
    assert x.grad.tolist() == [1]


def test_anomaly_mode_names_the_forward_call():
    x = leaf(0.0)
    with fb.autograd.set_detect_anomaly(True):
        y = x.sqrt() * 0  # the gradient is inf * 0
        with (
            pytest.warns(UserWarning, match=r"(?s)Error detected in SqrtBackward.*test_backward"),
            pytest.raises(RuntimeError, match="returned nan values in its 0th output"),
        ):
            y.sum().backward()
    assert not fb._C.is_anomaly_enabled()


def test_detect_anomaly_warns_of_its_price():
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"), fb.autograd.detect_anomaly():
        assert fb._C.is_anomaly_enabled()
    assert not fb._C.is_anomaly_enabled()
