"""Cycles through hooks, contexts and graphs are collected, and what is in use is not."""

import gc
import sys
import threading
import weakref

import flambeau as fb
import pytest


class Mark:
    """Something to be referred to weakly."""


def hook_on_leaf(mark):
    x = fb.ones(2, requires_grad=True)
    x.register_hook(lambda g, x=x: g * mark.scale)


def hook_on_result(mark):
    y = fb.ones(2, requires_grad=True) * 2
    y.register_hook(lambda g, y=y: (g, mark)[0])


def hook_behind_result(mark):
    h = fb.ones(2, requires_grad=True) * 2
    y = (h + 1).exp()
    h.register_hook(lambda g: (g, mark, y)[0])


def bound_late(mark):
    h = fb.ones(2, requires_grad=True) * 2
    h.register_hook(lambda g: (g, mark, y)[0])
    y = h.sum()


def after_accumulation(mark):
    x = fb.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda p, x=x: (x, mark) and None)


def hook_on_node(mark):
    y = fb.ones(2, requires_grad=True) * 2
    y.grad_fn.register_hook(lambda gi, go: (y, mark) and None)


def hook_before_node(mark):
    y = fb.ones(2, requires_grad=True) * 2
    y.grad_fn.register_prehook(lambda go: (y, mark) and None)


def node_holds_itself(mark):
    node = (fb.ones(2, requires_grad=True) * 2).grad_fn
    node.register_hook(lambda gi, go: (node, mark) and None)


def metadata(mark):
    y = fb.ones(2, requires_grad=True) * 2
    y.grad_fn.metadata["y"] = (y, mark)


def metadata_of_node(mark):
    node = (fb.ones(2, requires_grad=True) * 2).grad_fn
    node.metadata["node"] = (node, mark)


def module_hook(mark):
    layer = fb.nn.Linear(2, 2)
    layer.weight.register_hook(lambda g: (g, layer, mark)[0])


def module_hook_after_training(mark):
    layer = fb.nn.Linear(2, 2)
    layer.weight.register_hook(lambda g: (g, layer, mark)[0])
    layer.weight.register_post_accumulate_grad_hook(lambda p: (layer, mark) and None)
    optimizer = fb.optim.SGD(layer.parameters(), 0.1, momentum=0.9)
    for _ in range(2):
        layer(fb.ones(3, 2)).sum().backward()
        optimizer.step()


def module_hooks_of_modules(mark):
    layer = fb.nn.Linear(2, 2)
    layer.register_forward_hook(lambda *a: (layer, mark) and None)
    layer.register_full_backward_hook(lambda *a: (layer, mark) and None)
    layer(fb.ones(3, 2, requires_grad=True)).sum().backward()


class Doubled(fb.autograd.Function):
    """Twice its argument; the context keeps the output."""

    @staticmethod
    def forward(ctx, x):
        ctx.kept = []
        out = x * 2
        out.context = ctx
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def context_holds_output(mark):
    y = Doubled.apply(fb.ones(2, requires_grad=True))
    y.grad_fn.kept.append((y, mark))


def context_of_a_dead_output(mark):
    ctx = Doubled.apply(fb.ones(2, requires_grad=True)).grad_fn
    ctx.kept.append((ctx, mark))


class Unfinished(fb.autograd.Function):
    """A Function whose forward fails after it has told its context about tensors."""

    @staticmethod
    def forward(ctx, x, mark):
        x.context, x.mark = ctx, mark
        ctx.save_for_backward(x)
        ctx.mark_dirty(x)
        raise ValueError


def context_of_a_failed_call(mark):
    try:
        Unfinished.apply(fb.ones(2, requires_grad=True), mark)
    except ValueError:
        pass


def attribute_of_leaf(mark):
    x = fb.ones(2, requires_grad=True)
    x.result, x.mark = x * 2, mark


def attribute_of_grad(mark):
    x = fb.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    x.grad.owner, x.grad.mark = x, mark


def grad_with_graph(mark):
    x = fb.ones(2, requires_grad=True)
    (x * x).sum().backward(create_graph=True)
    x.mark = mark
    x.grad = None


