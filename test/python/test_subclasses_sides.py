"""Subclasses of Tensor keep type, attributes and identity: the same programs in flambeau and PyTorch."""

import copy
import gc
import io
import pickle
import sys
import warnings
import weakref

import flambeau
import pytest
from sides import Scenarios, plain, raised

scenario = Scenarios()


class Module:
    """Classes of both frameworks, at places where pickle finds them."""


def _classes(fw):
    class Plain(fw.Tensor):
        pass

    class Slotted(fw.Tensor):
        __slots__ = ("unit",)

    class Stateful(fw.Tensor):
        def __getstate__(self):
            return {"unit": self.unit}

        def __setstate__(self, state):
            self.unit = state["unit"] + "!"

    class Built(fw.Tensor):
        @staticmethod
        def __new__(cls, data, unit="m"):
            made = fw.Tensor._make_subclass(cls, data)
            made.unit = unit
            return made

    return Plain, Slotted, Stateful, Built


def classes(fw):
    """The classes of a framework, made once and visible to pickle."""
    key = fw.__name__
    if not hasattr(Module, key):
        setattr(Module, key, _classes(fw))
        for made in getattr(Module, key):
            made.__qualname__ = f"{key}_{made.__name__}"
            made.__module__ = __name__
            setattr(sys.modules[__name__], made.__qualname__, made)
    return getattr(Module, key)


def names(results):
    return [type(r).__name__ for r in results]


@scenario
def operators_keep_the_class(torch):
    x = torch.arange(6.0).reshape(2, 3).as_subclass(classes(torch)[0])
    plain_ = torch.ones(2, 3)
    results = [
        x + 1,
        1 + x,
        x + plain_,
        plain_ + x,
        plain_ * x,
        -x,
        x @ x.t(),
        plain_ @ x.t(),
        x.sum(),
        x.exp(),
        x > 1,
        torch.cat([plain_, x]),
        torch.stack([x, x]),
        torch.where(x > 1, plain_, x),
        torch.nn.functional.relu(x),
        torch.nn.functional.linear(plain_, x),
        torch.einsum("ij->i", x),
        torch.zeros_like(x),
        x.new_zeros(2),
        torch.add(plain_, 1, out=x.clone()),
        x.double(),
        x.clone(),
        x.detach(),
        x.contiguous(),
        x.to(torch.int64),
        torch.linalg.norm(x),
        torch.fft.fft(x),
        torch.special.erf(x),
        x.bool(),
        ~x.bool(),
        abs(x),
        x**2,
        2**x,
    ]
    return names(results)


@scenario
def operators_without_tensors_do_not(torch):
    x = torch.ones(2).as_subclass(classes(torch)[0])
    return [
        type(r).__name__
        for r in (x.shape, x.numel(), x.tolist(), x[0].item(), x.dtype, x.stride(), x.numpy())
    ]


@scenario
def tuples_and_lists_are_of_the_class(torch):
    x = torch.arange(6.0).reshape(2, 3).as_subclass(classes(torch)[0])
    results = [
        x.split(1),
        x.unbind(),
        x.max(1),
        x.sort(),
        x.topk(1),
        x.chunk(2),
        torch.broadcast_tensors(x, x[0]),
        x.svd(),
        x.aminmax(),
        torch.meshgrid(x[0], x[1], indexing="ij"),
        tuple(x),
    ]
    return [names(r) for r in results]


@scenario
def views_keep_the_class_and_the_memory(torch):
    x = torch.arange(6.0).reshape(2, 3).as_subclass(classes(torch)[0])
    views = [
        x[0],
        x[:, 1],
        x.t(),
        x.T,
        x.mT,
        x.view(6),
        x.reshape(3, 2),
        x.unsqueeze(0),
        x[None],
        x.diagonal(),
        x.expand(2, 2, 3),
        x.narrow(0, 0, 1),
        x.real,
        x.data,
        x.squeeze(),
        x.permute(1, 0),
        x.flatten(),
    ]
    same = [v.data_ptr() == x.data_ptr() for v in views]
    return [names(views), same[:1] + same[2:]]


