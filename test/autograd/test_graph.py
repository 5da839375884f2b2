"""Nodes as Python objects, saved-tensor hooks, multi-gradient hooks."""

import gc

import flambeau as fb
import pytest
from flambeau.autograd import graph


def leaf(*values):
    return fb.tensor(list(values), dtype=fb.float64, requires_grad=True)


def test_nodes():
    x = leaf(2)
    y = x * 3
    z = y.exp()
    node = z.grad_fn
    assert node is z.grad_fn
    assert node.name() == type(node).__name__
    assert node.name().startswith("ExpBackward")
    assert repr(node).startswith(f"<{node.name()} object at 0x")
    assert isinstance(node, graph.Node)
    (previous, nr), *_ = node.next_functions
    assert previous is y.grad_fn
    assert nr == 0
    accumulator = previous.next_functions[0][0]
    assert accumulator.name() == "AccumulateGrad"
    assert accumulator.variable is x


def test_a_missing_edge_is_none():
    y = leaf(2) * fb.ones(1, dtype=fb.float64)
    assert y.grad_fn.next_functions[1] == (None, 0)


def test_output_nr():
    a, b = (leaf(1, 2) * 1).unbind(0)
    assert (a.output_nr, b.output_nr) == (0, 1)


def test_a_node_can_be_called():
    y = leaf(2) * 3
    gradient, of_number = y.grad_fn(fb.ones(1, dtype=fb.float64))
    assert gradient.tolist() == [3] and of_number is None


def test_metadata_stays_with_the_node():
    y = leaf(1) * 2
    y.grad_fn.metadata["note"] = "here"
    gc.collect()
    assert y.grad_fn.metadata == {"note": "here"}


def test_gradient_edge():
    x = leaf(1)
    y = x * 2
    assert graph.get_gradient_edge(y) == (y.grad_fn, 0)
    assert graph.get_gradient_edge(x).node.variable is x
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(fb.ones(1))


def test_grad_by_edges():
    x = leaf(3)
    y = x * x
    z = y * y
    ones = fb.ones(1, dtype=fb.float64)
    y_edge, z_edge, x_edge = map(graph.get_gradient_edge, (y, z, x))
    assert fb.autograd.grad(z.sum(), y_edge, retain_graph=True)[0].tolist() == [18]
    assert fb.autograd.grad(z_edge, x, ones, retain_graph=True)[0].tolist() == [108]
    assert fb.autograd.grad(z_edge, (x_edge, y), ones, retain_graph=True)[0].tolist() == [108]
    other = graph.get_gradient_edge(leaf(1))
    assert fb.autograd.grad(z.sum(), other, retain_graph=True, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        fb.autograd.grad(z.sum(), other, retain_graph=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created"):
        fb.autograd.grad(z_edge, x)


def test_saved_tensors_hooks():
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.tolist())
        return t.tolist()

    def unpack(values):
        unpacked.append(values)
        return fb.tensor(values, dtype=fb.float64)

    x = leaf(2)
    with graph.saved_tensors_hooks(pack, unpack):
        y = (x * 3).exp() * 1
    assert packed
    y.sum().backward()
    assert unpacked
    assert fb.allclose(x.grad, 3 * (x.detach() * 3).exp())


def test_the_innermost_saved_tensors_hooks_apply():
    seen = []
    x = leaf(2)
    with graph.saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with graph.saved_tensors_hooks(lambda t: seen.append("inner") or t, lambda t: t):
            x.exp()
        x.sin()
    x.exp()
    assert seen == ["inner", "outer"]


def test_save_on_cpu():
    x = leaf(2)
    with graph.save_on_cpu():
        y = x.exp()
    y.sum().backward()
    assert fb.allclose(x.grad, x.detach().exp())


def test_double_backward_through_hooks():
    x = leaf(2)
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = x * x * x
    (g,) = fb.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = fb.autograd.grad(g.sum(), x)
    assert gg.tolist() == [12]


def test_unpack_must_give_a_tensor():
    x = leaf(2)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook"):
        y.sum().backward()


def test_errors_of_pack_reach_the_caller():
    x = leaf(2)
    with graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t), pytest.raises(ZeroDivisionError):
        x.exp()


def test_disabled_saved_tensors_hooks():
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        pass
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        pass


def test_multi_grad_hook_waits_for_all():
    a, b, c = leaf(1), leaf(2), leaf(3)
    seen = []
    handle = graph.register_multi_grad_hook(
        (a, b, c), lambda grads: seen.append([None if g is None else g.item() for g in grads])
    )
    (a * b).sum().backward()
    (a * b * c).sum().backward()
    handle.remove()
    a.sum().backward()
    assert seen == [[2, 1, None], [6, 3, 2]]


def test_multi_grad_hook_any():
    a, b = leaf(1), leaf(2)
    seen = []
    graph.register_multi_grad_hook((a, b), seen.append, mode="any")
    (a * b).sum().backward()
    (a * b).sum().backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((a, b), seen.append, mode="some")


def test_variable_is_an_old_name():
    x = fb.ones(2)
    assert isinstance(x, fb.autograd.Variable)
    v = fb.autograd.Variable(x, requires_grad=True)
    assert v.requires_grad
    assert not x.requires_grad


def test_a_subclass_has_the_same_place_in_the_graph():
    class Named(fb.Tensor):
        pass

    x = leaf(2)
    named = (x * 3).as_subclass(Named)
    assert type(named) is Named
    named.sum().backward()
    assert x.grad.tolist() == [3]