def view_of_hooked_base(mark):
    base = fb.ones(4, requires_grad=True) * 1
    view = base[1:]
    base.register_hook(lambda g: (g, view, mark)[0])


def hooks_that_pack(mark):
    held = [mark]
    with fb.autograd.graph.saved_tensors_hooks(lambda t: (t, held), lambda p: p[0]):
        y = fb.ones(2, requires_grad=True).exp()
    held.append(Mark())
    y.sum().backward()


def subclass(mark):
    class Own(fb.Tensor):
        pass

    x = fb.ones(2).as_subclass(Own).requires_grad_()
    x.register_hook(lambda g, x=x: (g, mark)[0])


def parameter(mark):
    p = fb.nn.Parameter(fb.ones(2))
    p.register_hook(lambda g, p=p: (g, mark)[0])


def two_tensors(mark):
    a, b = (fb.ones(2, requires_grad=True) for _ in range(2))
    a.register_hook(lambda g: (g, b, mark)[0])
    b.register_hook(lambda g: (g, a, mark)[0])


def removed_hook(mark):
    x = fb.ones(2, requires_grad=True)
    handle = x.register_hook(lambda g, x=x: (g, mark)[0])
    x.handle = handle
    handle.remove()


PATTERNS = [
    hook_on_leaf,
    hook_on_result,
    hook_behind_result,
    bound_late,
    after_accumulation,
    hook_on_node,
    hook_before_node,
    node_holds_itself,
    metadata,
    metadata_of_node,
    module_hook,
    module_hook_after_training,
    module_hooks_of_modules,
    context_holds_output,
    context_of_a_dead_output,
    context_of_a_failed_call,
    attribute_of_leaf,
    attribute_of_grad,
    grad_with_graph,
    view_of_hooked_base,
    hooks_that_pack,
    subclass,
    parameter,
    two_tensors,
    removed_hook,
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.__name__)
def test_cycles_are_collected(pattern):
    marks = []
    gc.collect()
    for _ in range(20):
        mark = Mark()
        marks.append(weakref.ref(mark))
        pattern(mark)
        del mark
    for _ in range(2):  # the second time what the first has set free
        gc.collect()
    assert sum(mark() is not None for mark in marks) == 0


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.__name__)
def test_memory_does_not_grow(pattern):
    def use():
        for _ in range(50):
            pattern(Mark())
        gc.collect()
        gc.collect()
        return fb._C._memory_stats()["allocated_bytes"], len(gc.get_objects())

    use()
    before, after = use(), use()
    assert after[0] <= before[0]
    assert after[1] <= before[1] + 20


# --- what must not be collected ----------------------------------------------------------------------


def test_a_hook_lives_as_long_as_its_leaf():
    seen = []
    x = fb.ones(2, requires_grad=True)
    x.register_hook(lambda g, x=x: seen.append(x) or g * 2)
    gc.collect()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]
    assert seen[0] is x


def test_a_leaf_that_only_a_graph_holds_keeps_its_hooks():
    seen = []

    def result():
        x = fb.ones(2, requires_grad=True)
        x.register_hook(lambda g, x=x: seen.append(x.tolist()))
        x.register_post_accumulate_grad_hook(lambda p, x=x: seen.append(p is x))
        return (x * 3).sum()

    y = result()
    for _ in range(3):
        gc.collect()
    y.backward()
    assert seen == [[1, 1], True]


def test_a_graph_that_another_tensor_needs_stays():
    def results():
        x = fb.ones(2, requires_grad=True)
        h = x * 2
        y = h.exp()
        h.register_hook(lambda g: (g * 0 + 7, y)[0])
        h.grad_fn.metadata["y"] = y
        return x, h.sum()

    x, z = results()
    for _ in range(3):
        gc.collect()
    z.backward()
    assert x.grad.tolist() == [14, 14]


