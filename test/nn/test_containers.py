"""Containers of modules and parameters: every method as in PyTorch, by a program that runs on both."""

import flambeau as fb
import pytest
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()
test_as_in_pytorch = scenario.test()


def layers(torch, *sizes):
    return [torch.nn.Linear(n, 1, bias=False) for n in sizes]


def sizes(container):
    """The names in a container, and the widths of its layers."""
    return [[name, getattr(m, "in_features", -1)] for name, m in container._modules.items()]


def attempts(*calls):
    return [raised("", call) for call in calls]


@scenario
def sequential_grows(torch):
    s = torch.nn.Sequential(*layers(torch, 1, 2))
    out = [s.append(layers(torch, 3)[0]) is s, s.extend(layers(torch, 4, 5)) is s, sizes(s)]
    out += [s.insert(1, layers(torch, 9)[0]) is s, sizes(s), s.insert(-1, layers(torch, 8)[0]) is s, sizes(s)]
    new = layers(torch, 7)[0]
    return out + attempts(
        lambda: s.insert(99, new), lambda: s.insert(-99, new), lambda: s.insert(0, 3), lambda: s.append(3)
    )


@scenario
def sequential_shrinks(torch):
    s = torch.nn.Sequential(*layers(torch, 1, 2, 3, 4, 5))
    out = [s.pop(1).in_features, sizes(s), s.pop(-1).in_features, sizes(s)]
    del s[0]
    out.append(sizes(s))
    s = torch.nn.Sequential(*layers(torch, 1, 2, 3, 4, 5))
    del s[1:4:2]
    return [*out, sizes(s), *attempts(lambda: s.pop(9), lambda: s[9], lambda: s[-9])]


@scenario
def sequential_is_joined_and_repeated(torch):
    a, b = (torch.nn.Sequential(*layers(torch, *n)) for n in ((1, 2), (3,)))
    out = [sizes(a + b), sizes(2 * a), sizes(a * 2), sizes(a), (a + b)[0] is a[0], (a * 2)[2] is a[0]]
    a += b
    out.append(sizes(a))
    a *= 2
    out += [sizes(a), sizes(a[1:3]), type(a[1:]).__name__, len(a)]
    return out + attempts(
        lambda: a + [b], lambda: a * 0, lambda: a * -1, lambda: a * 1.5, lambda: a.__iadd__(3)
    )


@scenario
def sequential_with_names(torch):
    from collections import OrderedDict

    s = torch.nn.Sequential(OrderedDict(zip("abc", layers(torch, 1, 2, 3), strict=True)))
    out = [sizes(s), s.b.in_features, sizes(s[1:]), "a" in dir(s)]
    s[1] = layers(torch, 9)[0]
    out.append(sizes(s))
    del s[0]
    return [*out, sizes(s), *attempts(lambda: s.__setitem__(0, 3), lambda: s.__setitem__(7, s))]


@scenario
def lists(torch):
    m = torch.nn.ModuleList(layers(torch, 1, 2, 3))
    out = [sizes(m + layers(torch, 4)), len(m), m.pop(0).in_features, sizes(m), m.append(m[0]) is m, sizes(m)]
    m += layers(torch, 5, 6)
    out.append(sizes(m))
    m.insert(1, layers(torch, 7)[0])
    out += [sizes(m), sizes(m[1:3]), m[-1].in_features, m.extend(layers(torch, 8)) is m, len(m)]
    del m[1:3]
    m[0] = layers(torch, 9)[0]
    out += [sizes(m), [x.in_features for x in m], "0" in dir(m), m[1] in m]
    return out + attempts(
        lambda: m[99], lambda: m.extend(3), lambda: m.append(3), lambda: m.__setitem__(0, 3),
        lambda: m(torch.ones(1)), lambda: m["a"],
    )  # fmt: skip


