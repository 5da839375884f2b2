"""Checkpointing: gradients, random numbers, errors and nesting as in PyTorch; memory that falls."""

import importlib

import flambeau
import pytest
from sides import Scenarios, leaf, raised, warned

scenario = Scenarios()


def of(torch):
    return importlib.import_module(torch.__name__ + ".utils.checkpoint")


def counted(calls, function):
    def run(*args, **kwargs):
        calls.append(1)
        return function(*args, **kwargs)

    return run


@scenario
def gradients_and_calls(torch):
    found = []
    for reentrant in (True, False):
        x, y, calls = leaf(torch, 0.5, 2), leaf(torch, 3, 1), []
        run = counted(calls, lambda a, b: ((a * b).sin() * a).exp())
        out = of(torch).checkpoint(run, x, y, use_reentrant=reentrant)
        forward_calls = len(calls)
        out.sum().backward()
        found.append([out, x.grad, y.grad, forward_calls, len(calls)])
    return found


@scenario
def node_names(torch):
    x = leaf(torch, 1)
    a = of(torch).checkpoint(lambda t: t.exp(), x, use_reentrant=True)
    b = of(torch).checkpoint(lambda t: t.exp(), x, use_reentrant=False)
    return [a.grad_fn.name(), b.grad_fn.name()]


@scenario
def arguments_that_are_no_tensors(torch):
    x = leaf(torch, 2)

    def power(t, n, *, scale=1):
        return {"y": (t**n * scale).sin(), "n": n}

    out = of(torch).checkpoint(power, x, 3, scale=2, use_reentrant=False)
    out["y"].backward()
    return [
        x.grad,
        out["n"],
        raised("Unexpected keyword", of(torch).checkpoint, power, x, use_reentrant=True, scale=1),
    ]


@scenario
def random_numbers_are_those_of_the_first_call(torch):
    found = []
    for reentrant in (True, False):
        for preserve in (True, False):
            torch.manual_seed(3)
            x = torch.ones(100, requires_grad=True)
            run = lambda t: torch.nn.functional.dropout(t, 0.5) * t  # noqa: E731
            y = of(torch).checkpoint(run, x, use_reentrant=reentrant, preserve_rng_state=preserve)
            y.sum().backward()
            found.append(bool((x.grad == 2 * y).all()))
            found.append(torch.rand(2))
    return found


@scenario
def of_a_module_with_parameters(torch):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x = torch.ones(2, 4)  # no gradient is wanted of it
    of(torch).checkpoint(net, x, use_reentrant=False).sum().backward()
    saved = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(x).sum().backward()
    return [bool(torch.allclose(a, p.grad)) for a, p in zip(saved, net.parameters(), strict=True)]


@scenario
def reentrant_without_inputs_that_want_a_gradient(torch):
    x = torch.ones(2)
    run = lambda: of(torch).checkpoint(lambda t: t.exp(), x, use_reentrant=True)  # noqa: E731
    return [warned("gradients will be None", run), run().requires_grad]


@scenario
def the_mode_is_to_be_said(torch):
    run = lambda: of(torch).checkpoint(lambda t: t.exp(), leaf(torch, 1))  # noqa: E731
    return [len(warned("use_reentrant", run)), run().grad_fn.name()]


@scenario
def reentrant_refuses_grad_and_inputs(torch):
    x = leaf(torch, 1)
    make = lambda: of(torch).checkpoint(lambda t: t.exp(), x, use_reentrant=True)  # noqa: E731
    return [
        raised("use_reentrant=True", torch.autograd.grad, make(), x),
        raised("use_reentrant=True", lambda: make().backward(inputs=[x])),
        raised(
            "use_reentrant=False",
            of(torch).checkpoint,
            torch.exp,
            x,
            use_reentrant=True,
            debug=True,
        ),
        raised(
            "checkpoint",
            of(torch).checkpoint(lambda t: t.detach(), x, use_reentrant=True).sum().backward,
        ),
    ]


@scenario
def grad_and_double_backward(torch):
    x = leaf(torch, 0.7)
    y = of(torch).checkpoint(lambda t: t.sin() * t.exp(), x, use_reentrant=False)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (gg,) = torch.autograd.grad(g, x)
    return [g, gg]