def test_two_outputs_of_one_function():
    class Two(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.note = {"scale": 5}
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            return (a + 2 * b) * ctx.note["scale"]

    x = fb.ones(1, requires_grad=True)
    first, second = Two.apply(x)
    first.grad_fn.note["outputs"] = first
    del first
    for _ in range(3):
        gc.collect()
    second.backward()
    assert x.grad.tolist() == [10]


def test_collecting_inside_of_hooks_and_functions():
    order = []

    class Collects(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            gc.collect()
            ctx.save_for_backward(x)
            ctx.cycle = ctx
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            gc.collect()
            order.append("backward")
            return grad * ctx.saved_tensors[0]

    x = fb.full((2,), 3.0, requires_grad=True)
    x.register_hook(lambda g, x=x: (gc.collect(), order.append("leaf"), None)[2])
    y = Collects.apply(x * 1)
    y.register_hook(lambda g: (gc.collect(), order.append("result"), g * 2)[2])
    y.grad_fn.register_hook(lambda gi, go: (gc.collect(), None)[1])
    y.sum().backward()
    assert order == ["result", "backward", "leaf"]
    assert x.grad.tolist() == [6, 6]


def test_objects_in_finalizers():
    seen = []

    class Last:
        def __init__(self, x):
            self.x = x

        def __del__(self):
            y = self.x * 2
            y.sum().backward()
            seen.append(self.x.grad.tolist())

    x = fb.ones(2, requires_grad=True)
    x.register_hook(lambda g, last=Last(x): g * 2)
    del x
    gc.collect()
    assert seen == [[4, 4]], "a finalizer runs before anything is cleared"


def test_resurrected_tensors_keep_their_hooks():
    saved = []

    class Saves:
        def __init__(self, x):
            self.x = x

        def __del__(self):
            saved.append(self.x)

    x = fb.ones(2, requires_grad=True)
    x.register_hook(lambda g, keeper=Saves(x): g * 5)
    del x
    gc.collect()
    (saved[0] * 1).sum().backward()
    assert saved[0].grad.tolist() == [5, 5]


def test_a_hook_that_removes_itself_while_garbage_is_collected():
    x = fb.ones(2, requires_grad=True)
    handles = []

    def once(grad):
        handles.pop().remove()
        gc.collect()
        return grad * 2

    handles.append(x.register_hook(once))
    for expected in (2, 3):
        (x * 1).sum().backward()
        assert x.grad.tolist() == [expected] * 2


def test_collecting_while_another_thread_computes():
    """The collector must not take for unused what a thread without the GIL is about to use."""
    errors, stop = [], threading.Event()

    def train():
        try:
            layer = fb.nn.Linear(64, 64)
            calls = []
            layer.weight.register_hook(lambda g: calls.append(layer) or g)
            x = fb.rand(700, 64)
            for i in range(40):
                y = layer(x)
                y.register_hook(lambda g, y=y: g * 1)
                (y.exp() * y).sum().backward()
                assert len(calls) == i + 1
                layer.weight.grad = None
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=train) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            gc.collect()
    finally:
        sys.setswitchinterval(interval)
        stop.set()
    assert errors == []


def test_long_graphs_do_not_slow_the_collector_down():
    x = fb.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    gc.collect()
    y.backward()
    assert x.grad.item() == 1


class Tagged(fb.nn.Parameter):
    """A parameter of a subclass: its Python object lives as long as its tensor."""


def kept_by_a_graph():
    """A graph that alone keeps a parameter, and a weak reference to the parameter."""
    parameter = Tagged(fb.ones(3))
    return (parameter * 2).exp(), weakref.ref(parameter)


def test_objects_that_only_graphs_keep_can_be_found():
    result, reference = kept_by_a_graph()
    found = [o for o in gc.get_objects() if type(o) is Tagged and o.tolist() == [1, 1, 1]]
    assert found and all(o.device.type == "cpu" and o.sum().item() == 3 for o in found)
    assert any(reference() is o for o in found)
    result.sum().backward()
    assert reference().grad is not None


def test_objects_that_were_found_outlive_the_graph():
    result, reference = kept_by_a_graph()
    held = [o for o in gc.get_objects() if o is reference()]
    del result
    gc.collect()
    assert held[0] is reference() and held[0].shape in ((3,), (0,))
    assert str(held[0]) and held[0].sum().item() in (0, 3)
    del held
    gc.collect()
    assert reference() is None
