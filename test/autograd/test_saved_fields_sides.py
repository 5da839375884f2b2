"""What nodes keep for their backward: node._saved_* and node._raw_saved_*, as in PyTorch."""

from __future__ import annotations

import gc

import flambeau
import pytest
from sides import Scenarios, leaf, raised, short_name

scenario = Scenarios()


def x_of(torch):
    return leaf(torch, 1.0, 2.0, 3.0)


# The fields that both keep: formulas differ, and with them what else is kept.
CALLS = {
    "mul": (lambda t, x: x * x, ["self", "other"]),
    "mul by a number": (lambda t, x: x * 2, ["other"]),
    "mul by a float": (lambda t, x: x * 2.5, ["other"]),
    "div": (lambda t, x: x / x, ["other"]),
    "div by a number": (lambda t, x: x / 4, ["other"]),
    "add": (lambda t, x: x.add(x, alpha=3), ["alpha"]),
    "exp": (lambda t, x: x.exp(), ["result"]),
    "log": (lambda t, x: x.log(), ["self"]),
    "tanh": (lambda t, x: x.tanh(), ["result"]),
    "sigmoid": (lambda t, x: x.sigmoid(), ["result"]),
    "atan2": (lambda t, x: t.atan2(x, x * 2), ["self", "other"]),
    "pow": (lambda t, x: x**2, ["self"]),
    "mm": (lambda t, x: x.view(1, 3) @ x.view(3, 1), ["self", "mat2"]),
    "sum": (lambda t, x: x.view(1, 3).sum(-1, True), ["dim", "keepdim", "self_sym_sizes"]),
    "cumsum": (lambda t, x: x.cumsum(-1), ["dim"]),
    "softmax": (lambda t, x: x.softmax(0), ["result", "dim"]),
    "cat": (lambda t, x: t.cat([x, x], 0), ["dim"]),
    "unsqueeze": (lambda t, x: x.unsqueeze(-1), ["dim"]),
    "view": (lambda t, x: x.view(3, 1), ["self_sym_sizes"]),
    "permute": (lambda t, x: x.view(3, 1).permute(-1, 0), ["dims"]),
    "transpose": (lambda t, x: x.view(3, 1).transpose(0, 1), ["dim0", "dim1"]),
    "gather": (lambda t, x: x.gather(0, t.tensor([1])), ["dim", "index"]),
    "where": (lambda t, x: t.where(x > 1, x, x), ["condition"]),
}


@scenario
def values_by_name(torch):
    out = []
    for name, (call, fields) in CALLS.items():
        node = call(torch, x_of(torch)).grad_fn
        out.append([name, short_name(node), [[f, getattr(node, f"_saved_{f}", "absent")] for f in fields]])
    return out


@scenario
def names_are_listed(torch):
    out = []
    for name, (call, fields) in CALLS.items():
        listed = dir(call(torch, x_of(torch)).grad_fn)
        tensors = {"self", "other", "result", "mat2", "index", "condition"} - (
            {"other"} if "number" in name or "float" in name else set()
        )
        raw = [f"_raw_saved_{f}" in listed for f in fields if f in tensors]
        out.append([name, [f"_saved_{f}" in listed for f in fields], raw])
    return out


@scenario
def inputs_are_the_tensors_and_results_have_their_history(torch):
    x = x_of(torch)
    y = (x * 1).exp()
    z = x * x
    return [
        z.grad_fn._saved_self is x,
        y.grad_fn._saved_result is y,
        y.grad_fn._saved_result.grad_fn is y.grad_fn,
        type(z.grad_fn._raw_saved_self).__name__,
        z.grad_fn._saved_self.requires_grad,
    ]


@scenario
def next_functions_count_numbers(torch):
    x = x_of(torch)
    nodes = [
        (x * 2).grad_fn,
        (x * x).grad_fn,
        (x + 2).grad_fn,
        (x / 2).grad_fn,
        (x - 2).grad_fn,
        (-x).grad_fn,
    ]
    return [[short_name(n), [f is None for f, _ in n.next_functions]] for n in nodes]


@scenario
def numbers_do_not_disturb_gradients(torch):
    x = x_of(torch)
    y = x * 1
    y[0].mul_(5)
    y[1:].div_(4).add_(3).sub_(1).pow_(2)
    (3 - (2 * y) / 7 + 1 / y).sum().backward()
    seen = []
    z = x * 2
    z.grad_fn.register_hook(lambda inputs, outputs: seen.append([g is None for g in inputs]))
    z.sum().backward()
    return [x.grad, seen]


@scenario
def hooks_replace_the_packing(torch):
    x = x_of(torch)
    z = x * x
    packed = []
    z.grad_fn._raw_saved_self.register_hooks(lambda a: packed.append(a.sum()) or a.clone(), lambda a: a * 10)
    seen = [z.grad_fn._saved_self.detach(), packed, torch.autograd.grad(z.sum(), x, retain_graph=True)[0]]
    again = raised("hooks have already been set", z.grad_fn._raw_saved_self.register_hooks, len, len)
    return [seen, again, torch.autograd.grad(z.sum(), x)[0]]