@scenario
def dictionaries(torch):
    m = torch.nn.ModuleDict({"a": layers(torch, 1)[0], "b": layers(torch, 2)[0]})
    out = [m.pop("a").in_features, sizes(m), "b" in m, len(m), list(m), list(m.keys())]
    m.update([("c", layers(torch, 3)[0]), ["b", layers(torch, 4)[0]]])
    m.update(torch.nn.ModuleDict({"d": layers(torch, 5)[0]}))
    m["e"] = layers(torch, 6)[0]
    out += [sizes(m), [v.in_features for v in m.values()], [k for k, _ in m.items()]]
    del m["e"]
    out += attempts(
        lambda: m.pop("z"), lambda: m["z"], lambda: m.update(3), lambda: m.update([3]),
        lambda: m.update([("a", 1, 2)]), lambda: m.__setitem__("x", 3), lambda: m.__setitem__("x.y", m),
        lambda: m.__setitem__("keys", m["b"]), lambda: m.__setitem__(3, m["b"]), lambda: m(3),
    )  # fmt: skip
    m.clear()
    return [*out, sizes(m), len(m)]


def entries(container):
    items = container.items() if hasattr(container, "items") else enumerate(container)
    return [[k, type(v).__name__, v.tolist() if hasattr(v, "tolist") else v] for k, v in items]


@scenario
def lists_of_parameters(torch):
    p = torch.nn.ParameterList([torch.ones(1), torch.nn.Parameter(torch.zeros(2)), 3, "text"])
    out = [entries(p), len(p), len(list(p.parameters())), list(p.state_dict()), p.append(torch.ones(2)) is p]
    p += [torch.zeros(1), None]
    p[0] = torch.full((3,), 7.0)
    out += [entries(p), entries(p[1:3]), type(p[:2]).__name__, entries(p.extend([5])), "0" in dir(p)]
    return out + attempts(
        lambda: p[99], lambda: p.extend(3), lambda: p.extend(torch.ones(2)), lambda: p(3), lambda: p.append()
    )


@scenario
def dictionaries_of_parameters(torch):
    p = torch.nn.ParameterDict({"a": torch.ones(1), "n": 3})
    p.update([("b", torch.zeros(1))])
    p.update({"c": torch.ones(2)})
    out = [entries(p), len(p), "a" in p, list(p), list(reversed(p)), p.get("z", 5), p.setdefault("d", 6)]
    out += [entries(p.copy()), entries(p | {"e": torch.ones(1)}), entries({"f": 1} | p), list(p.state_dict())]
    out += [p.popitem()[0], p.pop("a").tolist(), entries(p), entries(p.fromkeys(["x", "y"], 1))]
    p |= {"g": 2}
    del p["b"]
    out += [entries(p), len(list(p.parameters()))]
    out += attempts(
        lambda: p["z"], lambda: p.pop("z"), lambda: p.update(3), lambda: p.update([3]), lambda: p(3),
        lambda: p.update([(1, 2, 3)]),
    )  # fmt: skip
    p.clear()
    return [*out, entries(p), len(p)]


def tree(torch):
    net = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
    net.register_buffer("mark", torch.ones(1))
    net.extra = 3
    return net


@scenario
def members_by_path(torch):
    net = tree(torch)
    out = [net.get_submodule("1.0") is net[1][0], net.get_submodule("") is net]
    out += [net.get_parameter("0.weight") is net[0].weight, net.get_buffer("mark") is net.mark]
    out += [net.get_buffer("1.0.running_mean") is net[1][0].running_mean]
    net.set_submodule("1.0", torch.nn.ReLU())
    out.append(repr(net))
    net.set_submodule("1.new", torch.nn.Tanh())
    out.append(repr(net))
    tanh = torch.nn.Tanh()
    return out + attempts(
        lambda: net.get_submodule("1.7"), lambda: net.get_submodule("extra"),
        lambda: net.get_parameter("mark"), lambda: net.get_parameter("0.nothing"),
        lambda: net.get_buffer("0.weight"), lambda: net.get_buffer("no"),
        lambda: net.get_buffer("extra"), lambda: net.set_submodule("", tanh),
        lambda: net.set_submodule("0.zz", tanh, strict=True), lambda: net.set_submodule("1.0", 3),
        lambda: net.set_submodule("0.weight", tanh), lambda: net.set_submodule("8.9", tanh),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"])
def test_public_methods_exist(name):
    theirs = {n for n in dir(getattr(pytorch().nn, name)) if not n.startswith("_")}
    # Devices and a compiler that are not there.
    assert theirs - set(dir(getattr(fb.nn, name))) <= {"compile", "ipu", "mtia", "xpu", "T_destination"}