@scenario
def retained_graphs_compute_again(torch):
    x, calls = leaf(torch, 0.7), []
    y = of(torch).checkpoint(counted(calls, lambda t: t.sin().exp()), x, use_reentrant=False)
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad, len(calls), raised("second time", y.backward)]


@scenario
def the_second_call_stops_early(torch):
    found = []
    for early in (True, False):
        x, reached = leaf(torch, 0.7), []

        def run(t, reached=reached):
            y = t.sin().exp()
            reached.append(1)
            return y + 1

        with of(torch).set_checkpoint_early_stop(early):
            y = of(torch).checkpoint(run, x, use_reentrant=False)
        y.backward()
        found += [x.grad, len(reached)]
    y = of(torch).checkpoint(run, x, use_reentrant=False, early_stop=False)
    y.backward()
    return [*found, len(reached)]


@scenario
def nested(torch):
    checkpoint = of(torch).checkpoint
    counts = {"inner": 0, "outer": 0}

    def inner(t):
        counts["inner"] += 1
        return t.sin().exp().tanh()

    def outer(t):
        counts["outer"] += 1
        t = t.cos()
        t = checkpoint(inner, t, use_reentrant=False)
        t = checkpoint(inner, t.exp(), use_reentrant=False)
        return t.sin()

    x = leaf(torch, 0.3)
    y = checkpoint(outer, x, use_reentrant=False)
    y.backward()
    return [y, x.grad, counts]


@scenario
def nested_reentrant(torch):
    checkpoint = of(torch).checkpoint
    x = leaf(torch, 0.3)
    inner = lambda t: checkpoint(lambda u: u.sin().exp(), t, use_reentrant=True)  # noqa: E731
    y = checkpoint(lambda t: inner(t).tanh(), x, use_reentrant=True)
    y.backward()
    return x.grad


@scenario
def calls_that_differ(torch):
    checkpoint, found = of(torch).checkpoint, []

    def make(first, second, **options):
        calls = []

        def run(t):
            calls.append(1)
            return (first if len(calls) == 1 else second)(t)

        return checkpoint(run, leaf(torch, 1, 2), use_reentrant=False, **options).sum()

    more = make(lambda t: t.sin().exp(), lambda t: t.sin())
    found.append(raised("different number", more.backward))
    wider = make(lambda t: t.sin().exp(), lambda t: t.repeat(2).sin().exp())
    found.append(raised("different metadata", wider.backward))
    narrow = make(lambda t: t.sin().exp(), lambda t: t.float().sin().exp())
    found.append(raised("different metadata", narrow.backward))
    unchecked = make(lambda t: t.sin(), lambda t: t.float().sin(), determinism_check="none")
    found.append(raised("", unchecked.backward))
    found.append(raised("determinism_check", make, torch.sin, torch.sin, determinism_check="no"))
    return found


@scenario
def contexts_of_the_two_calls(torch):
    import contextlib

    log = []

    @contextlib.contextmanager
    def note(what):
        log.append("enter " + what)
        yield
        log.append("leave " + what)

    x = leaf(torch, 1)
    y = of(torch).checkpoint(
        lambda t: t.sin().exp() + 1,
        x,
        use_reentrant=False,
        early_stop=False,
        context_fn=lambda: (note("first"), note("second")),
    )
    y.backward()
    return log


@scenario
def sequences(torch):
    found = []
    for segments in (1, 2, 3):
        for reentrant in (True, False):
            torch.manual_seed(0)
            calls = []
            layers = [counted(calls, torch.nn.Linear(3, 3)) for _ in range(5)]
            x = torch.ones(1, 3, requires_grad=True)
            y = of(torch).checkpoint_sequential(layers, segments, x, use_reentrant=reentrant)
            y.sum().backward()
            found += [(x.grad * 1000).round(), len(calls)]
    net = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Tanh())
    x = leaf(torch, 1)
    of(torch).checkpoint_sequential(net, 2, x, use_reentrant=False).backward()
    return [*found, x.grad]


@scenario
def without_grad_nothing_is_kept(torch):
    x = leaf(torch, 1)
    with torch.no_grad():
        y = of(torch).checkpoint(lambda t: t.exp(), x, use_reentrant=False)
    return y.requires_grad


