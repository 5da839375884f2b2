"""Subclasses of Tensor and Parameter: what keeps the class and the attributes, as in PyTorch."""

from __future__ import annotations

import copy
import functools
import importlib
import io
import pickle
import sys

import pytest
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()


def named(x):
    return type(x).__name__


@functools.cache
def classes(torch):
    """A class of tensors and one of parameters that pickles find in this module."""
    here = sys.modules[__name__]
    made = []
    for name, base in (("Sub", torch.Tensor), ("Own", torch.nn.Parameter)):
        made.append(type(f"{name}_{torch.__name__}", (base,), {"__module__": __name__}))
        setattr(here, made[-1].__name__, made[-1])
    return made


@scenario
def operators_keep_the_class(torch):
    sub, _ = classes(torch)
    s = torch.ones(3).as_subclass(sub)
    results = [
        s + 1, 1 + s, s.sum(), s.clone(), torch.add(torch.ones(3), s), torch.stack([s, s]),
        s.detach(), s.double(), s.view(3), s.max(0)[0], s.new_ones(2), s.cpu(), abs(s),
        torch.zeros_like(s), -s, s == 1, s.unbind()[0], s.mul_(1), torch.cat([s, torch.ones(1)]),
        s.expand(2, 3), torch.nn.functional.relu(s),
    ]  # fmt: skip
    plain = [s.as_subclass(torch.Tensor), torch.Tensor._make_subclass(torch.Tensor, s)]
    return [[named(r)[:4] for r in results], [named(p) for p in plain]]


@scenario
def parameters_of_a_class(torch):
    sub, own = classes(torch)
    p, q = own(torch.ones(2)), torch.nn.Parameter(torch.ones(2).as_subclass(sub))
    net = torch.nn.Module()
    net.p, net.q = p, q
    twin = copy.deepcopy(p)
    is_parameter = [isinstance(v, torch.nn.Parameter) for v in (p, q, twin, torch.ones(1))]
    texts = [repr(v).replace(f"_{torch.__name__}", "") for v in (p, q)]
    shown = [named(v)[:4] for v in (p, q, twin, net.p, net.q, p + 1, p.data, p.detach())]
    return [is_parameter, shown, list(net._parameters), texts, q.requires_grad, isinstance(q, sub)]


@scenario
def attributes(torch):
    x = torch.ones(2)
    x.tag = [1]
    p = torch.nn.Parameter(torch.ones(2))
    p.tag = 5
    copies = [copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)]
    same = [c.tag is x.tag for c in copies]
    loaded = pickle.loads(pickle.dumps(p))
    return [
        [c.tag for c in copies],
        same,
        loaded.tag,
        named(loaded),
        loaded.requires_grad,
        hasattr(copy.deepcopy(p), "tag"),
    ]


@scenario
def what_pickles_call(torch):
    sub, _ = classes(torch)
    x = torch.ones(2)
    x.tag = 1
    p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    q.tag = 1
    values = [torch.ones(2), torch.ones(2, requires_grad=True) * 2, x, p, q, torch.ones(2).as_subclass(sub)]
    values += [
        torch.ones(2, device="meta"),
        torch.ones(2, dtype=torch.cfloat).conj(),
    ]
    out = []
    for value in values:
        function, arguments = value.__reduce_ex__(2)
        again = function(*arguments)
        facts = [str(again.dtype)[-6:], list(again.shape), again.requires_grad, getattr(again, "tag", None)]
        out.append([function.__name__, len(arguments), named(again)[:4], facts])
    return out


@scenario
def graphs(torch):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    (x * 3).sum().backward()
    net = torch.nn.Linear(2, 1)
    net(torch.ones(1, 2)).sum().backward()
    twin = copy.deepcopy(net)
    family = {"a": x, "b": x, "view": x.detach()[:1]}
    other = copy.deepcopy(family)
    return [
        raised("created explicitly", copy.deepcopy, y),
        raised("support the deepcopy protocol", copy.deepcopy, [y]),
        [copy.deepcopy(x).grad, twin.weight.grad is None, twin.weight.requires_grad],
        [other["a"] is other["b"], other["a"].is_leaf, named(copy.copy(y))],
    ]


@scenario
def a_parameter_needs_a_class_that_detaches(torch):
    class Odd(torch.Tensor):
        def detach(self):
            return torch.ones(1)

    return raised(
        "requires that detach()",
        torch.nn.Parameter,
        torch.ones(1).as_subclass(Odd),
    )


@scenario
def states_of_a_class(torch):
    here = sys.modules[__name__]

    def new(cls, *args):
        return torch.Tensor._make_subclass(cls, torch.ones(2))

    def set_state(self, state):
        self.got = state

    members = {"__slots__": ("z",), "__new__": new, "__setstate__": set_state, "__module__": __name__}
    kind = type(f"Stateful_{torch.__name__}", (torch.Tensor,), members)
    setattr(here, kind.__name__, kind)
    s = kind()
    s.a, s.z = 1, 4
    return list(pickle.loads(pickle.dumps(s)).got)


@scenario
def files_keep_the_class(torch):
    sub, own = classes(torch)
    s = torch.ones(2).as_subclass(sub)
    s.tag = 3
    out = []
    for value in (s, own(torch.ones(2)), torch.nn.Parameter(s)):
        file = io.BytesIO()
        torch.save({"x": value}, file)
        file.seek(0)
        found = torch.load(file, weights_only=False)["x"]
        out.append([named(found)[:4], getattr(found, "tag", None), found.requires_grad])
        file.seek(0)
        out.append(raised("Weights only load failed", torch.load, file))
        file.seek(0)
        serialization = importlib.import_module(torch.__name__ + ".serialization")
        with serialization.safe_globals([sub, own]):
            out.append(named(torch.load(file)["x"])[:4])
    return out


test_as_in_pytorch = scenario.test()


@pytest.mark.parametrize("name", ["Sub", "Own"])
def test_pickles_of_a_class_keep_values(name):
    import flambeau

    kind = dict(zip(("Sub", "Own"), classes(flambeau), strict=True))[name]
    x = flambeau.ones(2).as_subclass(kind)
    x.tag = 3
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.tolist() == [1, 1] and other.data_ptr() != x.data_ptr()
    assert pytorch()
