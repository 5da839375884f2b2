"""Functions that run when a backward pass has ended, and memory that comes and goes behind a graph."""

import flambeau as fb
import pytest
from flambeau import _C

queue = fb.autograd.Variable._execution_engine.queue_callback


def watched(x, hook):
    y = x * 2
    y.register_hook(lambda grad: hook())
    return y


def test_a_callback_sees_the_gradients_of_all_leaves():
    x = fb.ones(2, requires_grad=True)
    seen = []
    watched(x, lambda: queue(lambda: seen.append(x.grad.tolist()))).sum().backward()
    assert seen == [[2.0, 2.0]]
    (x * 1).sum().backward()
    assert len(seen) == 1


def test_callbacks_run_in_order_and_may_add_others():
    seen = []

    def first():
        seen.append(1)
        queue(lambda: seen.append(3))

    x = fb.ones(2, requires_grad=True)
    watched(x, lambda: [queue(first), queue(lambda: seen.append(2))] and None).sum().backward()
    assert seen == [1, 2, 3]


def test_a_callback_of_an_inner_pass_runs_at_the_end_of_the_outer_one():
    seen = []
    x, inner = fb.ones(2, requires_grad=True), fb.ones(2, requires_grad=True)

    def start():
        with fb.enable_grad():
            watched(inner, lambda: queue(lambda: seen.append("callback"))).sum().backward()
        seen.append("inner")

    y = watched(x, start)
    x.register_hook(lambda grad: seen.append("leaf"))
    y.sum().backward()
    assert seen == ["inner", "leaf", "callback"]


def test_a_failed_pass_drops_its_callbacks():
    seen = []
    x = fb.ones(2, requires_grad=True)

    def fail():
        queue(lambda: seen.append(1))
        raise KeyError("now")

    with pytest.raises(KeyError):
        watched(x, fail).sum().backward()
    (x * 1).sum().backward()
    assert seen == []


def test_an_error_in_a_callback_is_that_of_backward():
    x = fb.ones(2, requires_grad=True)

    def fail():
        raise KeyError("now")

    with pytest.raises(KeyError, match="now"):
        watched(x, lambda: queue(fail)).sum().backward()
    assert _C._outermost_pass() == 0


def test_misuse():
    with pytest.raises(RuntimeError, match="can only be installed during backward pass"):
        queue(print)
    with pytest.raises(TypeError, match="a callable, got int"):
        queue(3)


def test_memory_behind_a_graph_comes_and_goes():
    memory = fb.arange(6.0)
    leaf = fb.nn.Parameter(memory.view(2, 3))
    memory = memory.data
    loss = (leaf * leaf).sum() + leaf.t()[1].sum()
    version, before = leaf._version, fb.cpu.memory.memory_allocated()
    _C._free_memory(memory)
    assert fb.cpu.memory.memory_allocated() < before
    for gone in (leaf, leaf.t(), memory):
        with pytest.raises(RuntimeError, match="doesn't have storage for its"):
            gone + 1
    with pytest.raises(RuntimeError, match="doesn't have storage for its"):
        leaf.detach().zero_()
    _C._restore_memory(memory, 24)
    memory.copy_(fb.arange(6.0))
    assert leaf._version == version
    loss.backward()
    assert leaf.grad.tolist() == [[0, 3, 4], [6, 9, 10]]
    with pytest.raises(RuntimeError, match="expected a tensor without memory, got one with 24 bytes"):
        _C._restore_memory(memory, 24)
    held = memory.numpy()
    with pytest.raises(RuntimeError, match="held by NumPy"):
        _C._free_memory(memory)
    assert held[1] == 1
    with pytest.raises(TypeError, match="expected a Tensor, got int"):
        _C._free_memory(3)
