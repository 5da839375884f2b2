"""Layers are called with PyTorch's names of arguments, by position or by keyword."""

from __future__ import annotations

import inspect

import flambeau
import pytest
from oracle import pytorch
from side_by_side import agree, numbers


def layers():
    theirs = pytorch().nn
    found = (n for n in dir(theirs) if isinstance(getattr(theirs, n), type))
    return [n for n in found if issubclass(getattr(theirs, n), theirs.Module) and hasattr(flambeau.nn, n)]


def test_parameters_of_forward():
    wrong = {}
    for name in layers():
        ours, theirs = (inspect.signature(getattr(f.nn, name).forward) for f in (flambeau, pytorch()))
        found, expected = list(ours.parameters), list(theirs.parameters)
        if found != expected and set(expected) - set(found):
            wrong[name] = (found, expected)
    assert not wrong


@pytest.mark.parametrize("name", ["ReLU", "GELU", "Softmax", "Dropout", "Flatten", "Linear", "LayerNorm"])
def test_input_by_keyword(name):
    arguments = {"Softmax": (1,), "Linear": (3, 2), "LayerNorm": (3,), "Dropout": (0.0,)}.get(name, ())

    def program(torch, x):
        torch.manual_seed(0)
        return getattr(torch.nn, name)(*arguments)(input=x)

    agree(program, numbers(2, 3))


def test_losses_by_keyword():
    def program(torch, x, y):
        nn = torch.nn
        sign = torch.ones(2)
        return [
            nn.PoissonNLLLoss()(log_input=x, target=y),
            nn.CosineEmbeddingLoss()(input1=x, input2=y, target=sign),
            nn.TripletMarginLoss()(anchor=x, positive=y, negative=x + 1),
            nn.CosineSimilarity()(x1=x, x2=y),
            nn.GaussianNLLLoss()(input=x, target=y, var=torch.ones(2, 3)),
        ]

    agree(program, numbers(2, 3), numbers(2, 3, seed=1))


def test_signature_of_a_subclass_is_its_own():
    class Scaled(flambeau.nn.SiLU):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

    assert list(inspect.signature(Scaled).parameters) == ["factor"]
    assert list(inspect.signature(flambeau.nn.Dropout).parameters) == ["p", "inplace"]


@pytest.mark.parametrize("norm", [float("inf"), float("-inf")])
def test_norm_pooling_by_the_largest_magnitude(norm):
    def program(torch, x):
        f = torch.nn.functional
        wide = x.reshape(1, 1, 4, 4)
        return [
            f.lp_pool1d(x, norm, 3, 1),
            f.lp_pool2d(wide, norm, 2),
            f.lp_pool1d(x, norm, 3, ceil_mode=True),
        ]

    agree(program, numbers(1, 1, 16))


def test_modules_with_duplicates():
    def program(torch):
        shared = torch.nn.ReLU()
        net = torch.nn.Sequential(shared, shared)
        return [len(list(net.modules())), len(list(net.modules(remove_duplicate=False)))]

    agree(program)