@scenario
def writes_in_place_keep_the_object(torch):
    x = torch.ones(2, 2).as_subclass(classes(torch)[0])
    before = id(x)
    x += 1
    same = [x.add_(1) is x, x.mul_(2) is x, x.zero_() is x, x.copy_(torch.ones(2, 2)) is x, id(x) == before]
    x[0] = 5
    y = torch.zeros(2, 2)
    y += x
    return [*same, type(x).__name__, type(y).__name__, plain(x), plain(y)]


@scenario
def gradients_and_leaves(torch):
    x = torch.ones(2).as_subclass(classes(torch)[0]).requires_grad_()
    (x * 3).sum().backward()
    y = (x * 2).sum()
    return [
        type(x.grad).__name__,
        x.is_leaf,
        type(y).__name__,
        y.grad_fn is not None,
        type(torch.autograd.grad(y, x)[0]).__name__,
    ]


@scenario
def attributes_stay_with_the_object(torch):
    x = torch.ones(2).as_subclass(classes(torch)[0])
    x.unit = "m"
    y = x + 1
    holder = [x]
    del x
    gc.collect()
    return [holder[0].unit, hasattr(y, "unit"), holder[0].__dict__]


@scenario
def slots(torch):
    x = torch.ones(2).as_subclass(classes(torch)[1])
    x.unit = "s"
    return [x.unit, hasattr(x + 1, "unit"), raised("unit", lambda: (x + 1).unit)[0]]


def reread(x):
    return pickle.loads(pickle.dumps(x))


@scenario
def pickling(torch):
    found = []
    for cls in classes(torch)[:3]:
        x = torch.arange(3.0).as_subclass(cls).requires_grad_()
        x.unit = "kg"
        y = reread(x)
        found += [type(y) is cls, y.unit, y.tolist(), y.requires_grad]
        pair = reread([x, x])
        found.append(pair[0] is pair[1])
    return found


@scenario
def copies(torch):
    found = []
    for cls in (classes(torch)[0], classes(torch)[1], classes(torch)[3]):
        x = torch.arange(3.0).as_subclass(cls)
        x.unit = ["kg"]
        y = copy.copy(x)
        found += [type(y) is cls, y.unit, y.unit is x.unit, y.data_ptr() == x.data_ptr()]
    return found


@scenario
def saving(torch):
    file = io.BytesIO()
    x = torch.arange(3.0).as_subclass(classes(torch)[0])
    x.unit = "kg"
    torch.save({"x": x, "y": torch.nn.Parameter(x)}, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    return [type(read["x"]).__name__, read["x"].unit, type(read["y"]).__name__, plain(read["y"])]


@scenario
def parameters(torch):
    x = torch.ones(2, 2).as_subclass(classes(torch)[0])
    x.unit = "kg"
    p = torch.nn.Parameter(x)
    module = torch.nn.Linear(2, 2)
    module.weight = p
    out = module(torch.ones(1, 2))
    out.sum().backward()
    return [
        type(p).__name__,
        isinstance(p, torch.nn.Parameter),
        p.requires_grad,
        hasattr(p, "unit"),
        type(out).__name__,
        type(p.grad).__name__,
        [n for n, _ in module.named_parameters()],
        type(module.double().weight).__name__,
        type(reread(module).weight).__name__,
        type(module.state_dict()["weight"]).__name__,
    ]


OPTIMIZERS = "SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD Rprop".split()


@scenario
def optimizers(torch):
    found = []
    for name in OPTIMIZERS:
        for foreach in (False, True):
            x = torch.arange(1.0, 4.0).as_subclass(classes(torch)[0]).requires_grad_()
            x.unit = "kg"
            optimizer = getattr(torch.optim, name)([x], lr=0.5, foreach=foreach)
            for _ in range(3):
                optimizer.zero_grad()
                (x * x).sum().backward()
                optimizer.step()
            found += [name, type(x).__name__, x.unit, x.requires_grad, [round(v, 4) for v in x.tolist()]]
    return found


@scenario
def weak_references_and_cycles(torch):
    cls = classes(torch)[0]
    x = torch.ones(2).as_subclass(cls)
    reference = weakref.ref(x)
    before = reference() is x
    x.own = x
    x.requires_grad_()
    del x
    gc.collect()
    held = torch.ones(2, requires_grad=True).as_subclass(cls)
    held.note = "kept"
    out = held * 2  # the graph keeps the tensor, and so its object
    again = weakref.ref(held)
    del held
    gc.collect()
    return [before, reference() is None, again() is None, out.sum().item()]


@scenario
def an_object_comes_back_from_the_graph(torch):
    x = torch.ones(2).as_subclass(classes(torch)[0]).requires_grad_()
    x.note = "kept"
    y = x.sum()
    node = y.grad_fn
    while not hasattr(node, "variable"):
        node = node.next_functions[0][0]
    del x
    gc.collect()
    return [type(node.variable).__name__, node.variable.note]


@scenario
def hooks_see_the_class(torch):
    seen = []
    x = torch.ones(2).as_subclass(classes(torch)[0]).requires_grad_()
    x.register_hook(lambda g: seen.append(type(g).__name__))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(type(p).__name__))
    (x * 2).sum().backward()
    return seen


