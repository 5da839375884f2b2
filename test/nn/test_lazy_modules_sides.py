"""Lazy modules of one's own, and lazy layers with states, pickles and errors, as in PyTorch."""

from __future__ import annotations

import copy
import importlib
import pickle

import pytest
from sides import Scenarios, raised

scenario = Scenarios()


def own(torch, fills=True):
    """A lazy module that a user writes, and what it becomes."""
    lazy = importlib.import_module(torch.__name__ + ".nn.modules.lazy")

    class Scaled(torch.nn.Module):
        def forward(self, x, k=0):
            return x * self.w + self.b

    class LazyScaled(lazy.LazyModuleMixin, Scaled):
        cls_to_become = Scaled

        def __init__(self):
            super().__init__()
            self.w = torch.nn.UninitializedParameter()
            self.register_buffer("b", torch.nn.UninitializedBuffer())

        def initialize_parameters(self, x, *, k=0):
            if fills and self.has_uninitialized_params():
                with torch.no_grad():
                    self.w.materialize(x.shape)
                    self.b.materialize(x.shape)
                    self.w.fill_(2)
                    self.b.fill_(1)

    return LazyScaled()


@scenario
def a_module_of_ones_own(torch):
    net = own(torch)
    before = [net.has_uninitialized_params(), repr(net.w), list(net.state_dict()), type(net).__name__]
    out = net(torch.ones(2), k=1)
    return [
        before,
        type(net).__name__,
        type(net.w).__name__,
        out,
        hasattr(net, "_initialize_hook"),
        net.w.shape == (2,),
    ]


@scenario
def states_materialize(torch):
    source, target = own(torch), own(torch)
    source(torch.ones(3))
    target.load_state_dict(source.state_dict())
    loaded = [
        type(target).__name__,
        type(target.w).__name__,
        list(target.w.shape),
        target.has_uninitialized_params(),
    ]
    return [loaded, target(torch.ones(3)), type(target).__name__]


@scenario
def errors(torch):
    lazy = importlib.import_module(torch.__name__ + ".nn.modules.lazy")

    class Bare(lazy.LazyModuleMixin, torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.UninitializedParameter()

    empty = torch.nn.UninitializedParameter()
    return [
        raised("initialize_parameters is not implemented", Bare(), torch.ones(1)),
        raised("fully initialized", own(torch, fills=False), torch.ones(1)),
        raised("an uninitialized parameter", lambda: empty.shape),
        raised("use an uninitialized parameter", lambda: empty + 1),
        raised("an uninitialized parameter", empty.share_memory_),
        raised("uninitialized", torch.nn.Linear(2, 2).load_state_dict, torch.nn.LazyLinear(2).state_dict()),
    ]


@scenario
def moves_before_the_first_call(torch):
    net = torch.nn.LazyLinear(2).double()
    net(torch.ones(1, 3, dtype=torch.float64))
    return [str(net.weight.dtype)[-7:], net.in_features]


@scenario
def classes(torch):
    nn = torch.nn
    buffer, parameter = nn.UninitializedBuffer(), nn.UninitializedParameter()
    mixin = importlib.import_module(torch.__name__ + ".nn.parameter").UninitializedTensorMixin
    kinds = [
        isinstance(v, k) for v in (buffer, parameter) for k in (nn.Parameter, nn.Buffer, mixin, torch.Tensor)
    ]
    return [kinds, nn.UninitializedParameter.cls_to_become.__name__, nn.LazyConv2d.cls_to_become.__name__]


@scenario
def loaded_layers_become_others_when_called(torch):
    lazy, source = torch.nn.LazyLinear(3), torch.nn.Linear(4, 3)
    lazy.load_state_dict(source.state_dict())
    found = [type(lazy).__name__, type(lazy.weight).__name__]
    same = torch.equal(lazy(torch.ones(1, 4)), source(torch.ones(1, 4)))
    return [found, same, type(lazy).__name__, lazy.in_features]


test_as_in_pytorch = scenario.test()


@pytest.mark.parametrize("name", ["LazyLinear", "LazyConv2d", "LazyBatchNorm2d"])
def test_pickles_and_copies(name):
    import flambeau

    arguments = {"LazyLinear": (3,), "LazyConv2d": (2, 3)}.get(name, ())
    shape = (2, 4) if name == "LazyLinear" else (2, 4, 5, 5)
    net = getattr(flambeau.nn, name)(*arguments)
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert type(other) is type(net) and other.has_uninitialized_params()
        other(flambeau.ones(shape))
        assert type(other) is net.cls_to_become
        again = pickle.loads(pickle.dumps(other))
        assert type(again) is net.cls_to_become and again.weight.shape == other.weight.shape
    assert net.has_uninitialized_params()