@scenario
def inputs_changed_in_place(torch):
    x = leaf(torch, 1) * 2
    y = of(torch).checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False)
    x.mul_(2)
    return raised("modified by an inplace operation", y.backward)


@scenario
def errors_of_the_second_call_pass_through(torch):
    calls = []

    def run(t):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("second")
        return t.sin().exp()

    return raised("second", of(torch).checkpoint(run, leaf(torch, 1), use_reentrant=False).backward)


@scenario
def custom_functions_inside(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    class Twice(Square):
        @staticmethod
        def backward(ctx, grad):
            return ctx.saved_tensors[0] * grad + ctx.saved_tensors[0] * grad

    x = leaf(torch, 3)
    of(torch).checkpoint(lambda t: Square.apply(t).sin(), x, use_reentrant=False).backward()
    again = of(torch).checkpoint(lambda t: Twice.apply(t).sin(), x, use_reentrant=False)
    return [x.grad, raised("ctx.saved_tensors", again.backward)]


@scenario
def in_place_inside(torch):
    def run(t):
        y = t * 2
        y.mul_(t).add_(1)
        y[0] = t[1]
        return y.exp()

    x = leaf(torch, 0.5, 0.7)
    of(torch).checkpoint(run, x, use_reentrant=False).sum().backward()
    y = leaf(torch, 0.5, 0.7)
    of(torch).checkpoint(run, y, use_reentrant=True).sum().backward()
    return [x.grad, y.grad]


@scenario
def views_and_lists_as_results(torch):
    x = leaf(torch, 1, 2, 3, 4)
    parts = of(torch).checkpoint(lambda t: (t.exp()).split(2), x, use_reentrant=False)
    (parts[0] * parts[1]).sum().backward()
    return [len(parts), x.grad]


@scenario
def hooks_inside(torch):
    log = []

    def run(t):
        y = t.sin()
        if y.requires_grad:
            y.register_hook(lambda g: log.append(g.tolist()))
        return y.exp()

    x = leaf(torch, 0.5)
    of(torch).checkpoint(run, x, use_reentrant=False).backward()
    return [log, x.grad]


test_as_in_pytorch = scenario.test()


def test_debug_names_the_place():
    calls = []

    def run(t):
        calls.append(1)
        return t.sin().exp() if len(calls) == 1 else t.sin()

    checkpoint = of(flambeau)
    x = flambeau.ones(2, requires_grad=True)
    with checkpoint.set_checkpoint_debug_enabled(True):
        y = checkpoint.checkpoint(run, x, use_reentrant=False)
    with pytest.raises(checkpoint.CheckpointError, match=r"(?s)during the forward.*in run.*t\.sin\(\)\.exp"):
        y.sum().backward()


def peak_of_training(wrap):
    """Bytes at the peak of one pass through 16 layers of 1 MB each."""
    x = flambeau.ones(512, 512, requires_grad=True)
    flambeau._C._reset_peak()
    before = flambeau._C._memory_stats()["allocated_bytes"]
    y = x
    for _ in range(4):
        y = wrap(lambda t: t.sin().exp().tanh().sigmoid(), y)
    y.sum().backward()
    return flambeau._C._memory_stats()["peak_allocated_bytes"] - before


@pytest.mark.parametrize("reentrant", [True, False])
def test_peak_memory_falls(reentrant):
    plainly = peak_of_training(lambda f, t: f(t))
    checkpointed = peak_of_training(lambda f, t: of(flambeau).checkpoint(f, t, use_reentrant=reentrant))
    megabyte = 512 * 512 * 4
    assert plainly >= 12 * megabyte
    assert checkpointed < plainly * 0.7


def test_nothing_is_left_behind():
    x = flambeau.ones(512, 512, requires_grad=True)
    for _ in range(2):
        y = of(flambeau).checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False)
        y.sum().backward()
        del y
        x.grad = None
    before = flambeau._C._memory_stats()["allocated_bytes"]
    for _ in range(3):
        y = of(flambeau).checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False)
        y.sum().backward()
        del y
        x.grad = None
    assert flambeau._C._memory_stats()["allocated_bytes"] <= before
