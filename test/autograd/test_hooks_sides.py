"""Hooks and the graph's interface, compared with PyTorch."""

import importlib
import threading

from sides import Scenarios, leaf, raised, short_name

scenario = Scenarios()


def graph_of(torch):
    return importlib.import_module(torch.__name__ + ".autograd.graph")


@scenario
def order_of_hooks_on_one_tensor(torch):
    log = []
    x = leaf(torch, 1)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: log.append(("first", g.tolist())))
    y.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: log.append(("third", g.tolist())))
    y.grad_fn.register_prehook(lambda gs: log.append(("pre", gs[0].tolist())))
    y.grad_fn.register_hook(lambda gi, go: log.append(("post", gi[0].tolist(), go[0].tolist())))
    x.register_hook(lambda g: log.append(("leaf", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad.tolist())))
    (y * 3).backward()
    return [log, y.grad, x.grad]


@scenario
def retain_grad_before_and_after_hooks(torch):
    found = []
    for before in (True, False):
        y = leaf(torch, 1) * 2
        if before:
            y.retain_grad()
        y.register_hook(lambda g: g * 5)
        if not before:
            y.retain_grad()
        y.backward()
        found.append(y.grad)
    y = leaf(torch, 1) * 2
    y.retain_grad()
    y.retain_grad()
    y.backward(retain_graph=True)
    y.backward()
    x = leaf(torch, 1)
    x.retain_grad()
    return [
        found,
        y.grad,
        y.retains_grad,
        x.retains_grad,
        raised("can't retain_grad", torch.ones(1).retain_grad),
    ]


@scenario
def hooks_that_raise(torch):
    x = leaf(torch, 1)
    y = x * 2

    def fail(*_):
        raise KeyError("mine")

    handle = y.register_hook(fail)
    found = [raised("mine", y.backward, retain_graph=True)]
    handle.remove()
    y.backward(retain_graph=True)
    handle = x.register_post_accumulate_grad_hook(fail)
    found.append(raised("mine", y.backward, retain_graph=True))
    handle.remove()
    y.grad_fn.register_prehook(fail)
    return [*found, raised("mine", y.backward), x.grad]


@scenario
def hooks_that_add_and_remove_hooks(torch):
    log = []
    x = leaf(torch, 1)

    def add(g):
        log.append("add")
        x.register_hook(lambda g: log.append("added"))

    x.register_hook(add)
    x.sum().backward()
    x.sum().backward()
    handles = []
    handles.append(x.register_hook(lambda g: handles[1].remove()))
    handles.append(x.register_hook(lambda g: log.append("removed")))
    return log


@scenario
def hooks_after_in_place(torch):
    log = []
    x = leaf(torch, 1)
    y = x * 2
    y.register_hook(lambda g: log.append(("old", g.tolist())))
    y.mul_(3)
    y.register_hook(lambda g: log.append(("new", g.tolist())))
    y.sum().backward()
    return log


@scenario
def wrong_results_of_hooks(torch):
    x = leaf(torch, 1)
    found = []
    for bad in (3, torch.ones(2, dtype=torch.float64), torch.ones(1), "x"):
        handle = x.register_hook(lambda g, bad=bad: bad)
        found.append(raised("", x.sum().backward)[0])
        handle.remove()
    y = x * 2
    handle = y.grad_fn.register_hook(lambda gi, go: (gi[0], gi[0], gi[0]))
    found.append(raised("values", y.backward))
    return [
        *found,
        raised("", torch.ones(1).register_hook, print),
        raised("leaf", (x * 2).register_post_accumulate_grad_hook, print),
    ]


@scenario
def accumulate_hooks(torch):
    x = leaf(torch, 1)
    seen = []

    def step(t):
        seen.append(t is x)
        t.grad = None

    with x.register_post_accumulate_grad_hook(step):
        x.sum().backward()
    found = x.grad
    x.sum().backward()
    return [
        seen,
        found,
        x.grad,
        raised("hook", lambda: [x.register_post_accumulate_grad_hook(lambda t: 3), x.sum().backward()]),
    ]


@scenario
def nodes(torch):
    graph = graph_of(torch)
    x = leaf(torch, 1)
    y = x * 2 + x
    node = y.grad_fn
    node.metadata["a"] = 1
    accumulate = node.next_functions[1][0]
    return [
        isinstance(node, graph.Node),
        isinstance(accumulate, graph.Node),
        isinstance(3, graph.Node),
        issubclass(type(node), graph.Node),
        node.name(),
        [short_name(f) for f, _ in node.next_functions],
        accumulate.variable is x,
        y.grad_fn.metadata,
        accumulate.next_functions,
        node._sequence_nr() > node.next_functions[0][0]._sequence_nr(),
        type(node).__name__,
    ]


@scenario
def nodes_of_functions(torch):
    class Mine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.extra = 5
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(torch, 1)
    y = Mine.apply(x)
    node = y.grad_fn
    log = []
    node.register_prehook(lambda g: log.append("pre"))
    node.register_hook(lambda a, b: log.append("post"))
    y.backward()
    return [
        node.name(),
        isinstance(node, graph_of(torch).Node),
        node.extra,
        type(node).__name__,
        log,
        node.next_functions[0][0].variable is x,
    ]


@scenario
def what_nodes_know_of_their_outputs(torch):
    x = torch.ones(2, 3, requires_grad=True)
    (data,) = (x * 2).grad_fn._input_metadata
    rows = x.unbind(0)[0].grad_fn._input_metadata
    return [list(data.shape), str(data.dtype).rpartition(".")[2], str(data.device), len(rows)]