@scenario
def constructors(torch):
    Plain, _, _, Built = classes(torch)
    made = Built(torch.ones(2), "cm")
    found = [type(made).__name__, made.unit, type(Plain([1.0, 2.0])).__name__, type(Plain(2, 3)).__name__]
    found.append(tuple(Plain(2, 3).shape))
    found.append(type(torch.Tensor._make_subclass(Plain, torch.ones(2), True)).__name__)
    found.append(raised("", torch.ones(2).as_subclass, int)[0])
    found.append(raised("", torch.Tensor._make_subclass, int, torch.ones(2))[0])
    return found


@scenario
def two_classes(torch):
    Plain, Slotted, *_ = classes(torch)

    class Derived(Plain):
        pass

    a, b, c = (torch.ones(2).as_subclass(cls) for cls in (Plain, Derived, Slotted))
    return [
        type(a + b).__name__,
        type(b + a).__name__,
        raised("", lambda: a + c)[0],
        raised("", lambda: b + c)[0],
    ]


@scenario
def isinstance_and_printing(torch):
    x = torch.ones(2).as_subclass(classes(torch)[0])
    return [
        isinstance(x, torch.Tensor),
        torch.is_tensor(x),
        repr(x).split("(")[0],
        f"{x[0]}",
        bool(x[0]),
        len(x),
    ]


test_as_in_pytorch = scenario.test()


@pytest.mark.parametrize("place", range(4))
def test_deep_copies(place):
    """PyTorch refuses those of classes without a `new_empty` of their own."""
    cls = classes(flambeau)[place]
    x = flambeau.arange(3.0).as_subclass(cls).requires_grad_()
    x.unit = ["kg"]
    first, second = copy.deepcopy((x, x))
    assert first is second
    assert type(first) is cls
    assert first.unit == ["kg"]
    assert first.unit is not x.unit
    assert first.requires_grad
    assert first.data_ptr() != x.data_ptr()
    module = flambeau.nn.Linear(2, 2)
    module.weight = flambeau.nn.Parameter(flambeau.ones(2, 2).as_subclass(cls))
    twice = copy.deepcopy(module).weight
    assert type(twice) is cls
    assert isinstance(twice, flambeau.nn.Parameter)


def test_threads_share_an_object():
    """The object of a tensor is one, in whichever thread it is asked for."""
    import threading

    x = flambeau.ones(2).as_subclass(classes(flambeau)[0]).requires_grad_()
    x.note = "kept"
    node = x.sum().grad_fn
    while not hasattr(node, "variable"):
        node = node.next_functions[0][0]
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(node.variable)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert all(variable is x for variable in seen)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol(protocol):
    x = flambeau.arange(3.0).as_subclass(classes(flambeau)[0])
    x.unit = [x.tolist()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = pickle.loads(pickle.dumps(x, protocol))
    assert type(y) is type(x)
    assert y.tolist() == [0, 1, 2]
