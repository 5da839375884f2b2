"""In-place operations and views."""

import flambeau as fb
import pytest


def leaf(*values):
    return fb.tensor(list(values), dtype=fb.float64, requires_grad=True)


def test_version_counts_changes():
    x = fb.zeros(3)
    view = x[1:]
    x.add_(1)
    view.mul_(2)
    assert (x._version, view._version, x.detach()._version) == (2, 2, 2)
    assert x.clone()._version == 0


def test_in_place_on_an_intermediate_tensor():
    x = leaf(2)
    y = x * 3
    assert y.mul_(4) is y
    y.sum().backward()
    assert x.grad.tolist() == [12]


def test_saved_tensor_changed_in_place():
    x = leaf(2)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    a, b = leaf(1), leaf(2)
    c = b * 1
    d = a * c
    c.zero_()
    with pytest.raises(RuntimeError, match="is at version 1"):
        d.sum().backward()


def test_tensor_that_is_not_saved_may_change():
    x = leaf(2)
    y = x * 3
    z = y + 1
    y.mul_(5)
    z.sum().backward()
    assert x.grad.tolist() == [3]


def test_leaf_changed_in_place():
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0].mul_(2)
    with fb.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 3]
    assert x.is_leaf


def test_in_place_gives_a_leaf_without_grad_a_history():
    x = leaf(2, 3)
    buffer = fb.zeros(2, dtype=fb.float64)
    buffer.add_(x)
    assert buffer.requires_grad
    (buffer * buffer).sum().backward()
    assert x.grad.tolist() == [4, 6]


def test_view_changed_in_place_changes_the_base():
    x = leaf(1, 2, 3)
    base = x * 1
    view = base[1:]
    view.mul_(10)
    assert base.tolist() == [1, 20, 30]
    base.sum().backward()
    assert x.grad.tolist() == [1, 10, 10]


def test_base_changed_in_place_changes_the_view():
    x = leaf(1, 2, 3)
    base = x * 1
    view = base[1:]
    base.mul_(10)
    view.sum().backward()
    assert x.grad.tolist() == [0, 10, 10]


def test_assignment_to_a_part():
    x, v = leaf(1, 2, 3), leaf(7)
    base = x * 1
    base[1:2] = v * 2
    base[0] = 5
    (base * base).sum().backward()
    assert x.grad.tolist() == [0, 0, 6]
    assert v.grad.tolist() == [56]


def test_assignment_of_a_recorded_value_into_a_plain_buffer():
    v = leaf(7)
    buffer = fb.zeros(3, dtype=fb.float64)
    part = buffer[1:2]
    part.copy_(v)
    assert buffer.requires_grad
    (3 * buffer).sum().backward()
    assert v.grad.tolist() == [3]


def test_view_of_a_view():
    x = leaf(*range(8))
    base = x * 1
    rows = base.view(2, 4)
    rows[1].view(2, 2)[0].mul_(3)
    base.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1, 3, 3, 1, 1]


def test_transposed_view_in_place():
    x = fb.ones(2, 3, dtype=fb.float64, requires_grad=True)
    base = x * 1
    base.t()[0].mul_(fb.tensor([2.0, 5.0], dtype=fb.float64))
    base.sum().backward()
    assert x.grad.tolist() == [[2, 1, 1], [5, 1, 1]]


def test_base_and_is_view():
    x = fb.zeros(4)
    view = x[1:].view(3, 1)
    assert view._base is x
    assert view._is_view()
    assert x._base is None
    assert not x._is_view()


def test_views_of_several_outputs_cannot_change_in_place():
    x = leaf(1, 2)
    first, _ = (x * 1).unbind(0)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        first.mul_(2)


def test_view_made_without_recording_cannot_change_in_place():
    base = leaf(1, 2) * 1
    with fb.no_grad():
        view = base[0:1]
    with pytest.raises(RuntimeError, match="no_grad mode"):
        view.mul_(2)


def test_detached_tensor_shares_memory_and_version():
    x = leaf(3)
    y = x.exp()
    y.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_retained_grad_follows_the_newest_value():
    y = leaf(1) * 2
    y.retain_grad()
    y.mul_(5)
    (3 * y).sum().backward()
    assert y.grad.tolist() == [3]


def test_hook_registered_before_an_in_place_operation_sees_the_older_value():
    y = leaf(1) * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    y.mul_(5)
    y.sum().backward()
    assert seen == [5]


def test_gradcheck_of_in_place_on_views():
    def change(x, v):
        y = x * 2
        y[:, 1] *= v
        y.view(-1)[0:2].exp_()
        return y * y

    x = fb.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], dtype=fb.float64, requires_grad=True)
    v = leaf(0.7, 0.8)
    assert fb.autograd.gradcheck(change, (x, v))
    assert fb.autograd.gradgradcheck(change, (x, v))


def test_expanded_view_has_a_summed_gradient():
    x = leaf(2)
    x.expand(3).sum().backward()
    assert x.grad.tolist() == [3]


def test_out_cannot_be_recorded():
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        fb.add(leaf(1), leaf(1), out=fb.zeros(1, dtype=fb.float64))
