"""Pruning, compared with PyTorch."""

from __future__ import annotations

import importlib

from sides import Scenarios, raised

scenario = Scenarios()


def pruning(torch):
    return importlib.import_module(torch.__name__ + ".nn.utils.prune")


def linear(torch, rows=3, columns=4):
    layer = torch.nn.Linear(columns, rows)
    values = torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns)
    with torch.no_grad():
        layer.weight.copy_((values * 7) % 12 - 5 + values / 64)  # no two of one size
        layer.bias.copy_(torch.arange(rows, dtype=torch.float32) - 1)
    return layer


def seen(layer):
    state = {name: value.tolist() for name, value in layer.state_dict().items()}
    return [sorted(state.items()), layer.weight.tolist(), type(layer.weight).__name__]


@scenario
def smallest_elements(torch):
    layer = pruning(torch).l1_unstructured(linear(torch), "weight", 5)
    layer(torch.ones(2, 4)).sum().backward()
    return [seen(layer), layer.weight_orig.grad.tolist()]


@scenario
def twice(torch):
    prune = pruning(torch)
    layer = prune.l1_unstructured(linear(torch), "weight", 0.25)
    prune.ln_structured(layer, "weight", 1, 2, 0)
    prune.l1_unstructured(layer, "weight", 2)
    hooks = list(layer._forward_pre_hooks.values())
    return [seen(layer), len(hooks), prune.is_pruned(layer)]


@scenario
def channels_by_order(torch):
    prune = pruning(torch)
    out = []
    for n in (1, 2, float("inf"), -float("inf")):
        for dim in (0, 1, -1):
            out.append(seen(prune.ln_structured(linear(torch), "weight", 1, n, dim)))
    return out


@scenario
def by_scores(torch):
    scores = torch.arange(12.0).reshape(3, 4)
    prune = pruning(torch)
    return [
        seen(prune.l1_unstructured(linear(torch), "weight", 4, importance_scores=scores)),
        raised("shape", prune.l1_unstructured, linear(torch), "weight", 4, importance_scores=scores[:2]),
    ]


@scenario
def shares_of_random(torch):
    prune = pruning(torch)
    out = []
    for amount in (0, 0.0, 0.5, 3, 1.0):
        layer = prune.random_unstructured(linear(torch), "weight", amount)
        out.append(layer.weight_mask.sum().item())
        layer = prune.random_structured(linear(torch), "weight", min(amount, 2), 0)
        out.append(layer.weight_mask.sum(1).eq(0).sum().item())
    return out


@scenario
def all_parameters_together(torch):
    prune = pruning(torch)
    first, second = linear(torch), linear(torch, 2, 2)
    places = ((first, "weight"), (second, "weight"), (first, "bias"))
    prune.global_unstructured(places, pruning_method=prune.L1Unstructured, amount=7)
    return [seen(first), seen(second), first.bias_mask.tolist()]


@scenario
def masks_and_their_removal(torch):
    prune = pruning(torch)
    layer = prune.custom_from_mask(linear(torch), "bias", torch.tensor([0, 1, 0]))
    before = [layer.bias.tolist(), [name for name, _ in layer.named_parameters()]]
    prune.remove(layer, "bias")
    after = [layer.bias.tolist(), [name for name, _ in layer.named_parameters()], prune.is_pruned(layer)]
    again = raised("has to be pruned", prune.remove, layer, "bias")
    prune.identity(layer, "weight")
    return [before, after, again, seen(layer)]


@scenario
def wrong_amounts(torch):
    prune = pruning(torch)
    layer = linear(torch)
    return [
        raised("amount", prune.l1_unstructured, layer, "weight", "a"),
        raised("amount", prune.l1_unstructured, layer, "weight", 1.5),
        raised("amount", prune.l1_unstructured, layer, "weight", -1),
        raised("amount", prune.l1_unstructured, layer, "weight", 13),
        raised("dimension", prune.ln_structured, layer, "bias", 1, 2, 0),
        raised("", prune.random_structured, linear(torch), "weight", 1, 5),
    ]


@scenario
def a_tensor_alone(torch):
    prune = pruning(torch)
    method = prune.L1Unstructured(amount=2)
    return method.prune(torch.tensor([3.0, -1.0, 0.5, 2.0])).tolist()


test_as_in_pytorch = scenario.test()
