"""Hooks of modules, compared with PyTorch."""

import importlib
from collections import OrderedDict

from sides import Scenarios, leaf, raised, warned

scenario = Scenarios()


def globals_of(torch):
    return importlib.import_module(torch.__name__ + ".nn.modules.module")


def layer(torch):
    class Layer(torch.nn.Module):
        def forward(self, x, scale=2, fail=False):
            if fail:
                raise ValueError("in forward")
            return x * scale

    return Layer()


def listed(grads):
    return [g if g is None else g.tolist() for g in grads]


@scenario
def forward_hooks_in_order(torch):
    log, net = [], layer(torch)
    net.register_forward_pre_hook(lambda m, a: log.append("pre"))
    net.register_forward_pre_hook(lambda m, a: (a[0] + 1,), prepend=True)
    net.register_forward_pre_hook(lambda m, a, k: (a, {**k, "scale": 10}), with_kwargs=True)
    net.register_forward_hook(lambda m, a, o: log.append(("post", a[0].tolist(), o.tolist())))
    handle = net.register_forward_hook(lambda m, a, k, o: o + len(k), with_kwargs=True, prepend=True)
    found = [net(torch.ones(1)), net(torch.ones(1), scale=3)]
    handle.remove()
    return [found, net(torch.ones(1)), log]


@scenario
def forward_hooks_that_always_run(torch):
    log, net = [], layer(torch)
    net.register_forward_hook(lambda m, a, o: log.append(("always", o is None)), always_call=True)
    net.register_forward_hook(lambda m, a, o: log.append("only on success"))
    found = [raised("in forward", net, torch.ones(1), fail=True)]
    net(torch.ones(1))
    return [found, log]


@scenario
def full_backward_hooks(torch):
    log, net = [], layer(torch)
    net.register_full_backward_hook(lambda m, gi, go: log.append(("post", m is net, listed(gi), listed(go))))
    net.register_full_backward_pre_hook(lambda m, go: log.append(("pre", m is net, listed(go))))
    x = leaf(torch, 1, 2)
    (net(x) * 5).sum().backward()
    return [log, x.grad]


@scenario
def full_backward_hooks_replace(torch):
    net = layer(torch)
    net.register_full_backward_hook(lambda m, gi, go: (gi[0] * 100,))
    net.register_full_backward_pre_hook(lambda m, go: (go[0] * 7,))
    x = leaf(torch, 1)
    y = net(x)
    y.backward()
    return [x.grad, y.grad_fn.name()]


@scenario
def full_backward_hooks_of_several_values(torch):
    class Two(torch.nn.Module):
        def forward(self, x, n, y):
            return x * n, [y], y * x

    net, log = Two(), []
    net.register_full_backward_hook(lambda m, gi, go: log.append((listed(gi), listed(go))))
    x, y = leaf(torch, 2), leaf(torch, 3)
    a, b, c = net(x, 4, y)
    (a + c).backward()
    return [log, x.grad, y.grad, b[0] is y]


@scenario
def full_backward_hooks_without_inputs_that_want_a_gradient(torch):
    torch.manual_seed(0)
    net, log = torch.nn.Linear(2, 1), []
    net.register_full_backward_hook(lambda m, gi, go: log.append((listed(gi), listed(go))))
    net(torch.ones(1, 2)).sum().backward()
    with torch.no_grad():
        net(torch.ones(1, 2))
    return log


@scenario
def full_backward_hooks_refuse_in_place(torch):
    net = layer(torch)
    net.register_full_backward_hook(lambda m, gi, go: None)
    return raised("is being modified inplace", lambda: net(leaf(torch, 1)).add_(1))


@scenario
def wrong_results_of_module_hooks(torch):
    net = layer(torch)
    handle = net.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    found = [raised("", lambda: net(leaf(torch, 1)).backward())[0]]
    handle.remove()
    handle = net.register_full_backward_pre_hook(lambda m, go: (go[0], go[0]))
    found.append(raised("", lambda: net(leaf(torch, 1)).backward())[0])
    handle.remove()
    net.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    return [*found, raised("", net, torch.ones(1))[0]]


@scenario
def hooks_of_all_modules(torch):
    log, modules = [], globals_of(torch)
    handles = [
        modules.register_module_forward_pre_hook(lambda m, a: log.append(("pre", type(m).__name__))),
        modules.register_module_forward_hook(lambda m, a, o: log.append(("post", type(m).__name__))),
        modules.register_module_full_backward_pre_hook(
            lambda m, go: log.append(("back pre", type(m).__name__))
        ),
        modules.register_module_full_backward_hook(lambda m, gi, go: log.append(("back", type(m).__name__))),
    ]
    net = torch.nn.Sequential(torch.nn.Tanh(), layer(torch))
    x = leaf(torch, 1)
    net[1].register_forward_hook(lambda m, a, o: log.append("own"))
    net(x).backward()
    for handle in handles:
        handle.remove()
    net(x).backward()
    return [log, x.grad]


