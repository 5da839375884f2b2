"""Hooks of tensors and nodes, and exceptions that pass through the engine."""

import gc
import threading
import weakref

import flambeau as fb
import pytest


def leaf(*values):
    return fb.tensor(list(values), dtype=fb.float64, requires_grad=True)


def test_tensor_hook_sees_and_replaces_the_gradient():
    x = leaf(2)
    y = x * x
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    y.sum().backward(retain_graph=True)
    assert (seen, x.grad.tolist()) == ([[1.0]], [40])
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [44]


def test_leaf_hook_runs_before_accumulation():
    x = leaf(1)
    with x.register_hook(lambda g: g * 2):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [3]


def test_hook_sees_the_summed_gradient_once():
    x = leaf(1)
    calls = []
    x.register_hook(lambda g: calls.append(g.tolist()))
    (x + x * 2).sum().backward()
    assert calls == [[3.0]]


def test_retained_grad_is_what_hooks_made_of_it():
    y = leaf(1) * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 5)
    y.sum().backward()
    assert y.grad.tolist() == [5]


def test_hook_that_removes_itself():
    x = leaf(1)
    handle = x.register_hook(lambda g: handle.remove())
    x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [2]


@pytest.mark.parametrize(
    ("result", "error", "match"),
    [
        (3, TypeError, "expected Variable, but hook returned 'int'"),
        (fb.ones(2, dtype=fb.float64), RuntimeError, "gradient of size"),
        (fb.ones(1), RuntimeError, "gradient of dtype"),
    ],
)
def test_hook_must_return_a_gradient(result, error, match):
    x = leaf(1)
    x.register_hook(lambda g: result)
    with pytest.raises(error, match=match):
        x.sum().backward()


def test_hook_needs_a_tensor_with_gradient():
    with pytest.raises(RuntimeError, match="cannot register a hook"):
        fb.ones(1).register_hook(lambda g: g)


def test_hook_must_be_callable():
    with pytest.raises(TypeError, match="register_hook: expected a callable, got int"):
        leaf(1).register_hook(3)


def test_post_accumulate_hook_sees_the_leaf_with_its_grad():
    x = leaf(1)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.tolist())))
    x.sum().backward()
    x.sum().backward()
    handle.remove()
    x.sum().backward()
    assert seen == [(True, [1.0]), (True, [2.0])]


def test_post_accumulate_hook_may_step_and_clear():
    x = leaf(1)

    def step(t):
        with fb.no_grad():
            t -= 0.5 * t.grad
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    (2 * x).sum().backward()
    assert x.tolist() == [0]
    assert x.grad is None


def test_post_accumulate_hook_is_for_leaves():
    with pytest.raises(RuntimeError, match="non-leaf"):
        (leaf(1) * 2).register_post_accumulate_grad_hook(lambda t: None)


def test_node_hook_sees_inputs_and_outputs():
    x = leaf(3)
    y = x * x
    seen = []
    y.grad_fn.register_hook(lambda gi, go: seen.append(([g.tolist() for g in gi], go[0].tolist())))
    y.sum().backward()
    assert seen == [([[3.0], [3.0]], [1.0])]


def test_node_hook_replaces_gradients():
    x = leaf(3)
    y = x.exp()
    handle = y.grad_fn.register_hook(lambda gi, go: (gi[0] * 0 + 7,))
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [7]
    handle.remove()


def test_node_prehook_replaces_gradients():
    x = leaf(3)
    y = x * 2
    y.grad_fn.register_prehook(lambda go: (go[0] * 10,))
    y.sum().backward()
    assert x.grad.tolist() == [20]


def test_hooks_may_differentiate_themselves():
    x = leaf(2)
    inner = leaf(3)
    y = x * x

    def hook(grad):
        with fb.enable_grad():
            (inner * inner).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    assert (x.grad.tolist(), inner.grad.tolist()) == ([4], [6])


class Special(Exception):
    pass


@pytest.mark.parametrize("error", [KeyError("k"), Special("s"), ZeroDivisionError(), KeyboardInterrupt()])
def test_exceptions_keep_their_type_and_traceback(error):
    x = leaf(1)

    def hook(grad):
        raise error

    x.register_hook(hook)
    with pytest.raises(type(error)) as caught:
        x.sum().backward()
    assert caught.value is error
    assert any(entry.name == "hook" for entry in caught.traceback)


def test_a_failed_pass_leaves_the_graph_usable():
    x = leaf(2)
    y = (x * x).sum()
    handle = y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward()
    handle.remove()
    y.backward()
    assert x.grad.tolist() == [4]


def test_hooks_die_with_the_graph():
    class Hook:
        def __call__(self, grad):
            return None

    hook = Hook()
    alive = weakref.ref(hook)
    y = leaf(1) * 2
    handle = y.register_hook(hook)
    del hook, y
    gc.collect()
    assert alive() is None
    handle.remove()


def test_backward_in_several_threads():
    x = leaf(*range(8))
    errors = []

    def work():
        try:
            for _ in range(50):
                (x * x).sum().backward()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert x.grad.tolist() == [2 * i * 200 for i in range(8)]


def test_hooks_of_several_threads_take_turns():
    seen = []

    def work(k):
        x = leaf(1)
        x.register_hook(lambda g: seen.append(k))
        for _ in range(20):
            x.sum().backward()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [k for k in range(4) for _ in range(20)]