@scenario
def gradient_edges(torch):
    graph = graph_of(torch)
    x = leaf(torch, 2)
    a, b = (x * torch.ones(2, dtype=torch.float64)).unbind(0)
    edge = graph.get_gradient_edge(b)
    of_leaf = graph.get_gradient_edge(x)
    y = a * b * 3
    (at_b,) = torch.autograd.grad(y, edge, retain_graph=True)
    (at_leaf,) = torch.autograd.grad(y, of_leaf, retain_graph=True)
    y_edge = graph.get_gradient_edge(y)
    (from_edge,) = torch.autograd.grad(y_edge, x, torch.ones((), dtype=torch.float64), retain_graph=True)
    found = [edge.output_nr, short_name(of_leaf.node), of_leaf.output_nr, at_b, at_leaf, from_edge]
    torch.autograd.backward(y_edge, torch.ones((), dtype=torch.float64), inputs=[x])
    return [
        *found,
        x.grad,
        raised("not require grad", graph.get_gradient_edge, torch.ones(1)),
        of_leaf.node is graph.get_gradient_edge(x).node,
    ]


@scenario
def saved_tensor_hooks_nest(torch):
    graph = graph_of(torch)
    log = []

    def pair(name):
        def pack(t):
            log.append("pack " + name)
            return t

        def unpack(t):
            log.append("unpack " + name)
            return t

        return graph.saved_tensors_hooks(pack, unpack)

    x = leaf(torch, 1)
    with pair("outer"):
        y = x.exp()
        with pair("inner"):
            z = y.sin()
    z.backward()
    return [log, x.grad]


@scenario
def saved_tensor_hooks_in_pack_run_without_hooks(torch):
    graph = graph_of(torch)
    calls = []

    def pack(t):
        calls.append(1)
        return t * 1

    x = leaf(torch, 1)
    with graph.saved_tensors_hooks(pack, lambda t: t):
        y = x.exp() * x
    y.backward()
    return [len(calls), x.grad]


@scenario
def saved_tensor_hooks_that_are_wrong(torch):
    graph = graph_of(torch)
    x = leaf(torch, 1)

    def inplace(t):
        with torch.no_grad():
            t.add_(1)
        return t

    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    found = [raised("Tensor", y.backward)[0]]
    with graph.disable_saved_tensors_hooks("not here"):
        found.append(raised("not here", lambda: graph.saved_tensors_hooks(print, print).__enter__()))
    with graph.saved_tensors_hooks(inplace, lambda t: t):
        found.append(raised("in", lambda: x.detach().requires_grad_().exp())[0])
    return found


@scenario
def save_on_cpu(torch):
    x = leaf(torch, 1, 2)
    with graph_of(torch).save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    with graph_of(torch).save_on_cpu(pin_memory=False):
        z = (x.t() * 2).sin().sum()
    z.backward()
    return x.grad


@scenario
def mutation_of_saved_tensors(torch):
    graph = graph_of(torch)
    with graph.allow_mutation_on_saved_tensors():
        a = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
        b = a.clone()
        out = (b**2).sum()
        b.sin_()
        out.sum().backward()
    found = [a.grad]
    with graph.allow_mutation_on_saved_tensors() as ctx:
        a = leaf(torch, 1, 2)
        b = a.clone()
        c = b * b.exp()
        b.mul_(5)
        b[0] = 3
        c.sum().backward()
        found.append(a.grad)
        ctx.clear()
    with graph.allow_mutation_on_saved_tensors():
        found.append(raised("nested", graph.allow_mutation_on_saved_tensors().__enter__))
    with graph.allow_mutation_on_saved_tensors():
        a = leaf(torch, 1, 2)
        b = a.clone()
        out = (b**2).sum()
        b.sin_()
    found.append(raised("allow_mutation_on_saved_tensors", out.backward)[0])
    return found


@scenario
def versions(torch):
    graph = graph_of(torch)
    x = torch.ones(2)
    graph.increment_version(x)
    first = x._version
    y = torch.ones(2)
    graph.increment_version([x, y])
    z = leaf(torch, 1)
    w = z * 1
    out = w.exp() * w
    graph.increment_version(w)
    return [first, x._version, y._version, raised("modified by an inplace operation", out.backward)]


@scenario
def several_gradients_together(torch):
    graph = graph_of(torch)
    found = []
    for mode in ("all", "any"):
        seen = []
        a, b, c = leaf(torch, 1), leaf(torch, 2), leaf(torch, 3)
        handle = graph.register_multi_grad_hook(
            [a, b, c],
            lambda gs, seen=seen: seen.append(
                [g if g is None else g.tolist() for g in gs] if isinstance(gs, list | tuple) else gs.tolist()
            ),
            mode=mode,
        )
        (a * b).backward(retain_graph=True)
        (a * b + c).backward()
        found.append(len(seen))
        if mode == "all":
            found.append(seen)
        handle.remove()
        (a * b).backward()
        found.append(len(seen))
    return [found, raised("mode", graph.register_multi_grad_hook, [a], print, mode="none")[0]]


@scenario
def several_gradients_in_several_threads(torch):
    graph = graph_of(torch)
    seen = []
    a, b = leaf(torch, 1), leaf(torch, 2)
    graph.register_multi_grad_hook([a, b], lambda gs: seen.append(sorted(g.item() for g in gs)))

    def run():
        for _ in range(5):
            (a * 3 + b * 4).backward()

    threads = [threading.Thread(target=run) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return [len(seen), seen[0], all(s == seen[0] for s in seen)]


test_as_in_pytorch = scenario.test()
