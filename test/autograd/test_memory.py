"""What the engine holds and for how long, by the allocator's own count."""

import gc

import flambeau as fb
import pytest
from flambeau.autograd import graph

SIZE = 1 << 18
MEGABYTE = 4 * SIZE


def allocated():
    gc.collect()
    return fb._C._memory_stats()["allocated_bytes"]


def peak_above(start):
    return fb._C._memory_stats()["peak_allocated_bytes"] - start


def test_a_node_releases_its_tensors_as_soon_as_it_has_run():
    x = fb.ones(SIZE, requires_grad=True)
    y = x
    held = []
    for _ in range(8):
        y = y.exp()
        y.register_hook(lambda g: held.append(fb._C._memory_stats()["allocated_bytes"]))
    loss = y.sum()
    del y
    loss.backward()
    # Each hook runs after one more exp has freed its result.
    assert all(later <= earlier - MEGABYTE for earlier, later in zip(held[2:], held[3:], strict=False))


def test_a_pass_needs_no_more_than_two_gradients_at_once():
    x = fb.ones(SIZE, requires_grad=True)
    y = x
    for _ in range(10):
        y = y * 1.0001
    loss = y.sum()
    del y
    start = allocated()
    fb._C._reset_peak()
    loss.backward()
    assert peak_above(start) <= 3 * MEGABYTE


def test_the_first_gradient_becomes_grad_without_a_copy():
    x = fb.ones(SIZE, requires_grad=True)
    y = (x * 2).sum()
    seen = []
    x.register_hook(lambda g: seen.append(g.data_ptr()))
    y.backward()
    assert x.grad.data_ptr() == seen[0]


def test_a_gradient_that_others_see_is_copied():
    x = fb.ones(4, requires_grad=True)
    kept = []
    x.register_hook(kept.append)
    (x * 2).sum().backward()
    kept[0].zero_()
    assert x.grad.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("wrap", ["views", "saved graphs", "functions", "packed"])
def test_long_chains_end_without_recursion(wrap):
    class Identity(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = fb.ones(1, requires_grad=True)
    y = x
    before = allocated()
    steps = {
        "views": lambda y: y.view(1),
        "saved graphs": lambda y: y * y,
        "functions": Identity.apply,
        "packed": lambda y: y.sin(),
    }
    hooks = graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    if wrap == "packed":
        hooks.__enter__()
    for _ in range(100_000):
        y = steps[wrap](y)
    if wrap == "packed":
        hooks.__exit__()
    if wrap != "saved graphs":
        y.sum().backward()
    del y, steps
    x.grad = None
    assert allocated() <= before + 1000


def test_deeply_nested_checkpoints_do_not_overflow_the_stack():
    from flambeau.utils.checkpoint import checkpoint

    def nest(depth):
        def run(t):
            return checkpoint(nest(depth - 1), t, use_reentrant=True) if depth else t.sin()

        return run

    x = fb.ones(1, requires_grad=True)
    nest(150)(x).backward()
    assert x.grad.item() == pytest.approx(0.5403, abs=1e-4)