@scenario
def bad_hooks_are_refused(torch):
    x = x_of(torch)

    def raw():
        return (x * x).grad_fn._raw_saved_other

    mean = torch.nn.functional.layer_norm(x, (3,)).grad_fn
    return [
        raised("", raw().register_hooks, 3, 4),
        raised("", raw().register_hooks, lambda: 3, lambda a: a),
        raised(
            "modifying its input in place", raw().register_hooks, lambda a: a.detach().add_(1), lambda a: a
        ),
        raised("Trying to create a SavedTensor object from Python is forbidden", type(raw())),
        raised("", setattr, (x * x).grad_fn, "_saved_self", x),
        raised("", getattr, (x * x).grad_fn, "_saved_dim"),
        raised("None is forbidden", mean._raw_saved_weight.register_hooks, lambda a: a, lambda a: a),
        mean._saved_weight,
    ]


@scenario
def freed_fields_are_refused(torch):
    x = x_of(torch)
    z = x * x
    node, raw = z.grad_fn, z.grad_fn._raw_saved_self
    z.sum().backward()
    freed = "Trying to backward through the graph a second time"
    dim = torch.cat([x, x])
    dim.sum().backward()
    return [
        raised(freed, getattr, node, "_saved_self"),
        raised("after it has been freed", raw.register_hooks, lambda a: a, lambda a: a),
        raised("after it has been freed", node._raw_saved_other.register_hooks, lambda a: a, lambda a: a),
        dim.grad_fn._saved_dim,
    ]


@scenario
def changed_tensors_are_noticed(torch):
    a = x_of(torch) * 1
    z = a * a
    with torch.no_grad():
        a.add_(1)
    return raised("modified by an inplace operation", getattr, z.grad_fn, "_saved_self")


@scenario
def a_function_shows_what_it_saved(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * 2)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            x, twice = ctx.saved_tensors
            return grad * twice

    x = x_of(torch)
    y = Square.apply(x)
    raw = y.grad_fn._raw_saved_tensors
    raw[1].register_hooks(lambda a: a, lambda a: a * 3)
    return [len(raw), type(raw[0]).__name__, torch.autograd.grad(y.sum(), x)[0]]


@scenario
def saved_tensor_hooks_pack_for_all(torch):
    x = x_of(torch)
    with torch.autograd.graph.saved_tensors_hooks(lambda a: a + 1, lambda a: a - 1):
        z = x.exp() * x
    refused = raised("hooks have already been set", z.grad_fn._raw_saved_self.register_hooks, len, len)
    return [refused, z.grad_fn._saved_other, z.grad_fn._saved_self]


test_as_in_pytorch = scenario.test()


def test_a_raw_tensor_keeps_its_node_alone():
    """It lives on when the graph is gone, and nothing leaks."""
    x = flambeau.ones(3, requires_grad=True)
    raw = (x * x).grad_fn._raw_saved_self
    gc.collect()
    raw.register_hooks(lambda a: a, lambda a: a)
    before = flambeau._C._storage_users(x)
    del raw
    gc.collect()
    assert flambeau._C._storage_users(x) <= before


def test_a_hook_that_asks_the_node_that_runs():
    """The node is held while it runs: the question must not wait for it."""
    x = flambeau.ones(3, requires_grad=True)
    z = x * x
    node = z.grad_fn
    node._raw_saved_self.register_hooks(lambda a: a, lambda a: node._saved_other * 2)
    assert flambeau.autograd.grad(z.sum(), x)[0].tolist() == [3, 3, 3]


def test_every_node_of_the_operators_can_be_asked():
    """No field of a node fails to become a Python object."""
    x = flambeau.rand(2, 3, 4, 4, requires_grad=True)
    nodes = [
        flambeau.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
        flambeau.nn.functional.gelu(x),
        x.to(flambeau.float64),
        x.std([0, 1]),
        flambeau.nn.functional.batch_norm(x, None, None, training=True),
        x[flambeau.tensor([0])],
        x.index_put((None, flambeau.tensor([0])), x[:, :1]),
        flambeau.clamp(x, 0.1),
        flambeau.nn.functional.avg_pool2d(x, 2),
        flambeau.stack([x, x]),
        flambeau.fft.fft(x),
        x.split(1)[0],
    ]
    for y in nodes:
        names = [name for name in dir(y.grad_fn) if name.startswith("_saved_")]
        for name in names:
            getattr(y.grad_fn, name)


@pytest.mark.parametrize("name", ["_saved_", "_raw_saved_", "_saved_nothing", "_raw_saved_\N{SNOWMAN}"])
def test_names_that_do_not_exist(name: str):
    x = flambeau.ones(3, requires_grad=True)
    with pytest.raises(AttributeError, match="has no attribute"):
        getattr((x * x).grad_fn, name)
