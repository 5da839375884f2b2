"""Checkpoints that keep what some operators gave, compared with PyTorch's."""

import importlib

import flambeau
import pytest
from flambeau.utils._python_dispatch import TorchDispatchMode
from sides import Scenarios, leaf, raised

scenario = Scenarios()


def of(torch):
    return importlib.import_module(torch.__name__ + ".utils.checkpoint")


@scenario
def selective_by_a_list(torch):
    contexts = lambda: of(torch).create_selective_checkpoint_contexts([torch.ops.aten.mm.default])  # noqa: E731
    x = torch.full((2, 2), 0.5, dtype=torch.float64, requires_grad=True)
    y = of(torch).checkpoint(lambda t: (t.sin() @ t).exp() @ t, x, use_reentrant=False, context_fn=contexts)
    y.sum().backward()
    bad = lambda: of(torch).create_selective_checkpoint_contexts([torch.ops.aten.mm])  # noqa: E731
    return [
        x.grad,
        raised("OpOverload", bad),
        raised("", of(torch).create_selective_checkpoint_contexts, 3)[0],
    ]


@scenario
def selective_by_a_policy(torch):
    policies, seen = of(torch).CheckpointPolicy, []

    def policy(ctx, op, *args, **kwargs):
        if op is torch.ops.aten.mm.default:
            seen.append((ctx.is_recompute, list(args[0].shape)))
            return policies.MUST_SAVE
        return policies.PREFER_RECOMPUTE

    contexts = lambda: of(torch).create_selective_checkpoint_contexts(policy)  # noqa: E731
    x = torch.full((2, 3), 0.5, dtype=torch.float64, requires_grad=True)
    w = torch.full((3, 3), 0.25, dtype=torch.float64, requires_grad=True)
    y = of(torch).checkpoint(
        lambda t: ((t @ w).tanh() @ w).sin(), x, use_reentrant=False, context_fn=contexts
    )
    y.sum().backward()
    return [x.grad, w.grad, seen]


@scenario
def selective_and_in_place(torch):
    found = []
    for allow in (False, True):
        ops = [torch.ops.aten.sin.default]
        contexts = lambda: of(torch).create_selective_checkpoint_contexts(ops, allow)  # noqa: B023, E731

        def run(t):
            y = t.sin()
            z = y.detach()
            z.mul_(2)
            return (y.exp() * t).tanh()

        x = leaf(torch, 0.5)
        y = of(torch).checkpoint(run, x, use_reentrant=False, context_fn=contexts)
        found.append(raised("mutated", y.backward))
    return found


test_as_in_pytorch = scenario.test()


def test_selective_checkpoint_may_keep_results_elsewhere():
    policies = of(flambeau).CheckpointPolicy

    def contexts():
        return of(flambeau).create_selective_checkpoint_contexts(lambda *_: policies.MUST_CPU_OFFLOAD)

    x = flambeau.full((3,), 0.5, requires_grad=True)
    of(flambeau).checkpoint(
        lambda t: t.sin().exp(), x, use_reentrant=False, context_fn=contexts
    ).sum().backward()
    expected = x.detach().sin().exp() * x.detach().cos()
    assert flambeau.allclose(x.grad, expected)


def test_selective_checkpoint_runs_kept_operators_once():
    counts = {}

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func.overloadpacket.__name__
            counts[name] = counts.get(name, 0) + 1
            return func(*args, **(kwargs or {}))

    def contexts():
        return of(flambeau).create_selective_checkpoint_contexts([flambeau.ops.aten.mm.default])

    def run(t):
        return (t @ t).exp() @ t

    x = flambeau.full((3, 3), 0.5, requires_grad=True)
    y = of(flambeau).checkpoint(run, x, use_reentrant=False, context_fn=contexts).sum()
    with Count():
        y.backward()
    # Two gradients of each product, and no product of the forward pass; exp ran again.
    assert (counts["mm"], counts["exp"]) == (4, 1)


def test_selective_checkpoint_finds_changes_of_what_it_kept():
    def contexts():
        return of(flambeau).create_selective_checkpoint_contexts([flambeau.ops.aten.exp.default])

    x = flambeau.ones(2, requires_grad=True)
    y = of(flambeau).checkpoint(lambda t: t.exp().sin().cos(), x, use_reentrant=False, context_fn=contexts)
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="not found in storage"):
        y.sum().backward()