@scenario
def hooks_of_all_modules_with_kwargs(torch):
    log, modules = [], globals_of(torch)
    with modules.register_module_forward_hook(lambda m, a, k, o: log.append(sorted(k)), with_kwargs=True):
        layer(torch)(torch.ones(1), scale=3)
    with modules.register_module_forward_hook(lambda m, a, o: log.append("always"), always_call=True):
        raised("", layer(torch), torch.ones(1), fail=True)
    layer(torch)(torch.ones(1))
    return log


@scenario
def old_backward_hooks(torch):
    log, net = [], layer(torch)
    net.register_backward_hook(lambda m, gi, go: log.append((listed(gi)[0], listed(go))))
    found = raised("both", net.register_full_backward_hook, print)[0]
    net(leaf(torch, 1)).backward()
    return [log, found]


@scenario
def registration_hooks(torch):
    log, modules = [], globals_of(torch)
    handles = [
        modules.register_module_parameter_registration_hook(lambda m, n, p: log.append(("parameter", n))),
        modules.register_module_buffer_registration_hook(lambda m, n, b: log.append(("buffer", n))),
        modules.register_module_module_registration_hook(lambda m, n, s: log.append(("module", n))),
    ]
    net = layer(torch)
    net.p = torch.nn.Parameter(torch.ones(1))
    net.register_buffer("b", torch.ones(1))
    net.s = layer(torch)
    for handle in handles:
        handle.remove()
    net.q = torch.nn.Parameter(torch.ones(1))
    return log


@scenario
def state_dict_hooks(torch):
    log, net = [], torch.nn.Linear(1, 1)
    net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append(("before", prefix)))
    net.register_state_dict_post_hook(lambda m, d, prefix, meta: log.append(("after", sorted(d))))
    net.register_load_state_dict_pre_hook(lambda m, d, prefix, *rest: log.append(("loading", sorted(d))))
    net.register_load_state_dict_post_hook(lambda m, keys: log.append(("loaded", keys.missing_keys)))
    outer = torch.nn.Sequential(net)
    outer.load_state_dict(outer.state_dict())
    return log


@scenario
def hooks_that_always_run_see_what_there_is(torch):
    log = []

    def fail(module, args, output):
        raise RuntimeError("hook")

    net = torch.nn.Identity()
    net.register_forward_hook(fail)
    net.register_forward_hook(lambda m, a, o: log.append(type(o).__name__), always_call=True)
    found = [raised("hook", net, torch.ones(1))]
    net = torch.nn.Identity()
    net.register_forward_pre_hook(lambda m, a: 1 / 0)
    net.register_forward_hook(lambda m, a, o: log.append(o), always_call=True)
    return [found, raised("division", net, torch.ones(1)), log]


@scenario
def results_without_gradient_have_none(torch):
    log = []

    class Two(torch.nn.Module):
        def forward(self, a, b):
            return a * 2, b.detach(), "text"

    net = Two()
    net.register_full_backward_hook(lambda m, gi, go: log.append([listed(gi), listed(go)]))
    a = leaf(torch, 1)
    net(a, torch.ones(1))[0].backward()
    return log


@scenario
def results_that_are_no_tensors_warn(torch):
    class Named(torch.nn.Module):
        def forward(self, a):
            return {"out": a * 2}

    net = Named()
    net.register_full_backward_hook(lambda m, gi, go: None)
    return warned("backward hooks", net, leaf(torch, 1))


@scenario
def words_of_errors(torch):
    net = layer(torch)
    net.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    old = torch.nn.Linear(1, 1)
    old.register_backward_hook(lambda m, gi, go: None)
    return [
        raised("forward pre-hook", net, torch.ones(1)),
        raised("full backward hooks", old.register_full_backward_hook, lambda m, gi, go: None),
    ]


@scenario
def tables_hold_the_functions(torch):
    def hook(module, *args):
        return None

    net = layer(torch)
    handles = [
        net.register_forward_hook(hook, with_kwargs=True, always_call=True),
        net.register_forward_pre_hook(hook, with_kwargs=True),
        net.register_full_backward_hook(hook),
        net.register_full_backward_pre_hook(hook),
    ]
    tables = [net._forward_hooks, net._forward_pre_hooks, net._backward_hooks, net._backward_pre_hooks]
    marks = [
        net._forward_hooks_with_kwargs,
        net._forward_hooks_always_called,
        net._forward_pre_hooks_with_kwargs,
    ]
    found = [[hook in t.values() for t in tables], [len(t) for t in marks]]
    for handle in handles:
        handle.remove()
    return [found, [len(t) for t in tables + marks]]


@scenario
def handles_of_tables_of_ones_own(torch):
    hooks = importlib.import_module(torch.__name__ + ".utils.hooks")
    table, extra = OrderedDict(), OrderedDict()
    handle = hooks.RemovableHandle(table, extra_dict=extra)
    table[handle.id] = extra[handle.id] = 1
    handle.remove()
    return [len(table), len(extra)]


@scenario
def hooks_put_into_the_table_by_hand(torch):
    net = layer(torch)
    net._forward_hooks[123456789] = lambda m, a, o: o + 1
    return net(torch.ones(1))


test_as_in_pytorch = scenario.test()
